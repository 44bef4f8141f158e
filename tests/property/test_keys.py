"""Caps and order of keys against a model, under any mix of what can happen to a job.

FUNCTORY_KEY_EXAMPLES=500 plays as many histories on each back end.
"""

import asyncio
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.base import Job, JobChange, Rearm, Store, Unclaim
from store.names import PRIORITIES
from store.url import open_store
from tests.support.jobs import LEASE_MS, OWNER, T0, TENANT, archive, claim, job_id, new_job, outcome, retry
from tests.support.stores import BACK_ENDS, SLOW, back_end_params

PLACES = st.integers(0, 30)
DELAYS = st.sampled_from([0, 0, 5, 50])
STEPS = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(["", "a", "b", "c"]), st.sampled_from(PRIORITIES), DELAYS),
    st.tuples(st.just("add"), st.sampled_from(["a", "a", "b"]), st.just(500), st.just(0)),
    st.tuples(st.just("claim"), st.sampled_from([1, 2, 5, 100])),
    st.tuples(st.sampled_from(["ok", "unclaim"]), PLACES),
    st.tuples(st.sampled_from(["retry", "rearm", "defer"]), PLACES, DELAYS),
    st.tuples(st.sampled_from(["cancel", "urgent"]), PLACES),
    st.tuples(st.just("tick"), st.sampled_from([1, 10, 100])),
    st.tuples(st.just("lapse")),
)


@dataclass
class Kept:
    id: str
    key: str
    priority: int
    due_ms: int
    begun: bool = False
    running: Job | None = None

    @property
    def place(self) -> tuple[int, int, str]:
        return -self.priority, self.due_ms, self.id


class Model:
    def __init__(self, cap: int | None) -> None:
        self.cap = cap
        self.jobs: dict[str, Kept] = {}
        self.now_ms = T0

    def may_run(self, key: str) -> list[str]:
        """The jobs of a key that a claim without a limit takes now, in order."""
        mine = [job for job in self.jobs.values() if job.key == key]
        queued = sorted((job for job in mine if job.running is None), key=lambda job: job.place)
        due = [job.id for job in queued if job.due_ms <= self.now_ms]
        if not key or self.cap is None:
            return due
        again = min((job for job in queued if job.begun), key=lambda job: (job.due_ms, job.id), default=None)
        if self.cap == 1 and again is not None:
            due = [again.id] if again.due_ms <= self.now_ms else []
        return due[: max(self.cap - sum(job.running is not None for job in mine), 0)]

    def pick(self, place: int, *, running: bool) -> Kept | None:
        found = [job for job in self.jobs.values() if (job.running is not None) == running]
        return found[place % len(found)] if found else None


class Machine:
    def __init__(self, store: Store, cap: int | None) -> None:
        self.store = store
        self.model = Model(cap)
        self.number = 0

    async def do(self, what: str, *arguments: Any) -> None:
        if what in {"add", "claim", "tick", "lapse"}:
            await getattr(self, what)(*arguments)
        elif what in {"ok", "unclaim", "retry", "rearm"}:
            await self.end(what, *arguments)
        else:
            await self.change(what, *arguments)

    async def add(self, key: str, priority: int, delay_ms: int) -> None:
        self.number += 1
        due_ms = self.model.now_ms + delay_ms
        new = new_job(self.number, key=key, priority=priority, dt_ms=due_ms, unique=job_id(self.number))
        await self.store.create_job(new, now_ms=self.model.now_ms)
        self.model.jobs[new.id] = Kept(new.id, key, priority, due_ms)

    async def claim(self, limit: int) -> None:
        allowed = {key: self.model.may_run(key) for key in ("", "a", "b", "c")}
        got = await claim(self.store, limit, now_ms=self.model.now_ms, max_per_key=self.model.cap)
        assert len(got) == min(limit, sum(map(len, allowed.values()))), "a claim leaves nothing that may run"
        for key, expected in allowed.items():
            mine = [job.id for job in got if job.key == key]
            assert mine == expected[: len(mine)], "in order, within the cap"
        for job in got:
            self.model.jobs[job.id].running = job

    async def end(self, how: str, place: int, delay_ms: int = 0) -> None:
        kept = self.model.pick(place, running=True)
        if kept is None or kept.running is None:
            return
        job, due_ms = kept.running, self.model.now_ms + delay_ms
        release: Any = {
            "ok": archive(job),
            "unclaim": Unclaim(job.id, job.token),
            "retry": retry(job, due_ms),
            "rearm": Rearm(job.id, job.token, due_ms, outcome()),
        }[how]
        report = await self.store.release_jobs(OWNER, [release], now_ms=self.model.now_ms)
        assert report.applied == 1
        kept.running = None
        if how == "ok":
            del self.model.jobs[kept.id]
        elif how != "unclaim":
            kept.due_ms, kept.begun = due_ms, how == "retry"

    async def change(self, how: str, place: int, delay_ms: int = 0) -> None:
        kept = self.model.pick(place, running=False)
        if kept is None:
            return
        now_ms = self.model.now_ms
        if how == "cancel":
            await self.store.cancel_job(TENANT, kept.id, now_ms=now_ms)
            del self.model.jobs[kept.id]
        elif how == "urgent":
            self.number += 1
            again = new_job(self.number, key=kept.key, unique=kept.id, priority=1000)
            assert (await self.store.create_job(again, now_ms=now_ms)).id == kept.id
            kept.priority = 1000
        else:
            await self.store.update_job(TENANT, kept.id, JobChange(dt_ms=now_ms + delay_ms), now_ms=now_ms)
            kept.due_ms = now_ms + delay_ms

    async def tick(self, ms: int) -> None:
        self.model.now_ms += ms

    async def lapse(self) -> None:
        self.model.now_ms += LEASE_MS + 1
        await self.store.expire_locks(now_ms=self.model.now_ms)
        for job in self.model.jobs.values():
            job.running = None


@pytest.mark.parametrize("back_end", back_end_params())
def test_claims_keep_caps_and_order_and_leave_nothing_behind(back_end: str) -> None:
    examples = int(os.environ.get("FUNCTORY_KEY_EXAMPLES", "0")) or (5 if back_end in SLOW else 15)

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from([None, 1, 1, 2]), st.lists(STEPS, min_size=10, max_size=40))
    def play(cap: int | None, steps: list[tuple[Any, ...]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(_play(back_end, Path(folder), cap, steps))

    play()


async def _play(back_end: str, folder: Path, cap: int | None, steps: list[tuple[Any, ...]]) -> None:
    async with BACK_ENDS[back_end](folder) as url, open_store(url) as store:
        machine = Machine(store, cap)
        for step in steps:
            await machine.do(*step)
        await machine.lapse()
        while machine.model.jobs:
            await machine.tick(100)
            await machine.claim(100)
            for place in range(len(machine.model.jobs)):
                await machine.end("ok", place)
        counters = await store.get_counters(TENANT, now_ms=machine.model.now_ms)
        assert all((row.waiting, row.running, row.deferred) == (0, 0, 0) for row in counters)
