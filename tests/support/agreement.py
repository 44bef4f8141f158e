"""A machine that takes the same random steps on every back end and on a plain model: all must answer alike, and be in
the same state.

After every step the whole of each store is read back and compared: every job with its disposition, its outcome and what
is kept of its rounds, all counters, the waiting types, the schedules, the usage. The clock only moves when a rule moves
it.
"""

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant

from store.base import Archive, Code, Discard, Finish, Job, Rearm, Release, Retry, Store, Unclaim
from store.errors import StoreError
from store.url import open_store
from store.values.transfer import DeletedRecord, Part
from tests.support.deleting_model import DeletingModel
from tests.support.jobs import T0
from tests.support.store_steps import final_codes, job_id, offsets, outcomes, payloads
from tests.support.stores import BACK_ENDS, SLOW

TENANTS = ("acme", "zeta")
OWNERS = ("o1", "o2")
LEASE_MS = 50
SLOW_EVERY = 10
"""A back end behind a server is read back as a whole after so many steps, and at the end."""

SETTINGS = settings(
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Agreement(RuleBasedStateMachine):
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
                assert record.schedule == entry.schedule, name
                counts = (record.children, record.pending_children)
                assert counts == (entry.job.children, len(entry.pending)), name
        gone = (await store.export(Part.DELETED)).records
        assert {record.id for record in gone if isinstance(record, DeletedRecord)} == self.model.gone, name
        counters = self.model.get_counters(now_ms=now_ms)
        assert await store.get_counters(None, now_ms=now_ms) == counters, name
        waiting = [(c.jobtype, c.waiting) for c in counters if c.waiting and not c.paused]
        listed = await store.get_waiting_jobtypes(now_ms=now_ms)
        assert [(w.jobtype, w.waiting) for w in listed] == waiting, name
        for tenant in TENANTS:
            repeating = (await store.list_repeating(tenant, now_ms=now_ms)).records
            assert [record.job.id for record in repeating] == self.model.list_repeating(tenant), name
            assert await store.get_usage(tenant) == self.model.get_usage(tenant), name
