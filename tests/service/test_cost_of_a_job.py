"""What one job costs, in counts that no machine changes: syncs, transactions, statements and their compilations,
turns of the event loop, calls in it.

Whoever adds one sees it here. Jobs come one by one. A job during which the machine was slow, or upkeep had something
to do, costs more; so the figure is that of the cheapest quarter of them, at most.
"""

import asyncio
import os
import secrets
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import pytest

import functory.intake.journal_reader
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.operations import workers as operations
from functory.operations.idempotency import Fingerprint
from functory.operations.submit import Submission, submit_once
from functory.workers.values import Order, Report, Worker
from tests.support.service import register, running_daemon
from tests.support.straight_times import set_straight_times
from tests.support.workers import ACME, held, open_shop

JOBS = 52
WARM_UP = 5
NAMES = ("journal syncs", "transactions", "statements", "compiled", "turns")
MOST_CALLS = 620
"""Of Python functions, in the event loop."""


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


async def cost_of(
    run_one: Callable[[], Awaitable[None]], counts: Counter[str], names: Sequence[str] = NAMES
) -> dict[str, int]:
    """What a quarter of the jobs cost at most, by name."""
    for _ in range(WARM_UP):
        await run_one()
    costs: list[Counter[str]] = []
    for _ in range(JOBS):
        counts.clear()
        await run_one()
        costs.append(counts.copy())
    return {name: sorted(cost[name] for cost in costs)[JOBS // 4] for name in names}


async def cost_of_posting(daemon: Daemon, counts: Counter[str], names: Sequence[str] = NAMES) -> dict[str, int]:
    """One job after the other, each waited for."""
    ended = asyncio.Event()
    daemon.outbox.when_released(lambda _: ended.set())

    async def run_one() -> None:
        ended.clear()
        await daemon.intake.write("acme-x", [b"1"])
        await ended.wait()

    return await cost_of(run_one, counts, names)


async def test_a_single_job_on_the_straight_way(tmp_path: Path, counts: Counter[str]) -> None:
    async with running_daemon(tmp_path, poll="10s") as daemon:
        await register(daemon, "acme-x", "return payload")
        cost = await cost_of_posting(daemon, counts)
    assert cost == {"journal syncs": 1, "transactions": 1, "statements": 7, "compiled": 0, "turns": cost["turns"]}
    assert cost["turns"] <= 10


async def test_the_event_loop_calls_few_functions_for_a_single_job(tmp_path: Path, counts: Counter[str]) -> None:
    """Without HTTP: `python -m bench.service.calls` counts all, by part. Nothing of it stands out, so that it grows
    unseen. Newer versions of Python call a little less."""

    def count_call(_frame: FrameType, event: str, _what: object) -> None:
        counts["calls"] += event == "call"

    async with running_daemon(tmp_path, poll="10s") as daemon:
        await register(daemon, "acme-x", "return payload")
        sys.setprofile(count_call)
        try:
            cost = await cost_of_posting(daemon, counts, ["calls"])
        finally:
            sys.setprofile(None)
    assert 100 < cost["calls"] <= MOST_CALLS


async def test_a_single_job_on_the_long_way(tmp_path: Path, counts: Counter[str]) -> None:
    async with running_daemon(tmp_path, poll="10s", straight="off") as daemon:
        await register(daemon, "acme-x", "return payload")
        cost = await cost_of_posting(daemon, counts)
    assert cost == {"journal syncs": 1, "transactions": 3, "statements": 29, "compiled": 0, "turns": cost["turns"]}
    assert cost["turns"] <= 25


async def test_a_single_job_under_an_idempotency_key(tmp_path: Path, counts: Counter[str]) -> None:
    """It is added with its key, claimed and ended: each is a transaction."""
    async with running_daemon(tmp_path, poll="10s") as daemon:
        await register(daemon, "acme-x", "return payload")
        service, ended = service_of(daemon), asyncio.Event()
        daemon.outbox.when_released(lambda _: ended.set())

        async def run_one() -> None:
            ended.clear()
            key = secrets.token_hex()
            await submit_once(service, ACME, "x", [Submission(b"1")], key=key, fingerprint=Fingerprint("f", "lines"))
            await ended.wait()

        cost = await cost_of(run_one, counts)
    assert cost == {"journal syncs": 0, "transactions": 3, "statements": 35, "compiled": 0, "turns": cost["turns"]}
    assert cost["turns"] <= 25


async def test_a_worker_that_reports_a_job_and_takes_the_next(tmp_path: Path, counts: Counter[str]) -> None:
    order = Order("acme", ("resize",), worker=Worker("w"))
    async with open_shop(tmp_path, poll="10s") as shop:
        await shop.serve("resize")
        await shop.post(*map(str, range(JOBS + 10)))
        (job,) = await operations.take(shop.service, ACME, order)

        async def run_one() -> None:
            nonlocal job
            _, (job,) = await operations.report_and_take(shop.service, ACME, [Report(held(job), 200)], order)

        cost = await cost_of(run_one, counts)
    assert cost == {"journal syncs": 0, "transactions": 1, "statements": 12, "compiled": 0, "turns": cost["turns"]}
    assert cost["turns"] <= 6
