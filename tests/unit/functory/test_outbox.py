"""Outcomes of two deliveries of one job: both are delivered, one counts, and the log has that one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from functory.backlog import Backlog
from functory.courtesy import Courtesy
from functory.joblog import JobLog
from functory.outbox import Outbox
from functory.progress import Progress
from journal import Journal
from store.base import Store
from store.url import open_store
from tests.support.clocks import FakeClock
from tests.support.jobs import LEASE_MS, OWNER, T0, TENANT, archive, claim_one, job_id, new_jobs


@asynccontextmanager
async def outbox(tmp_path: Path, store: Store, lines: list[str]) -> AsyncIterator[Outbox]:
    """One that works until the end of the block."""
    clock = FakeClock(T0 + 2 * LEASE_MS)
    async with Journal(tmp_path / "journal", OWNER, clock=clock) as journal:
        progress = Progress(clock.monotonic_s)
        made = Outbox(
            store,
            Backlog(journal, store, clock, on_added=lambda _: None, progress=progress, courtesy=Courtesy(clock)),
            clock,
            owner=OWNER,
            on_released=lambda _: None,
            progress=progress,
            courtesy=Courtesy(clock),
            joblog=JobLog(lines.append),
        )
        task = asyncio.create_task(made.run())
        yield made
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
