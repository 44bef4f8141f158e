"""Outcomes on their way to the store: two deliveries of one job, and results that are big."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from functory.execution.outbox import Outbox
from functory.intake.admission import Admission
from functory.intake.intake import Intake
from functory.loops.courtesy import LONG_STEP
from functory.loops.job_log import JobLog
from functory.loops.shared import make_shared
from functory.tenant_limits import TenantLimits
from journal import Journal
from runner.flow import Flow, FlowLimits
from store.base import Code, JobState, MakingEnd, ReleaseReport, Store
from store.errors import StoreError
from store.url import open_store
from tests.support.clocks import FakeClock
from tests.support.jobs import LEASE_MS, OWNER, T0, TENANT, archive, claim, claim_one, job_id, new_job, new_jobs
from vocabulary.new_job import NewJob as WantedJob


@asynccontextmanager
async def outbox(tmp_path: Path, store: Store, lines: list[str], flow: Flow | None = None) -> AsyncIterator[Outbox]:
    """One that works until the end of the block."""
    async with running(tmp_path, store, lines, flow) as (made, _):
        yield made


@asynccontextmanager
async def running(
    tmp_path: Path, store: Store, lines: list[str], flow: Flow | None = None
) -> AsyncIterator[tuple[Outbox, asyncio.Task[None]]]:
    clock = FakeClock(T0 + 2 * LEASE_MS)
    async with Journal(tmp_path / "journal", OWNER, clock=clock) as journal:
        shared = make_shared(store, journal, clock, OWNER, JobLog(lines.append))
        intake = Intake(shared, reader="test", earlier=tuple, rejects=tmp_path / "rejected.jsonl")
        made = Outbox(shared, intake, Admission(store, journal, clock.now_ms), lambda _: TenantLimits(), flow)
        task = asyncio.create_task(made.run())
        yield made, task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_both_deliveries_of_a_job_end_at_the_same_moment(tmp_path: Path) -> None:
    lines: list[str] = []
    async with open_store(f"sqlite://{tmp_path}/store.db") as store, outbox(tmp_path, store, lines) as box:
        await store.add_jobs(new_jobs(1), now_ms=T0)
        first = await claim_one(store)
        late_ms = T0 + LEASE_MS + 1
        assert await store.expire_locks(now_ms=late_ms) == 1
        second = await claim_one(store, now_ms=late_ms)
        box.put([(first, archive(first), ()), (second, archive(second), ())])
        async with asyncio.timeout(10):
            await box.empty()
        record = await store.get_job(TENANT, job_id(0), now_ms=late_ms)
    assert record is not None
    assert record.outcome is not None
    assert record.job.attempts == 2
    assert box.stale == 1
    assert [line.split(" attempt=")[1].split()[0] for line in lines] == ["2"], "the late one did not stop anything"


async def test_outcomes_on_their_way_are_counted_in_bytes_and_written_in_pieces(tmp_path: Path) -> None:
    flow = Flow(FlowLimits(tenant_bytes=1 << 20, total_bytes=2 << 20))
    async with open_store(f"sqlite://{tmp_path}/store.db") as store, outbox(tmp_path, store, [], flow) as box:
        await store.add_jobs(new_jobs(4), now_ms=T0)
        jobs = [await claim_one(store) for _ in range(4)]
        writes: list[int] = []
        box.when_released(lambda endings: writes.append(len(endings)))
        box.put([(job, archive(job), ()) for job in jobs], {(job.id, job.token): 5 << 20 for job in jobs})
        assert flow.total_bytes == 20 << 20
        assert not flow.has_room(TENANT)
        async with asyncio.timeout(10):
            await box.room(TENANT)
            await box.empty()
    assert writes == [1, 1, 1, 1]
    assert flow.total_bytes == 0


async def test_new_jobs_count_in_a_write_as_those_that_made_them_do(tmp_path: Path) -> None:
    """Or a write of two thousand outcomes would be one of two million jobs, and the event loop's for seconds."""
    async with open_store(f"sqlite://{tmp_path}/store.db") as store, outbox(tmp_path, store, []) as box:
        await store.add_jobs(new_jobs(5), now_ms=T0)
        jobs = [await claim_one(store) for _ in range(5)]
        writes: list[int] = []
        box.when_released(lambda endings: writes.append(len(endings)))
        many = (WantedJob("b", b"x"),) * (LONG_STEP // 2)
        box.put([(job, archive(job), many) for job in jobs], {(job.id, job.token): 1 for job in jobs})
        async with asyncio.timeout(10):
            await box.empty()
    assert writes == [2, 2, 1]


async def test_what_ends_after_the_outbox_has_failed_waits_for_the_end_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_given: Any, **_named: Any) -> Any:
        raise StoreError("refused")

    async with open_store(f"sqlite://{tmp_path}/store.db") as store:
        await store.add_jobs(new_jobs(2), now_ms=T0)
        jobs = [await claim_one(store) for _ in range(2)]
        monkeypatch.setattr(store, "release_jobs", refuse)
        async with running(tmp_path, store, []) as (box, task):
            box.put([(jobs[0], archive(jobs[0]), ())])
            async with asyncio.timeout(10):
                await asyncio.wait([task])
            other = jobs[1]._replace(jobtype="other-thumb")
            box.put([(other, archive(other), ())])
            with pytest.raises(ExceptionGroup):
                await task


async def test_runs_that_made_children_end_in_one_write_and_a_refusal_costs_its_own_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_store(f"sqlite://{tmp_path}/store.db") as store, outbox(tmp_path, store, []) as box:
        await store.create_job(new_job(100, unique="taken"), now_ms=T0)
        assert (await claim_one(store)).unique == "taken"
        await store.add_jobs(new_jobs(16), now_ms=T0)
        jobs = await claim(store, 16)
        sizes: list[int] = []
        real = store.release_with_jobs

        async def counted(owner: str, ends: Sequence[MakingEnd], *, now_ms: int) -> ReleaseReport:
            sizes.append(len(ends))
            return await real(owner, ends, now_ms=now_ms)

        monkeypatch.setattr(store, "release_with_jobs", counted)
        child, refused = WantedJob("child", b"c", "child=1"), WantedJob("thumb", b"r", "unique=taken")
        box.put([(job, archive(job), (child,)) for job in jobs[:8]])
        async with asyncio.timeout(10):
            await box.empty()
        assert sizes == [8]
        sizes.clear()
        box.put([(job, archive(job), (refused if job is jobs[13] else child,)) for job in jobs[8:]])
        async with asyncio.timeout(10):
            await box.empty()
        assert sizes == [8, 4, 4, 2, 1, 1, 2], "in halves"
        now_ms = T0 + 2 * LEASE_MS
        states = await store.get_states(TENANT, [job.id for job in jobs], now_ms=now_ms)
        codes = await store.get_codes(TENANT, [job.id for job in jobs])
        counters = {row.jobtype: row for row in await store.get_counters(TENANT, now_ms=now_ms)}
    assert {job_id for job_id, state in states.items() if state is not JobState.PAUSED} == {jobs[13].id}
    assert codes == {jobs[13].id: Code.FAILED}
    assert counters[f"{TENANT}-child"].waiting == 15, "each has its child, once"
