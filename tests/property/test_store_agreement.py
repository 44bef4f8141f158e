"""Random steps on every back end and on a plain model: all must answer alike and be in the same state.

After every step the whole of each store is read back and compared: every job with its disposition and
outcome, all counters, the waiting types, the usage. The clock only moves when a rule moves it.
"""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from store.base import (
    Archive,
    Code,
    Discard,
    Finish,
    Job,
    JobChange,
    JournalPosition,
    Lease,
    NewJob,
    Outcome,
    RateDomain,
    Rearm,
    Release,
    Retry,
    Store,
    Unclaim,
)
from store.errors import StoreError
from store.names import PRIORITIES
from store.url import open_store
from store.values.positions import ANY
from store.values.transfer import DeletedRecord, Part
from tests.support.deleting_model import DeletingModel
from tests.support.jobs import making
from tests.support.stores import BACK_ENDS, SLOW

T0 = 1_800_000_000_000
TENANTS = ("acme", "zeta")
JOBTYPES = ("acme-a", "acme-b", "zeta-a")
OWNERS = ("o1", "o2")
LEASE_MS = 50
SLOW_EVERY = 10
"""A back end behind a server is read back as a whole after so many steps, and at the end."""

numbers = st.integers(0, 25)
payloads = st.sampled_from([b"", b"x", b"\x00" * 3000])
offsets = st.integers(-60, 120)
ages = st.integers(0, 300)
final_codes = st.sampled_from([Code.OK, Code.OK, Code.FAILED, Code.ABANDONED])


def job_id(number: int) -> str:
    return f"id-{number:03d}"


@st.composite
def new_jobs(draw: st.DrawFn, *, related: bool) -> NewJob:
    parents = st.sampled_from(["", ""]) | numbers.map(job_id)
    return NewJob(
        job_id(draw(numbers)),
        draw(st.sampled_from(JOBTYPES)),
        draw(payloads),
        dt_ms=draw(offsets),  # relative: the rule adds the clock
        create_ms=T0,
        priority=draw(st.sampled_from(PRIORITIES)),
        domain=draw(st.sampled_from(["", "", "slow"])),
        retry_after_ms=draw(st.sampled_from([None, None, 20])),
        indexed=draw(st.booleans()),
        unique=draw(st.sampled_from(["", "u1", "u2"])) if related else "",
        parent=draw(parents) if related else "",
    )


@st.composite
def outcomes(draw: st.DrawFn, codes: st.SearchStrategy[Code]) -> Outcome:
    code = draw(codes)
    return Outcome(
        code,
        {Code.RETRY: 100, Code.OK: 200, Code.FAILED: 400, Code.ERROR: 500}.get(code, 504),
        started_ms=T0,
        duration_us=draw(st.integers(0, 10**6)),
        result=draw(st.none() | payloads),
        log=draw(st.sampled_from([b"", b"log"])),
    )


