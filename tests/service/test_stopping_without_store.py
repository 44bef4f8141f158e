"""A daemon that stops while its store is away: it ends when its grace is over, and what it has in hand is not lost."""

import asyncio
from functools import partial
from pathlib import Path

import pytest

from functory.config import load_config
from functory.daemon.daemon import Daemon
from functory.loops.courtesy import LONG_STEP
from tests.support.away_store import fail_until
from tests.support.service import QUICK, ended, register, running_daemon, until
from tests.support.straight import ready, until_there_is
from tests.support.straight_times import set_straight_times


async def too_many_wait(daemon: Daemon) -> bool:
    return len(daemon.outbox._lanes.get("acme", ())) > LONG_STEP


async def test_a_batch_whose_outcomes_have_no_room_does_not_hold_up_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cancelled when the grace is over, and did not end before: it waited for room then, for the store."""
    set_straight_times(monkeypatch)
    daemon = Daemon(
        load_config({"data_dir": str(tmp_path), **QUICK, "poll": "10 s", "grace": "200ms", "slots": "3"}, {}).settings
    )
    await daemon.open()
    running = asyncio.create_task(daemon.run())
    gate = tmp_path / "gate"
    await register(daemon, "acme-slow", until_there_is(gate))
    await ready(daemon)
    fail_until(daemon, monkeypatch, "add_ended_jobs", asyncio.Event())
    fail_until(daemon, monkeypatch, "release_jobs", asyncio.Event())
    ids = await daemon.intake.write("acme-slow", [b"slow"])
    await until(partial(one_runs, daemon))
    for _ in range(8):
        ids += await daemon.intake.write("acme-x", [b"x"] * 1000)
    await until(partial(too_many_wait, daemon))
    daemon.quit()
    async with asyncio.timeout(20):
        await running
    gate.touch()
    async with running_daemon(tmp_path) as again:
        for job_id in (ids[0], ids[-1]):
            await ended(again, job_id)


async def one_runs(daemon: Daemon) -> bool:
    return "acme-slow" in daemon.straight.unseen("acme")
