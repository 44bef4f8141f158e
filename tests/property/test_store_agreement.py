"""Random steps on every back end and on a plain model (tests/support/agreement.py)."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import rule

from store.base import (
    Creation,
    Discard,
    Job,
    JobChange,
    JournalPosition,
    Lease,
    NewJob,
    RateDomain,
    Release,
    Unclaim,
)
from store.values.positions import ANY
from tests.support.agreement import LEASE_MS, OWNERS, SETTINGS, TENANTS, Agreement
from tests.support.jobs import making
from tests.support.store_steps import (
    JOBTYPES,
    ages,
    from_now_on,
    job_id,
    new_jobs,
    numbers,
    offsets,
    payloads,
    said_again,
    schedule_changes,
)
from tests.support.stores import BACK_ENDS


class StoreAgreement(Agreement):
    @rule(jobs=st.lists(new_jobs(related=False), max_size=6))
    def add(self, jobs: list[NewJob]) -> None:
        self.both("add_jobs", [job._replace(dt_ms=self.now_ms + job.dt_ms) for job in jobs], now_ms=self.now_ms)

    @rule(job=new_jobs(related=True), keeps=st.just(frozenset[str]()) | said_again)
    def create(self, job: NewJob, keeps: frozenset[str]) -> None:
        job = job._replace(dt_ms=self.now_ms + job.dt_ms)
        self.both("create_jobs", [Creation(job, keeps)], now_ms=self.now_ms)

    @rule(
        jobtype=st.sampled_from(JOBTYPES),
        limit=st.integers(1, 8),
        owner=st.sampled_from(OWNERS),
        domain=st.sampled_from(["", "", "slow", "none"]),
    )
    def claim(self, jobtype: str, limit: int, owner: str, domain: str) -> None:
        how: dict[str, Any] = {"owner": owner, "lease_ms": LEASE_MS, "now_ms": self.now_ms, "domain": domain}
        jobs = self.both("claim_jobs", jobtype, limit, **how)
        self.delivered += [(owner, job) for job in jobs]

    def _plain(self, jobs: list[NewJob]) -> list[NewJob]:
        distinct = {job.id: job for job in jobs}.values()
        return [
            job._replace(dt_ms=self.now_ms + job.dt_ms, domain="", retry_after_ms=None, indexed=False, repeat="")
            for job in distinct
        ]

    @rule(jobs=st.lists(new_jobs(related=False), max_size=4), owner=st.sampled_from(OWNERS))
    def add_running(self, jobs: list[NewJob], owner: str) -> None:
        jobs = self._plain(jobs)
        new = {job.id for job in jobs} - self.model.entries.keys() - self.model.gone
        self.both("add_running_jobs", owner, jobs, lease_ms=LEASE_MS, now_ms=self.now_ms)
        self.delivered += [(owner, self.model.entries[job_id].job) for job_id in sorted(new)]

    @rule(jobs=st.lists(new_jobs(related=False), max_size=6), owner=st.sampled_from(OWNERS), data=st.data())
    def add_ended(self, jobs: list[NewJob], owner: str, data: st.DataObject) -> None:
        jobs = self._plain(jobs)
        first = Job("", "", b"", 0, "", 1, 1, 500, 0, 0)
        releases = [self._release(data, first._replace(id=job.id)) for job in jobs]
        self.both("add_ended_jobs", owner, jobs, releases, now_ms=self.now_ms)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if not self.delivered:
            return
        chosen = data.draw(st.lists(st.sampled_from(self.delivered), max_size=6))
        owner = data.draw(st.sampled_from(OWNERS))
        releases: dict[str, Release] = {}
        for _, job in chosen:
            releases[job.id] = self._release(data, job)
        self.both("release_jobs", owner, list(releases.values()), now_ms=self.now_ms)

    @rule(data=st.data(), jobs=st.lists(new_jobs(related=True), max_size=4), is_family=st.booleans())
    def release_with_jobs(self, data: st.DataObject, jobs: list[NewJob], is_family: bool) -> None:
        """The ends of up to two runs that made jobs: with is_family these are their children, if they are of their
        tenant."""
        if not self.delivered:
            return
        chosen = data.draw(st.lists(st.sampled_from(self.delivered), min_size=1, max_size=2))
        owner = chosen[0][0]
        makers = {job.id: job for job_owner, job in chosen if job_owner == owner}.values()
        releases = [self._release(data, job) for job in makers]
        known = self.model.entries.keys() | self.model.gone
        new = [one for one in {one.id: one for one in jobs}.values() if one.id not in known]
        ends = []
        for number, release in enumerate(releases):
            if isinstance(release, Unclaim | Discard):
                return
            made = [
                one._replace(
                    dt_ms=self.now_ms + one.dt_ms,
                    indexed=False,
                    unique="",
                    parent=release.id if is_family else one.parent,
                    repeat="" if is_family else one.repeat,
                )
                for one in new[number :: len(releases)]
            ]
            ends.append(making(release, *made))
        self.both("release_with_jobs", owner, ends, now_ms=self.now_ms)

    @rule(data=st.data(), owner=st.sampled_from(OWNERS))
    def renew(self, data: st.DataObject, owner: str) -> None:
        if self.delivered:
            chosen = data.draw(st.lists(st.sampled_from(self.delivered), max_size=4))
            leases = list({job.id: Lease(job.id, job.token) for _, job in chosen}.values())
            self.both("renew_locks", owner, leases, lease_ms=LEASE_MS, now_ms=self.now_ms)

    @rule(step_ms=st.integers(1, 80))
    def pass_time(self, step_ms: int) -> None:
        self.now_ms += step_ms

    @rule(owner=st.none() | st.sampled_from(OWNERS))
    def expire_locks(self, owner: str | None) -> None:
        self.both("expire_locks", now_ms=self.now_ms, owner=owner)

    @rule(
        done_age_ms=ages,
        waiting_age_ms=ages,
        failed_age_ms=st.none() | ages,
        jobtype=st.none() | st.sampled_from(JOBTYPES),
    )
    def expire_jobs(
        self, done_age_ms: int, waiting_age_ms: int, failed_age_ms: int | None, jobtype: str | None
    ) -> None:
        self.both(
            "expire_jobs",
            now_ms=self.now_ms,
            done_before_ms=self.now_ms - done_age_ms,
            waiting_before_ms=self.now_ms - waiting_age_ms,
            failed_before_ms=None if failed_age_ms is None else self.now_ms - failed_age_ms,
            jobtype=jobtype,
        )

    @rule(tenant=st.sampled_from(TENANTS), number=numbers, running=st.booleans())
    def cancel(self, tenant: str, number: int, *, running: bool) -> None:
        self.both("cancel_job", tenant, job_id(number), now_ms=self.now_ms, running=running)

    @rule(
        tenant=st.sampled_from(TENANTS),
        chosen=st.lists(numbers, max_size=8),
        offset=offsets,
        data=st.none() | payloads,
    )
    def replay(self, tenant: str, chosen: list[int], offset: int, data: bytes | None) -> None:
        ids = [job_id(n) for n in chosen]
        self.both("replay_jobs", tenant, ids, dt_ms=self.now_ms + offset, now_ms=self.now_ms, data=data)

    @rule(
        number=numbers,
        to=st.sampled_from(["acme-a", "acme-b"]),
        offset=offsets,
        data=st.none() | payloads,
        token=st.none() | st.integers(1, 3),
    )
    def move(self, number: int, to: str, offset: int, data: bytes | None, token: int | None) -> None:
        more = {"dt_ms": self.now_ms + offset, "now_ms": self.now_ms, "data": data, "token": token}
        self.both("move_job", "acme", job_id(number), to, **more)

    @rule(tenant=st.sampled_from(TENANTS), chosen=st.lists(numbers, max_size=4))
    def delete(self, tenant: str, chosen: list[int]) -> None:
        self.both("delete_jobs", tenant, [job_id(n) for n in chosen], now_ms=self.now_ms)

    @rule(number=numbers)
    def read_on(self, number: int) -> None:
        """A journal that may have every id; the greater ones are read again after a crash."""
        position = JournalPosition("j", "1", 0, 0, job_id(number), (ANY,))
        self.both("add_jobs", [], now_ms=self.now_ms, position=position)

    @rule()
    def expire_records(self) -> None:
        self.both("expire_records", now_ms=self.now_ms, audit_before_ms=0)

    @rule(
        tenant=st.sampled_from(TENANTS),
        number=numbers,
        token=st.none() | st.integers(1, 3),
        data=st.none() | payloads,
        offset=st.none() | offsets,
        at_rest=st.booleans(),
    )
    def update(
        self,
        tenant: str,
        number: int,
        token: int | None,
        data: bytes | None,
        offset: int | None,
        at_rest: bool,
    ) -> None:
        dt_ms = None if offset is None else self.now_ms + offset
        self.both("update_job", tenant, job_id(number), JobChange(data, dt_ms, token, at_rest), now_ms=self.now_ms)

    @rule(data=st.data(), change=schedule_changes(), in_place=st.sampled_from([True, True, True, False]))
    def change_schedule(self, data: st.DataObject, change: JobChange, in_place: bool) -> None:
        """Mostly of a job that repeats."""
        there = sorted(e.job.id for e in self.model.entries.values() if e.job.repeat and e.live)
        chosen = data.draw(st.sampled_from(there) if there and in_place else numbers.map(job_id))
        change = from_now_on(change, self.now_ms)
        entry = self.model.entries.get(chosen)
        tenant = "acme" if entry is None else entry.job.jobtype.partition("-")[0]
        self.both("update_job", tenant, chosen, change, now_ms=self.now_ms)

    @rule(jobtype=st.sampled_from(JOBTYPES), paused=st.booleans())
    def pause(self, jobtype: str, paused: bool) -> None:
        self.both("set_type_paused", jobtype.partition("-")[0], jobtype, paused=paused)

    @rule(burst=st.integers(1, 4), rate_per_s=st.sampled_from([8.0, 32.0]))
    def limit_rate(self, burst: int, rate_per_s: float) -> None:
        self.both("set_rate_domain", RateDomain("acme", "slow", rate_per_s, burst), now_ms=self.now_ms)


class ServersAgreement(StoreAgreement):
    """With the back ends that are behind a server: fewer examples, as each step of each is a round trip or more."""

    back_ends = tuple(BACK_ENDS)


StoreAgreement.TestCase.settings = settings(SETTINGS, max_examples=20)
ServersAgreement.TestCase.settings = settings(SETTINGS, max_examples=5)
TestStoreAgreement = pytest.mark.slow(StoreAgreement.TestCase)
TestServersAgreement = pytest.mark.slow(ServersAgreement.TestCase)
