"""Leases that were taken away while their job runs: each is counted once, and a release under way is none."""

import asyncio
from pathlib import Path

from store.base import JobState
from tests.support.service import register, running_daemon, until

GATED = """
import os, time
while not os.path.exists(payload): time.sleep(0.01)
"""
LEASE_MS = 3_600_000


async def test_a_lost_lease_is_counted_once_and_not_at_the_first_doubt(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    async with running_daemon(tmp_path / "data", lease="1h") as daemon:
        await register(daemon, "acme-x", GATED)
        (id_,) = await daemon.journal.write("acme-x", [str(gate)])

        async def is_running() -> bool:
            record = await daemon.store.get_job("acme", id_, now_ms=daemon.clock.now_ms())
            return record is not None and record.state == JobState.RUNNING

        await until(is_running)
        daemon.pause()  # or it would claim the job again
        assert await daemon.store.expire_locks(now_ms=daemon.clock.now_ms() + LEASE_MS + 1) == 1
        counts = []
        for _ in range(4):
            await daemon._upkeep.renew_leases()
            counts.append(daemon.gauges()["leases_lost_total"])
        await asyncio.to_thread(gate.touch)
    assert counts == [0, 1, 1, 1]
