"""Repeating jobs on a running daemon: what they carry on, their children, their retry window."""

import json
from pathlib import Path
from typing import Any

import pytest

from functory.daemon.daemon import Daemon
from store.base import Code, JobRecord, JobState, NewJob
from tests.support.service import ended, register, running_daemon, until

COUNTER = """
state = json.loads(payload)
state["n"] += 1
if state["n"] == 2 and ctx.attempt == 1:
    ctx.carry({"n": state["n"] - 1, "retried": True})
    ctx.retry(after_s=0)
ctx.carry(state)
return state
"""


async def job(daemon: Daemon, job_id: str) -> JobRecord:
    record = await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms())
    assert record is not None
    return record


def new(daemon: Daemon, job_id: str, jobtype: str, data: bytes, **fields: Any) -> NewJob:
    now_ms = daemon.clock.now_ms()
    return NewJob(job_id, jobtype, data, now_ms, now_ms)._replace(**fields)


async def test_a_counter_survives_rounds_retries_and_restarts(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-count", COUNTER, before="import json")
        first = new(daemon, "counter", "acme-count", b'{"n": 0}', repeat="SCHEDULED, +1 SECOND")
        first = first._replace(dt_ms=first.dt_ms - 5000)  # the rounds that were missed come one after the other
        await daemon.store.add_jobs([first], now_ms=daemon.clock.now_ms())
        daemon.wake()

        async def has_counted() -> bool:
            return int(json.loads((await job(daemon, "counter")).job.data)["n"]) >= 3

        await until(has_counted)
        seen = json.loads((await job(daemon, "counter")).job.data)
        assert seen["retried"] is True, "what was carried into the second attempt"
    async with running_daemon(tmp_path) as daemon:

        async def has_counted_on() -> bool:
            return bool(json.loads((await job(daemon, "counter")).job.data)["n"] > seen["n"])

        await until(has_counted_on)
        record = await job(daemon, "counter")
        assert record.outcome is not None
        rows = {row.jobtype: row for row in await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())}
        assert json.loads(record.job.data)["n"] == rows["acme-count"].ok, "each round counted once"


async def test_a_counter_goes_on_from_one_daemon_to_another(tmp_path: Path) -> None:
    store = f"sqlite://{tmp_path}/shared.db"
    async with (
        running_daemon(tmp_path / "one", store=store) as one,
        running_daemon(tmp_path / "two", store=store) as two,
    ):
        two.pause()
        await register(one, "acme-count", COUNTER, before="import json")
        first = new(one, "counter", "acme-count", b'{"n": 0}', repeat="SCHEDULED, +1 SECOND")
        await one.store.add_jobs([first._replace(dt_ms=first.dt_ms - 60_000)], now_ms=one.clock.now_ms())
        one.wake()

        async def counted(at_least: int) -> bool:
            return int(json.loads((await job(one, "counter")).job.data)["n"]) >= at_least

        await until(lambda: counted(2))
        one.pause()
        claimed = two.executor.claimed
        two.resume()
        await until(lambda: counted(6))
        assert two.executor.claimed > claimed, "the other one went on"
        two.pause()

        async def each_round_is_counted_once() -> bool:
            rows = {row.jobtype: row for row in await one.store.get_counters("acme", now_ms=one.clock.now_ms())}
            return await counted(rows["acme-count"].ok) and not await counted(rows["acme-count"].ok + 1)

        await until(each_round_is_counted_once)


async def test_children_of_a_repeating_parent_run_between_its_rounds(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        daemon.pause()
        await register(daemon, "acme-child", "return 'done'")
        parent = new(daemon, "parent", "acme-parent", b"", repeat="FINISHED, +1 HOUR")
        await daemon.store.add_jobs([parent], now_ms=daemon.clock.now_ms())
        (running,) = await daemon.store.claim_jobs(
            "acme-parent", 1, owner="zz", lease_ms=60_000, now_ms=daemon.clock.now_ms()
        )
        await daemon.store.create_job(
            new(daemon, "child", "acme-child", b"", parent=running.id), now_ms=daemon.clock.now_ms()
        )
        await register(daemon, "acme-parent", "return 'ran'")
        await daemon.store.expire_locks(now_ms=daemon.clock.now_ms() + 60_001, owner="zz")
        daemon.resume()
        child = await ended(daemon, "child")
        assert child.outcome is not None
        assert child.outcome.code is Code.OK, "it ran, and was not cancelled"

        async def waits_for_its_next_round() -> bool:
            found = await job(daemon, "parent")
            return found.job.due_ms > daemon.clock.now_ms() + 3_000_000 and found.pending_children == 0

        await until(waits_for_its_next_round)
        assert (await job(daemon, "parent")).job.token == 3, "lost, then the round, then again after its child"


async def test_each_round_of_a_repeating_parent_has_children_of_its_own(tmp_path: Path) -> None:
    body = """
if not ctx.children:
    ctx.enqueue("child", payload, child=True)
else:
    ctx.carry(payload + "".join(child["result"].strip('"') for child in ctx.children))
"""
    async with running_daemon(tmp_path, poll="20ms") as daemon:
        await register(daemon, "acme-child", "return str(len(payload))")
        await register(daemon, "acme-parent", body)
        parent = new(daemon, "parent", "acme-parent", b"", repeat="FINISHED, +1 SECOND")
        await daemon.store.add_jobs([parent], now_ms=daemon.clock.now_ms())
        daemon.wake()

        async def has_had_two_rounds() -> bool:
            return len((await job(daemon, "parent")).job.data) > 1

        await until(has_had_two_rounds)
        assert (await job(daemon, "parent")).job.data.startswith(b"01"), "each round had one child"


@pytest.mark.parametrize("repeat", ["", "FINISHED, +1 HOUR"])
async def test_the_retry_window_of_a_delayed_job_begins_when_it_is_due(tmp_path: Path, repeat: str) -> None:
    async with running_daemon(tmp_path, retry_window="60s", max_attempts="3") as daemon:
        await register(daemon, "acme-bad", "raise RuntimeError('no')")
        late = new(daemon, "late", "acme-bad", b"", repeat=repeat)
        late = late._replace(create_ms=late.dt_ms - 100_000)  # it was delayed by more than the window
        await daemon.store.add_jobs([late], now_ms=daemon.clock.now_ms())
        daemon.wake()

        async def is_given_up() -> JobRecord | None:
            found = await job(daemon, "late")
            return found if found.outcome and found.outcome.code is Code.ABANDONED else None

        record = await until(is_given_up)
        rows = {row.jobtype: row for row in await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())}
        assert (rows["acme-bad"].error, rows["acme-bad"].abandoned) == (2, 1), "all three attempts were made"
        if repeat:
            assert record.job.due_ms > daemon.clock.now_ms() + 3_000_000, "its next round comes"


async def test_a_run_that_asks_for_a_retry_and_is_refused_does_not_end_the_repetition(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-feed", "ctx.enqueue('x', 'x', sibling=True)\nctx.retry(after_s=0)")
        feed = new(daemon, "feed", "acme-feed", b"", repeat="FINISHED, +1 HOUR")
        await daemon.store.add_jobs([feed], now_ms=daemon.clock.now_ms())
        daemon.wake()

        async def has_run() -> JobRecord | None:
            found = await job(daemon, "feed")
            return found if found.outcome else None

        record = await until(has_run)
        assert record.outcome is not None
        assert (record.outcome.code, record.outcome.exitcode) == (Code.FAILED, 400)
        assert (record.state, record.job.attempts) == (JobState.DEFERRED, 0), "its next round comes"
        assert record.job.due_ms > daemon.clock.now_ms() + 3_000_000
