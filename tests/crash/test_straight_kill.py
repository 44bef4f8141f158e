"""A daemon killed at every step of the straight way: nothing that was acknowledged is lost, every job ends once."""

import asyncio
import sys
from functools import partial
from pathlib import Path

import pytest

from functory.daemon.daemon import Daemon
from store.base import Code
from tests.support.command_line import clean_environ
from tests.support.service import ended, running_daemon, until
from tests.support.store_audit import check_states, read_all
from tests.support.straight_worker import FLOOD, STEPS, STEPS_OF_A_FLOOD

ROOT = Path(__file__).parents[2]
NTH = {"before position": 1, "after position": 1}
"""The position alone is written once a second."""


async def is_at_rest(daemon: Daemon) -> bool:
    await daemon.intake.flush()
    rows = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
    return not sum(row.waiting + row.deferred + row.running for row in rows)


@pytest.mark.parametrize("step", STEPS)
async def test_killed_at(step: str, tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.straight_worker", str(tmp_path), step, str(NTH.get(step, 4))),
        stdout=asyncio.subprocess.PIPE,
        env=clean_environ(),
        cwd=ROOT,
    )
    told, _ = await process.communicate()
    assert process.returncode == 9, "the step was not reached"
    acknowledged = told.decode().split()
    async with running_daemon(tmp_path) as daemon:
        for job_id in acknowledged:
            record = await ended(daemon, job_id)
            assert record.outcome
            assert record.outcome.code is Code.OK
        await until(partial(is_at_rest, daemon))  # one that was not acknowledged may be running
        jobs = await read_all(daemon.store, "acme", daemon.clock.now_ms())
        assert len(jobs) - len(acknowledged) in {0, 1}, "one may have been taken without its answer"
        assert len(await check_states(daemon.store, "acme", daemon.clock.now_ms())) == len(jobs)
        (row,) = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
        assert row.ok == len(jobs), "each ended once"


@pytest.mark.parametrize("step", STEPS_OF_A_FLOOD)
async def test_a_flood_is_killed_at(step: str, tmp_path: Path) -> None:
    """In the second step of the kind, where there is one for sure."""
    nth = "2" if step.split(maxsplit=1)[1] in {"admitted", "written", "durable", "started"} else "1"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.straight_worker", str(tmp_path), step, nth, "flood"),
        stdout=asyncio.subprocess.PIPE,
        env=clean_environ(),
        cwd=ROOT,
    )
    async with asyncio.timeout(120):
        told, _ = await process.communicate()
    assert process.returncode == 9
    acknowledged = set(told.decode().split())
    async with running_daemon(tmp_path) as daemon:
        await until(partial(is_at_rest, daemon))
        jobs = await check_states(daemon.store, "acme", daemon.clock.now_ms())
        assert acknowledged <= jobs.keys()
        assert len(jobs) <= FLOOD
        assert {record.outcome and record.outcome.code for record in jobs.values()} <= {Code.OK}
        rows = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
        assert sum(row.ok for row in rows) == len(jobs), "each ended once"
