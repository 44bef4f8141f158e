"""Consumers on a running daemon: every index is done, progress has no gap, a failure blocks or is skipped."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from functory.consumers.led_consumer import LedConsumer
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.intake.job_options import JobOptions
from functory.operations import consumers
from functory.operations.consumers import Standing, WindowPart, window_of
from functory.operations.job_changes import retry_job
from functory.operations.jobs import cancel_job
from functory.operations.service import Service
from store.base import JobFilter, JobState
from store.errors import Conflict, NotFound
from tests.support.consumers import OK, WHO, add, blocked_by, put, standing_at
from tests.support.polling import until
from tests.support.service import register, running_daemon


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with running_daemon(tmp_path) as running:
        yield running


@pytest.fixture
def service(daemon: Daemon) -> Service:
    return service_of(daemon)


async def test_every_job_is_done_and_progress_reaches_the_head(daemon: Daemon, service: Service) -> None:
    await register(daemon, "acme-block", OK)
    assert await put(service, max_processing=7, max_search_ahead=20)
    ids = await add(daemon, [b"%d" % n for n in range(200)])
    standing = await standing_at(service, 200)
    assert standing.report[:3] == (200, 200, 200)
    assert standing.gap is None
    assert window_of(standing) == []
    states = await daemon.store.get_states("acme", ids, now_ms=daemon.clock.now_ms())
    assert set(states.values()) == {JobState.ARCHIVED}
    records = [await daemon.store.get_job_at("acme", "acme-block", n, now_ms=0) for n in (1, 200)]
    assert [record.job.data for record in records if record is not None] == [b"0", b"199"], "numbered in their order"


async def test_no_more_are_in_work_than_allowed_and_none_is_too_far_ahead(daemon: Daemon, service: Service) -> None:
    """The first job hangs: nothing above max_search_ahead starts, and memory and queue stay small."""
    await register(daemon, "acme-block", "if payload == '1':\n    return ctx.retry(after_s=3600)\nreturn payload")
    await put(service, max_processing=5, max_search_ahead=12)
    await add(daemon, [b"%d" % n for n in range(1, 101)])

    async def is_stuck() -> Standing | None:
        standing = await consumers.get_consumer(service, "acme", "verify")
        is_put_off = standing.gap is not None and standing.gap.record.state is JobState.DEFERRED
        return standing if len(standing.report.ends) == 11 and is_put_off else None

    standing = await until(is_stuck)
    assert window_of(standing) == [WindowPart(1, 1, "in_work"), WindowPart(2, 12, "done")]
    assert standing.report.released == 12
    assert standing.gap is not None
    assert standing.gap.seq == 1
    counters = (await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms()))[0]
    assert counters.blocked == 88, "the rest is held"


async def test_a_failure_blocks_is_tried_again_and_progress_goes_on(
    daemon: Daemon, service: Service, tmp_path: Path
) -> None:
    flag = tmp_path / "mended"
    is_bad = f"payload == '3' and not os.path.exists({str(flag)!r})"
    body = f"import os\nif {is_bad}:\n    return 400, 'bad block'\nreturn payload"
    await register(daemon, "acme-block", body)
    await put(service)
    await add(daemon, [b"%d" % n for n in range(1, 7)])

    async def is_blocked() -> Standing | None:
        standing = await consumers.get_consumer(service, "acme", "verify")
        is_seen = standing.note.blocks == 1 and standing.note.blocked[0].tries > 1
        is_told = daemon.gauges()["consumers_blocked"] == 1
        return standing if is_seen and is_told and standing.report.processed == 2 else None

    standing = await until(is_blocked)
    assert standing.note.blocked[0].index == 3
    await asyncio.to_thread(flag.touch)
    standing = await standing_at(service, 6)
    assert (standing.report.processed, standing.note.skips) == (6, 0)


async def test_a_failure_is_skipped_and_recorded(daemon: Daemon, service: Service) -> None:
    await register(daemon, "acme-block", "return (400, 'bad') if payload in '36' else payload")
    await put(service, on_failed="skip")
    ids = await add(daemon, [b"%d" % n for n in range(1, 7)])
    await standing_at(service, 6)

    async def is_noted() -> Standing | None:
        standing = await consumers.get_consumer(service, "acme", "verify")
        return standing if standing.note.skips == 2 else None

    standing = await until(is_noted)
    assert [(it.index, it.job_id, it.code) for it in sorted(standing.note.skipped, key=lambda it: it.index)] == [
        (3, ids[2], "failed"),
        (6, ids[5], "failed"),
    ]


async def test_a_cancelled_job_blocks_until_it_is_deleted(daemon: Daemon, service: Service) -> None:
    await put(service)
    (job_id,) = await add(daemon, [b"x"])
    await daemon.intake.flush()
    await daemon.store.cancel_job("acme", job_id, now_ms=daemon.clock.now_ms())

    async def is_blocked() -> Standing | None:
        standing = await consumers.get_consumer(service, "acme", "verify")
        return standing if standing.note.blocks else None

    standing = await until(is_blocked)
    assert standing.note.blocked[0].next_ms == 0, "nobody runs what somebody cancelled"
    await daemon.store.delete_jobs("acme", [job_id], now_ms=daemon.clock.now_ms())
    await standing_at(service, 1)


async def test_a_cancelled_job_that_is_retried_and_fails_is_tried_again(
    daemon: Daemon, service: Service, tmp_path: Path
) -> None:
    flag = tmp_path / "mended"
    await put(service)
    (job_id,) = await add(daemon, [b"x"])
    await daemon.intake.flush()
    await cancel_job(service, "acme", job_id)
    await blocked_by(service, "cancelled")
    await register(daemon, "acme-block", f"import os\nreturn 200 if os.path.exists({str(flag)!r}) else (400, 'bad')")
    await retry_job(service, WHO, job_id)
    await blocked_by(service, "failed")
    await asyncio.to_thread(flag.touch)
    await standing_at(service, 1)


async def test_a_blocked_job_that_is_retried_and_cancelled_is_left_alone(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, retry_base="1h", retry_max="1h") as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-block", "return 400, 'bad'")
        await put(service)
        (job_id,) = await add(daemon, [b"x"])
        standing = await blocked_by(service, "failed")
        assert standing.note.blocked[0].next_ms > daemon.clock.now_ms(), "later"
        daemon.pause()
        await retry_job(service, WHO, job_id)
        await cancel_job(service, "acme", job_id)
        standing = await blocked_by(service, "cancelled")
        assert standing.note.blocked[0].next_ms == 0, "nobody runs what somebody cancelled"


async def test_progress_is_told_by_a_job_with_the_last_index(daemon: Daemon, service: Service) -> None:
    await register(daemon, "acme-block", OK)
    await put(service, on_progress="told", max_processing=10)
    await add(daemon, [b"x"] * 50)
    await standing_at(service, 50)

    async def is_told() -> dict[str, Any] | None:
        """It waits, because its type has no handler: later moves replace what it says."""
        where, now_ms = JobFilter(JobState.WAITING, "acme-told"), daemon.clock.now_ms()
        page = await daemon.store.list_jobs("acme", where, now_ms=now_ms)
        if not page.records:
            return None
        (record,) = page.records
        whole = await daemon.store.get_job("acme", record.job.id, now_ms=now_ms)
        assert whole is not None
        payload: dict[str, Any] = json.loads(whole.job.data)
        return payload if payload["index"] == 50 else None

    assert await until(is_told) == {"consumer": "verify", "type": "block", "index": 50}


async def test_it_stops_and_starts(daemon: Daemon, service: Service) -> None:
    await register(daemon, "acme-block", OK)
    await put(service)
    await add(daemon, [b"x"] * 3)
    await standing_at(service, 3)
    await consumers.run_consumer(service, WHO, "verify", running=False)
    await add(daemon, [b"x"] * 3)
    await daemon.intake.flush()
    standing = await consumers.get_consumer(service, "acme", "verify")
    assert (standing.report.head, standing.report.processed, standing.report.released) == (6, 3, 3)
    assert standing.record.leader == ""
    await consumers.run_consumer(service, WHO, "verify", running=True)
    await standing_at(service, 6)


async def test_many_checks_at_once_cause_one_look(daemon: Daemon, service: Service) -> None:
    await put(service)
    (led,) = await until(lambda: _led(daemon))
    await led.consumer.ready()
    looks = 0
    inner = led.head

    async def counted() -> int:
        nonlocal looks
        looks += 1
        found: int = await inner()
        return found

    led.head = counted
    daemon.consumers._settings = daemon.consumers._settings._replace(poll_s=3600)
    for _ in range(200):
        assert await consumers.check_consumer(service, "acme", "verify") == daemon.sysid
    assert looks < 200
    before = looks
    for _ in range(200):
        daemon.consumers.check("acme", "verify")
    await until(_looked(led))
    assert looks <= before + 2


def _looked(led: LedConsumer) -> Callable[[], Awaitable[bool]]:
    async def has_looked() -> bool:
        return not led.consumer._woken.is_set()

    return has_looked


async def _led(daemon: Daemon) -> list[Any]:
    return list(daemon.consumers._led.values())


async def test_settings_change_while_it_runs(daemon: Daemon, service: Service) -> None:
    await register(daemon, "acme-block", "return (400, 'bad') if payload == '2' else payload")
    await put(service)
    await add(daemon, [b"1", b"2", b"3"])
    await standing_at(service, 1)
    assert not await put(service, on_failed="skip")
    standing = await standing_at(service, 3)
    assert standing.terms.on_failed == "skip"
    with pytest.raises(Conflict, match="does not begin anew"):
        await put(service, start_index=2)
    with pytest.raises(Conflict, match="delete it first"):
        await put(service, source="other")


async def test_deleted_its_jobs_run_as_any_other(daemon: Daemon, service: Service) -> None:
    await put(service, max_processing=1)
    ids = await add(daemon, [b"x"] * 5)
    await daemon.intake.flush()
    freed, more = await consumers.delete_consumer(service, WHO, "verify")
    assert (freed in {4, 5}, more) == (True, False)
    with pytest.raises(NotFound):
        await consumers.get_consumer(service, "acme", "verify")
    await register(daemon, "acme-block", OK)

    async def all_over() -> bool:
        states = await daemon.store.get_states("acme", ids, now_ms=daemon.clock.now_ms())
        return set(states.values()) == {JobState.ARCHIVED}

    await until(all_over)
    assert daemon.consumers.led == 0


async def test_jobs_that_waited_before_the_consumer_are_its_own_too(daemon: Daemon, service: Service) -> None:
    await daemon.intake.write("acme-block", [b"x"] * 30, JobOptions(indexed=True))
    await daemon.intake.flush()
    await put(service, max_processing=3, max_search_ahead=3)

    async def is_held() -> bool:
        (counters,) = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
        return (counters.waiting, counters.blocked) == (3, 27)

    await until(is_held)
    await register(daemon, "acme-block", OK)
    await standing_at(service, 30)


async def test_after_a_restart_it_goes_on(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-block", "return payload if payload != '4' else ctx.retry(after_s=0.05)")
        await put(service, max_processing=3)
        await add(daemon, [b"%d" % n for n in range(1, 9)])
        await standing_at(service, 3)
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-block", OK)
        standing = await standing_at(service, 8)
        assert standing.record.leader == daemon.sysid


async def test_two_daemons_share_the_work_and_one_leads(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"store": f"sqlite://{tmp_path}/store.db", "lease": "2s"}
    async with running_daemon(tmp_path / "a", **shared) as one, running_daemon(tmp_path / "b", **shared) as two:
        await register(one, "acme-block", OK)
        await put(service_of(one), max_processing=4)
        for _ in range(5):
            await add(one, [b"x"] * 10)
            await add(two, [b"x"] * 10)
        standing = await standing_at(service_of(two), 100)
        assert one.consumers.led + two.consumers.led == 1
        leader, other = (one, two) if one.consumers.led else (two, one)
        assert standing.record.leader == leader.sysid
        leader.consumers._tasks.popitem()[1].cancel()  # as if it had died: it neither leads nor resigns
        leader.consumers.changed = lambda: None  # type: ignore[method-assign]
        leader.consumers._renew = _nothing  # type: ignore[method-assign]
        await add(other, [b"x"] * 10)
        standing = await standing_at(service_of(other), 110)
        assert standing.record.leader == other.sysid


async def _nothing() -> None: ...


async def test_consumers_with_nothing_to_do_are_looked_at_together(daemon: Daemon, service: Service) -> None:
    """However many there are, and however often somebody's jobs wake the daemon."""
    await register(daemon, "acme-block", OK)
    for number in range(20):
        await put(service, f"c{number}", f"s{number}")
    await put(service, on_progress="told")
    await add(daemon, [b"a", b"b"])
    await standing_at(service, 2)
    store = daemon.store
    together, alone = asyncio.Event(), 0
    real_numbers, real_look = store.get_last_numbers, store.look_at_window

    async def get_last_numbers(jobtypes: Any) -> list[int]:
        if len(jobtypes) == 21:
            together.set()
        return await real_numbers(jobtypes)

    async def look_at_window(*args: Any, **more: Any) -> Any:
        nonlocal alone
        alone += 1
        return await real_look(*args, **more)

    async def all_led() -> bool:
        return daemon.consumers.led == 21

    await until(all_led)
    vars(store).update(get_last_numbers=get_last_numbers, look_at_window=look_at_window)
    for _ in range(5):
        together.clear()
        daemon.wake()
        await together.wait()

    async def are_quiet() -> bool:
        nonlocal alone
        before = alone
        for _ in range(3):
            together.clear()
            daemon.wake()
            await together.wait()
        return alone == before

    await until(are_quiet)
    await add(daemon, [b"c"])
    await standing_at(service, 3)
