"""A daemon is killed while its journal still has the line of a job that was deleted: the job stays away."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.operations.bulk import cancel_jobs, delete_jobs
from functory.operations.job_changes import delete_job
from store.base import Code, JobFilter, JobState
from tests.support.command_line import clean_environ
from tests.support.deleted_worker import WHO
from tests.support.service import running_daemon
from tests.support.store_audit import read_all
from tests.support.stores import BACK_ENDS, back_end_params

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=back_end_params())
async def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as url:
        yield url


class Killed:
    """The process that took the lines, until it is killed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self) -> str:
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode().strip()

    async def delete(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"delete\n")
        assert await self.says() == "1"

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def a_daemon_that_dies(folder: Path, url: str, kind: str) -> AsyncIterator[Killed]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.deleted_worker", str(folder), url, kind),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=clean_environ(),
        cwd=ROOT,
    )
    killed = Killed(process)
    try:
        async with asyncio.timeout(120):
            yield killed
    finally:
        await killed.kill()


async def has_replayed(daemon: Daemon) -> set[str]:
    """The ids that the store has when the lines of the earlier life were read again."""
    await daemon.intake.flush()
    return set(await read_all(daemon.store, "acme", daemon.clock.now_ms()))


@pytest.mark.parametrize("many", [False, True])
async def test_what_another_daemon_deleted_stays_away(tmp_path: Path, store_url: str, *, many: bool) -> None:
    async with a_daemon_that_dies(tmp_path / "a", store_url, "alone") as a:
        job_id = await a.says()
        async with running_daemon(tmp_path / "b", store=store_url, role="api") as b:
            if many:
                report = await delete_jobs(
                    service_of(b), WHO, "x", JobFilter(JobState.ARCHIVED), limit=10, dry_run=False
                )
                assert report.changed == 1
            else:
                assert await delete_job(service_of(b), WHO, job_id) == 1
            await a.kill()
        async with running_daemon(tmp_path / "a", store=store_url, role="api") as again:
            assert await has_replayed(again) == set()


async def test_what_was_deleted_beside_a_flood_stays_away(tmp_path: Path) -> None:
    """The position is before the oldest line in memory."""
    url = f"sqlite://{tmp_path}/store.db"
    async with a_daemon_that_dies(tmp_path / "a", url, "flood") as a:
        job_id = await a.says()
        await a.delete()
        await a.kill()
        async with running_daemon(tmp_path / "a", store=url, role="api") as again:
            there = await has_replayed(again)
            assert job_id not in there
            assert len(there) == 1499, "nothing else is lost"


async def test_what_another_daemon_cancelled_stays_cancelled(tmp_path: Path, store_url: str) -> None:
    """A cancelled job is kept, and known by its id."""
    async with running_daemon(tmp_path / "b", store=store_url, role="api") as b:
        async with a_daemon_that_dies(tmp_path / "a", store_url, "alone") as a:
            job_id = await a.says()
            await b.store.replay_jobs("acme", [job_id], dt_ms=b.clock.now_ms() + 10**9, now_ms=b.clock.now_ms())
            report = await cancel_jobs(
                service_of(b), WHO, "x", list(JobState), JobFilter(JobState.WAITING), limit=10, dry_run=False
            )
            assert report.changed == 1
        async with running_daemon(tmp_path / "a", store=store_url, role="api") as again:
            assert await has_replayed(again) == {job_id}
        record = await b.store.get_job("acme", job_id, now_ms=b.clock.now_ms())
    assert record is not None
    assert record.state is JobState.ARCHIVED
    assert record.outcome is not None
    assert record.outcome.code is Code.CANCELLED