class StoreAgreement(RuleBasedStateMachine):
    back_ends = tuple(name for name in BACK_ENDS if name not in SLOW)

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.now_ms = T0
        self.steps = 0
        self.model = DeletingModel()
        self.delivered: list[tuple[str, Job]] = []
        self.stores: dict[str, Store] = {}
        self.folder = tempfile.TemporaryDirectory()
        try:
            for name in self.back_ends:
                folder = Path(self.folder.name) / name
                folder.mkdir()
                self.runner.run(self._open(name, folder))
        except BaseException:  # there is no teardown for what was not set up, and a server may be missing
            self._close()
            raise

    async def _open(self, name: str, folder: Path) -> None:
        url = await self.stack.enter_async_context(BACK_ENDS[name](folder))
        self.stores[name] = await self.stack.enter_async_context(open_store(url))

    def teardown(self) -> None:
        for name, store in self.stores.items():
            self.runner.run(self._compare(name, store))
        self._close()

    def _close(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()
        self.folder.cleanup()

    def both(self, verb: str, *args: Any, **kwargs: Any) -> Any:
        """Run a verb on the model and on every store; all answers, or all errors, must be the same."""
        expected: Any
        try:
            expected = getattr(self.model, verb)(*args, **kwargs)
        except StoreError as error:
            expected = type(error)
        for name, store in self.stores.items():
            answer: Any
            try:
                answer = self.runner.run(getattr(store, verb)(*args, **kwargs))
            except StoreError as error:
                answer = type(error)
            assert answer == expected, f"{name}: {verb}{args}"
        return expected

    @rule(jobs=st.lists(new_jobs(related=False), max_size=6))
    def add(self, jobs: list[NewJob]) -> None:
        self.both("add_jobs", [job._replace(dt_ms=self.now_ms + job.dt_ms) for job in jobs], now_ms=self.now_ms)

    @rule(job=new_jobs(related=True))
    def create(self, job: NewJob) -> None:
        self.both("create_job", job._replace(dt_ms=self.now_ms + job.dt_ms), now_ms=self.now_ms)

    @rule(jobtype=st.sampled_from(JOBTYPES), limit=st.integers(1, 8), owner=st.sampled_from(OWNERS))
    def claim(self, jobtype: str, limit: int, owner: str) -> None:
        jobs = self.both("claim_jobs", jobtype, limit, owner=owner, lease_ms=LEASE_MS, now_ms=self.now_ms)
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
                )
                for one in new[number :: len(releases)]
            ]
            ends.append(making(release, *made))
        self.both("release_with_jobs", owner, ends, now_ms=self.now_ms)

    def _release(self, data: st.DataObject, job: Job) -> Release:
        kind = data.draw(st.sampled_from(["archive", "archive", "retry", "unclaim", "rearm", "discard", "finish"]))
        dt_ms = self.now_ms + data.draw(offsets)
        if kind == "archive":
            return Archive(job.id, job.token, data.draw(outcomes(final_codes)))
        if kind == "finish":
            return Finish(job.id, job.token, data.draw(outcomes(final_codes)), data.draw(payloads))
        if kind == "discard":
            return Discard(job.id, job.token, data.draw(outcomes(final_codes)))
        if kind == "retry":
            codes = st.sampled_from([Code.RETRY, Code.ERROR])
            return Retry(job.id, job.token, dt_ms, data.draw(outcomes(codes)), data.draw(st.none() | payloads))
        if kind == "rearm":
            outcome = data.draw(outcomes(final_codes))
            return Rearm(job.id, job.token, dt_ms, outcome, data.draw(st.none() | payloads))
        return Unclaim(job.id, job.token)

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

    @rule(done_age_ms=ages, waiting_age_ms=ages, failed_age_ms=st.none() | ages)
    def expire_jobs(self, done_age_ms: int, waiting_age_ms: int, failed_age_ms: int | None) -> None:
        self.both(
            "expire_jobs",
            now_ms=self.now_ms,
            done_before_ms=self.now_ms - done_age_ms,
            waiting_before_ms=self.now_ms - waiting_age_ms,
            failed_before_ms=None if failed_age_ms is None else self.now_ms - failed_age_ms,
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

    @rule(jobtype=st.sampled_from(JOBTYPES), paused=st.booleans())
    def pause(self, jobtype: str, paused: bool) -> None:
        self.both("set_type_paused", jobtype.partition("-")[0], jobtype, paused=paused)

    @rule(burst=st.integers(1, 4), rate_per_s=st.sampled_from([8.0, 32.0]))
    def limit_rate(self, burst: int, rate_per_s: float) -> None:
        self.both("set_rate_domain", RateDomain("acme", "slow", rate_per_s, burst), now_ms=self.now_ms)

    @invariant()
    def same_state(self) -> None:
        self.steps += 1
        for name, store in self.stores.items():
            if name not in SLOW or self.steps % SLOW_EVERY == 0:
                self.runner.run(self._compare(name, store))

    async def _compare(self, name: str, store: Store) -> None:
        now_ms = self.now_ms
        for number in range(26):
            entry = self.model.entries.get(job_id(number))
            for tenant in TENANTS:
                record = await store.get_job(tenant, job_id(number), now_ms=now_ms)
                if entry is None or not entry.job.jobtype.startswith(tenant):
                    assert record is None, name
                    continue
                assert record is not None, f"{name} lost {entry}"
                assert record.job == entry.job, name
                assert record.outcome == entry.outcome, name
                assert record.history == entry.history, name
                assert record.done_ms == entry.done_ms, name
                counts = (record.children, record.pending_children)
                assert counts == (len(entry.children), len(entry.pending)), name
        gone = (await store.export(Part.DELETED)).records
        assert {record.id for record in gone if isinstance(record, DeletedRecord)} == self.model.gone, name
        counters = self.model.get_counters(now_ms=now_ms)
        assert await store.get_counters(None, now_ms=now_ms) == counters, name
        waiting = [(c.jobtype, c.waiting) for c in counters if c.waiting and not c.paused]
        listed = await store.get_waiting_jobtypes(now_ms=now_ms)
        assert [(w.jobtype, w.waiting) for w in listed] == waiting, name
        for tenant in TENANTS:
            assert await store.get_usage(tenant) == self.model.get_usage(tenant), name


class ServersAgreement(StoreAgreement):
    """With the back ends that are behind a server: fewer examples, as each step of each is a round trip or more."""

    back_ends = tuple(BACK_ENDS)


_SETTINGS = settings(
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
StoreAgreement.TestCase.settings = settings(_SETTINGS, max_examples=20)
ServersAgreement.TestCase.settings = settings(_SETTINGS, max_examples=5)
TestStoreAgreement = pytest.mark.slow(StoreAgreement.TestCase)
TestServersAgreement = pytest.mark.slow(ServersAgreement.TestCase)
