"""Keys on a running daemon: its contexts run the jobs of a key one after the other."""

import asyncio
from pathlib import Path

from functory.daemon.daemon import Daemon
from functory.intake.job_options import JobOptions
from tests.support.service import ended, register, running_daemon


async def post(daemon: Daemon, key: str, count: int) -> list[str]:
    return await daemon.intake.write("acme-book", [b"x"] * count, JobOptions(key=key))


async def ends(daemon: Daemon, job_ids: list[str]) -> list[tuple[int, int]]:
    """When each of the jobs began and ended, in microseconds."""
    records = [await ended(daemon, job_id) for job_id in job_ids]
    outcomes = [record.outcome for record in records if record.outcome is not None]
    return [(1000 * one.started_ms, 1000 * one.started_ms + one.duration_us) for one in outcomes]


async def test_jobs_of_a_key_run_one_after_the_other(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, slots="4") as daemon:
        await register(daemon, "acme-book", "return sum(range(100_000))", options={"max_per_key": 1})
        ids = {key: await post(daemon, key, 12) for key in ("ada", "bob", "")}
        async with asyncio.timeout(60):
            spans = {key: await ends(daemon, mine) for key, mine in ids.items()}
        for key in ("ada", "bob"):
            for (_, end), (start, _) in zip(spans[key], spans[key][1:], strict=False):
                assert start >= end - 2000, "in the order in which they were posted; times are of whole milliseconds"
