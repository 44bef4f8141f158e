"""Random lives of a few schedules and of their children, on every back end and on a plain model
(tests/support/agreement.py). The steps fit what is there, so that most of them change something."""

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import initialize, precondition, rule

from store.base import Creation, JobChange, NewJob, Rearm, Release, Timing
from store.names import PRIORITIES
from tests.support.agreement import LEASE_MS, OWNERS, SETTINGS, Agreement
from tests.support.jobs import T0, making
from tests.support.model_entry import Entry
from tests.support.schedules import HOURLY
from tests.support.store_steps import (
    ages,
    final_codes,
    from_now_on,
    job_id,
    offsets,
    outcomes,
    payloads,
    said_again,
    schedule_changes,
)
from tests.support.stores import BACK_ENDS

TENANT, JOBTYPE, CHILD = "acme", "acme-a", "acme-b"
OWNER = OWNERS[0]
COUNT = 8
"""Of all jobs; the first are schedules."""

delays = st.integers(0, 120)


def _there_is(which: Callable[[Entry], bool]) -> Callable[["ScheduleAgreement"], bool]:
    return lambda machine: any(map(which, machine.model.entries.values()))


class ScheduleAgreement(Agreement):
    @initialize(offsets=st.lists(offsets, min_size=2, max_size=3))
    def add_schedules(self, offsets: list[int]) -> None:
        for number, offset in enumerate(offsets):
            self._create(number, b"first", offset, repeat=HOURLY, unique=f"u{number}")

    def _create(self, number: int, data: bytes, offset: int, **fields: Any) -> None:
        job = NewJob(job_id(number), CHILD if "parent" in fields else JOBTYPE, data, self.now_ms + offset, T0)
        self.both("create_jobs", [Creation(job._replace(**fields))], now_ms=self.now_ms)

    def _one(self, data: st.DataObject, which: Callable[[Entry], bool]) -> Entry:
        found = sorted(job_id for job_id, entry in self.model.entries.items() if which(entry))
        return self.model.entries[data.draw(st.sampled_from(found))]

    @precondition(_there_is(lambda it: it.queued))
    @rule(data=st.data(), late_ms=st.integers(0, 40))
    def claim(self, data: st.DataObject, late_ms: int) -> None:
        """What is queued, when it is due or later."""
        job = self._one(data, lambda it: it.queued).job
        self.now_ms = max(self.now_ms, job.due_ms + late_ms)
        self.both("claim_jobs", job.jobtype, 4, owner=OWNER, lease_ms=LEASE_MS, now_ms=self.now_ms)

    @precondition(_there_is(lambda it: it.running))
    @rule(data=st.data(), is_next=st.booleans())
    def end(self, data: st.DataObject, is_next: bool) -> None:
        """A run, or the round of a schedule."""
        job = self._one(data, lambda it: it.running).job
        release: Release = self._release(data, job)
        if job.repeat and is_next:
            dt_ms = self.now_ms + data.draw(delays)
            release = Rearm(job.id, job.token, dt_ms, data.draw(outcomes(final_codes)), data.draw(st.none() | payloads))
        self.both("release_jobs", OWNER, [release], now_ms=self.now_ms)

    @precondition(_there_is(lambda it: it.running))
    @rule(data=st.data(), number=st.integers(3, COUNT - 1))
    def end_round_with_child(self, data: st.DataObject, number: int) -> None:
        """Of one that does not repeat, too."""
        job = self._one(data, lambda it: it.running).job
        if job_id(number) in self.model.entries or job.jobtype == CHILD:
            return
        outcome, dt_ms = data.draw(outcomes(final_codes)), self.now_ms + data.draw(delays)
        release = Rearm(job.id, job.token, dt_ms, outcome)
        child = NewJob(job_id(number), CHILD, b"child", self.now_ms + data.draw(offsets), T0, parent=job.id)
        self.both("release_with_jobs", OWNER, [making(release, child)], now_ms=self.now_ms)

    @precondition(_there_is(lambda it: it.running and it.job.jobtype == JOBTYPE))
    @rule(data=st.data(), number=st.integers(3, COUNT - 1), offset=offsets)
    def add_child(self, data: st.DataObject, number: int, offset: int) -> None:
        parent = self._one(data, lambda it: it.running and it.job.jobtype == JOBTYPE)
        self._create(number, b"child", offset, parent=parent.job.id)

    @precondition(_there_is(lambda it: it.live))
    @rule(data=st.data(), change=schedule_changes())
    def change(self, data: st.DataObject, change: JobChange) -> None:
        entry = self._one(data, lambda it: it.live)
        change = from_now_on(change, self.now_ms)
        self.both("update_job", TENANT, entry.job.id, change, now_ms=self.now_ms)

    @precondition(_there_is(lambda it: it.on_hold or (it.queued and not it.has_begun)))
    @rule(data=st.data(), offset=offsets)
    def run_once_more(self, data: st.DataObject, offset: int) -> None:
        entry = self._one(data, lambda it: it.on_hold or (it.queued and not it.has_begun))
        change = JobChange(dt_ms=self.now_ms + offset, timing=Timing.EXTRA)
        self.both("update_job", TENANT, entry.job.id, change, now_ms=self.now_ms)

    @precondition(_there_is(lambda it: it.live and it.schedule.pause is not None))
    @rule(data=st.data(), offset=offsets)
    def resume(self, data: st.DataObject, offset: int) -> None:
        entry = self._one(data, lambda it: it.live and it.schedule.pause is not None)
        change = JobChange(resume_ms=self.now_ms + offset)
        self.both("update_job", TENANT, entry.job.id, change, now_ms=self.now_ms)

    @rule(
        number=st.integers(0, 2),
        data=st.sampled_from([b"first", b"x"]),
        repeat=st.sampled_from(["", HOURLY, "0 9 * * *"]),
        priority=st.sampled_from(PRIORITIES),
        offset=offsets,
        keeps=st.just(frozenset[str]()) | said_again,
    )
    def say_again(
        self, number: int, data: bytes, repeat: str, priority: int, offset: int, keeps: frozenset[str]
    ) -> None:
        job = NewJob(
            job_id(COUNT), JOBTYPE, data, self.now_ms + offset, T0, priority, repeat=repeat, unique=f"u{number}"
        )
        if any(it.live and it.job.unique == job.unique for it in self.model.entries.values()):
            self.both("create_jobs", [Creation(job, keeps)], now_ms=self.now_ms)

    @precondition(_there_is(lambda it: not it.live))
    @rule(data=st.data(), delay_ms=delays, payload=st.none() | payloads)
    def replay(self, data: st.DataObject, delay_ms: int, payload: bytes | None) -> None:
        ids = [self._one(data, lambda it: not it.live).job.id]
        self.both("replay_jobs", TENANT, ids, dt_ms=self.now_ms + delay_ms, now_ms=self.now_ms, data=payload)

    @precondition(_there_is(lambda it: it.live))
    @rule(data=st.data(), running=st.booleans())
    def cancel(self, data: st.DataObject, running: bool) -> None:
        job = self._one(data, lambda it: it.live).job
        self.both("cancel_job", TENANT, job.id, now_ms=self.now_ms, running=running)

    @precondition(_there_is(lambda it: not it.live))
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        self.both("delete_jobs", TENANT, [self._one(data, lambda it: not it.live).job.id], now_ms=self.now_ms)

    @rule(age_ms=ages, is_done=st.booleans())
    def expire_jobs(self, age_ms: int, is_done: bool) -> None:
        old_ms = self.now_ms - age_ms
        done_ms, waiting_ms = (old_ms, 0) if is_done else (0, old_ms)
        self.both("expire_jobs", now_ms=self.now_ms, done_before_ms=done_ms, waiting_before_ms=waiting_ms)

    @precondition(_there_is(lambda it: it.running))
    @rule(is_gone=st.booleans())
    def expire_locks(self, is_gone: bool) -> None:
        self.both("expire_locks", now_ms=self.now_ms, owner=OWNER if is_gone else None)

    @rule(step_ms=st.integers(1, 80))
    def pass_time(self, step_ms: int) -> None:
        self.now_ms += step_ms


class ServersAgreement(ScheduleAgreement):
    """With the back ends that are behind a server."""

    back_ends = tuple(BACK_ENDS)


ScheduleAgreement.TestCase.settings = settings(SETTINGS, max_examples=20)
ServersAgreement.TestCase.settings = settings(SETTINGS, max_examples=5)
TestScheduleAgreement = pytest.mark.slow(ScheduleAgreement.TestCase)
TestServersAgreement = pytest.mark.slow(ServersAgreement.TestCase)
