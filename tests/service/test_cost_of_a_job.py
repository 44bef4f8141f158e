"""What one job costs, in counts that no machine changes: syncs, transactions, statements and their compilations,
turns of the event loop.

Whoever adds one sees it here. The figures are those of jobs that come one by one and go the straight way.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import functory.intake.journal_reader
from functory.daemon.daemon import Daemon
from functory.operations import workers as operations
from functory.workers.values import Order, Report, Worker
from tests.support.service import register, running_daemon
from tests.support.straight_times import set_straight_times
from tests.support.workers import ACME, held, open_shop

JOBS = 50
NOISE = 0.2
"""Upkeep goes on meanwhile: looks and renewals."""


@pytest.fixture
async def counts(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Counter[str]]:
    counted: Counter[str] = Counter()

    def count_statement(_cursor: Any, sql: str, _bindings: Any) -> bool:
        counted["transactions" if sql.startswith("BEGIN IMMEDIATE") else "statements"] += 1
        return True

    def count_compiled(action: int, *_: Any) -> int:
        counted["compiled"] += action != apsw.SQLITE_READ
        return apsw.SQLITE_OK

    def trace(connection: apsw.Connection) -> None:
        connection.exec_trace = count_statement
        connection.authorizer = count_compiled

    fdatasync = os.fdatasync

    def count_sync(fd: int) -> None:
        counted["journal syncs"] += 1
        fdatasync(fd)

    loop: Any = asyncio.get_running_loop()
    run_once = loop._run_once

    def count_turn() -> None:
        counted["turns"] += 1
        run_once()

    set_straight_times(monkeypatch)
    monkeypatch.setattr(functory.intake.journal_reader, "_KEEP_AFTER_S", 3600.0)
    monkeypatch.setattr(os, "fdatasync", count_sync)
    monkeypatch.setattr(loop, "_run_once", count_turn, raising=False)
    apsw.connection_hooks.append(trace)
    yield counted
    apsw.connection_hooks.remove(trace)


async def per_job(daemon: Daemon, counts: Counter[str]) -> dict[str, float]:
    """One job after the other, each waited for."""
    ended = asyncio.Event()
    daemon.outbox.when_released(lambda _: ended.set())

    async def run(jobs: int) -> None:
        for _ in range(jobs):
            ended.clear()
            await daemon.intake.write("acme-x", [b"1"])
            await ended.wait()

    await run(5)
    counts.clear()
    await run(JOBS)
    return {name: count / JOBS for name, count in counts.items()}


async def test_a_single_job_on_the_straight_way(tmp_path: Path, counts: Counter[str]) -> None:
    async with running_daemon(tmp_path, poll="10s") as daemon:
        await register(daemon, "acme-x", "return payload")
        cost = await per_job(daemon, counts)
    assert cost["journal syncs"] == 1
    assert cost["transactions"] <= 1 + NOISE
    assert cost["statements"] <= 10 + NOISE
    assert cost.get("compiled", 0) <= 1, "0 and whatever upkeep does for the first time"
    assert cost["turns"] <= 14


async def test_a_single_job_on_the_long_way(tmp_path: Path, counts: Counter[str]) -> None:
    async with running_daemon(tmp_path, poll="10s", straight="off") as daemon:
        await register(daemon, "acme-x", "return payload")
        cost = await per_job(daemon, counts)
    assert cost["journal syncs"] == 1
    assert cost["transactions"] <= 3 + NOISE
    assert cost["statements"] <= 31 + NOISE
    assert cost.get("compiled", 0) <= 1, "0 and whatever upkeep does for the first time"
    assert cost["turns"] <= 28


async def test_a_worker_that_reports_a_job_and_takes_the_next(tmp_path: Path, counts: Counter[str]) -> None:
    order = Order("acme", ("resize",), worker=Worker("w"))
    async with open_shop(tmp_path, poll="10s") as shop:
        await shop.serve("resize")
        await shop.post(*map(str, range(JOBS + 10)))
        (job,) = await operations.take(shop.service, ACME, order)
        for number in range(JOBS + 5):
            if number == 5:
                counts.clear()
            _, (job,) = await operations.report_and_take(shop.service, ACME, [Report(held(job), 200)], order)
        cost = {name: count / JOBS for name, count in counts.items()}
    assert cost["transactions"] <= 1.7, "1 unless the machine is slow; a report and a take one after the other are 2"
    assert cost["statements"] <= 15 + NOISE
    assert cost.get("compiled", 0) <= 1, "0 and whatever upkeep does for the first time"
    assert cost["turns"] <= 9
