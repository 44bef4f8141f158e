"""`max_wait_s` of a handler: jobs that waited for longer are not started any more, by a daemon or for a worker."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.intake.job_options import JobOptions
from functory.operations.type_controls import pause_type, set_rate
from store.base import Code, JobFilter, JobRecord, JobState
from tests.support.clocks import LeapingClock
from tests.support.service import ended, payloads_waiting, register, running_daemon, until
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.straight import until_there_is
from tests.support.workers import ACME, open_shop, payloads

OPTIONS = {"max_wait_s": 60}


@pytest.fixture(params=back_end_params())
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as store_url:
        yield store_url


async def post(daemon: Daemon, text: str, repeat: str = "") -> str:
    (job_id,) = await daemon.intake.write("acme-x", [text.encode()], JobOptions(repeat=repeat))
    await daemon.intake.flush()
    return job_id


def assert_never_ran(record: JobRecord) -> None:
    assert record.outcome
    assert (record.outcome.code, record.outcome.exitcode) == (Code.ABANDONED, 504)
    assert (record.outcome.handler_version, record.outcome.result) == (0, None)


async def test_what_is_late_is_not_run_and_what_is_not_is(tmp_path: Path, url: str) -> None:
    """It is kept, whatever the handler says, and its failure is passed on to nobody: it did not run."""
    async with running_daemon(tmp_path, LeapingClock(), store=url) as daemon:
        clock = daemon.clock
        assert isinstance(clock, LeapingClock)
        ran = tmp_path / "ran"
        await asyncio.to_thread(ran.write_text, "")
        body = f"open({str(ran)!r}, 'a').write(payload)"
        await register(daemon, "acme-x", body, options=OPTIONS, on_failure="alarm", keep="none")
        await register(daemon, "acme-alarm", "return 'done'")
        await pause_type(service_of(daemon), ACME, "acme", "x", paused=True)
        late = await post(daemon, "l")
        clock.ahead_ms += 61_000
        await post(daemon, "f")
        await pause_type(service_of(daemon), ACME, "acme", "x", paused=False)
        assert_never_ran(await ended(daemon, late))

        await until(partial(has_run, ran, "f"))
        await daemon.outbox.empty()
        assert await payloads_waiting(daemon, "acme-alarm") == []
        over = await daemon.store.list_jobs("acme", JobFilter(JobState.ARCHIVED, "acme-alarm"), now_ms=clock.now_ms())
        assert over.records == ()
        await daemon.store.replay_jobs("acme", [late], dt_ms=clock.now_ms(), now_ms=clock.now_ms())
        daemon.executor.wake()
        await until(partial(has_run, ran, "fl"))


async def has_run(ran: Path, text: str) -> bool:
    return await asyncio.to_thread(ran.read_text) == text


async def test_jobs_that_wait_for_a_token_do_not_wait_longer(tmp_path: Path, url: str) -> None:
    async with running_daemon(tmp_path, LeapingClock(), store=url) as daemon:
        clock = daemon.clock
        assert isinstance(clock, LeapingClock)
        await set_rate(service_of(daemon), "test", "acme", "api", rate_per_s=0.000001, burst=1)
        await register(daemon, "acme-x", "return 'done'", options=OPTIONS, domain="api")
        first = await ended(daemon, await post(daemon, "a"))
        assert first.outcome
        assert first.outcome.code is Code.OK
        late = [await post(daemon, "b"), await post(daemon, "c")]
        clock.ahead_ms += 61_000
        for job_id in late:
            assert_never_ran(await ended(daemon, job_id))


async def test_a_round_that_is_late_is_left_out(tmp_path: Path, url: str) -> None:
    async with running_daemon(tmp_path, LeapingClock(), store=url) as daemon:
        clock = daemon.clock
        assert isinstance(clock, LeapingClock)
        await register(daemon, "acme-x", "return 'done'", options=OPTIONS)
        await pause_type(service_of(daemon), ACME, "acme", "x", paused=True)
        job_id = await post(daemon, "a", "FINISHED, +1 HOUR")
        clock.ahead_ms += 61_000
        await pause_type(service_of(daemon), ACME, "acme", "x", paused=False)

        async def next_round() -> JobRecord | None:
            record = await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms())
            return record if record is not None and record.state is JobState.DEFERRED else None

        record = await until(next_round)
        assert [each.code for each in record.schedule.rounds] == [Code.ABANDONED]


async def test_jobs_for_which_no_worker_asks_end_and_wake_their_parent(tmp_path: Path, url: str) -> None:
    clock = LeapingClock()
    async with open_shop(tmp_path, clock, store=url) as shop:
        await shop.serve("resize", options=OPTIONS)
        body = "if not ctx.children: ctx.enqueue('resize', 'x', child=True)\nreturn [c['code'] for c in ctx.children]"
        await register(shop.daemon, "acme-album", body)
        (parent,) = await shop.daemon.intake.write("acme-album", [b""])

        async def waits() -> bool:
            page = await shop.daemon.store.list_jobs("acme", JobFilter(JobState.WAITING, "acme-resize"), now_ms=now())
            return bool(page.records)

        now = clock.now_ms
        await until(waits)
        clock.ahead_ms += 61_000
        outcome = (await ended(shop.daemon, parent)).outcome
        assert outcome
        assert outcome.result == b'["abandoned"]'


async def test_workers_get_nothing_that_is_late(tmp_path: Path, url: str) -> None:
    clock = LeapingClock()
    async with open_shop(tmp_path, clock, store=url) as shop:
        await shop.serve("resize", options=OPTIONS)
        await pause_type(shop.service, ACME, "acme", "resize", paused=True)
        (late,) = await shop.post("late")
        clock.ahead_ms += 61_000
        await shop.post("new")
        await pause_type(shop.service, ACME, "acme", "resize", paused=False)
        assert payloads(await shop.take(limit=10, wait_s=30.0)) == ["new"]
        assert_never_ran(await ended(shop.daemon, late))


async def test_jobs_end_also_while_all_slots_are_busy(tmp_path: Path, url: str) -> None:
    async with running_daemon(tmp_path, LeapingClock(), store=url, slots="1") as daemon:
        clock, gate = daemon.clock, tmp_path / "gate"
        assert isinstance(clock, LeapingClock)
        await register(daemon, "acme-long", until_there_is(gate))
        await register(daemon, "acme-x", "return 'done'", options=OPTIONS)
        (long,) = await daemon.intake.write("acme-long", [b""])

        async def is_busy() -> bool:
            return daemon.executor.free_slots == 0

        await until(is_busy)
        late = await post(daemon, "late")
        clock.ahead_ms += 61_000
        assert_never_ran(await ended(daemon, late))
        await asyncio.to_thread(gate.touch)
        outcome = (await ended(daemon, long)).outcome
        assert outcome
        assert outcome.code is Code.OK


async def test_a_daemon_that_runs_nothing_ends_what_no_worker_takes(tmp_path: Path, url: str) -> None:
    clock = LeapingClock()
    async with open_shop(tmp_path, clock, store=url, role="api") as shop:
        await shop.serve("resize", options=OPTIONS)
        (late,) = await shop.post("late")
        clock.ahead_ms += 61_000
        assert_never_ran(await ended(shop.daemon, late))


async def test_what_may_wait_for_longer_now_does(tmp_path: Path, url: str) -> None:
    """Also on a daemon that has not looked since, because it is paused."""
    async with running_daemon(tmp_path, LeapingClock(), store=url) as daemon:
        clock = daemon.clock
        assert isinstance(clock, LeapingClock)
        await set_rate(service_of(daemon), "test", "acme", "api", rate_per_s=0.000001, burst=1)
        for name in ("acme-x", "acme-y"):
            await register(daemon, name, "return 'done'", options=OPTIONS, domain="api")
        await ended(daemon, await post(daemon, "a"))
        may_wait = await post(daemon, "b")
        (late,) = await daemon.intake.write("acme-y", [b"c"])
        await daemon.intake.flush()

        async def has_seen() -> bool:
            return {each.jobtype for each in daemon.executor.seen() or ()} == {"acme-x", "acme-y"}

        await until(has_seen)
        await daemon.store.set_daemon_paused(daemon.sysid, paused=True)
        daemon.executor.set_paused(paused=True)
        await register(daemon, "acme-x", "return 'done'", options={"max_wait_s": 3600}, domain="api")
        clock.ahead_ms += 61_000
        assert_never_ran(await ended(daemon, late))
        record = await daemon.store.get_job("acme", may_wait, now_ms=clock.now_ms())
        assert record
        assert record.state is JobState.WAITING
