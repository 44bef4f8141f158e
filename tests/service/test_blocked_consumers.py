"""Indexes that did not end well: what the next leader knows of them, whose name they have, and clocks that are set."""

import asyncio
from contextlib import suppress
from pathlib import Path

from functory.consumers.terms import Blocked
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.operations import consumers
from functory.operations.consumers import Standing
from functory.operations.job_changes import retry_job
from functory.operations.jobs import cancel_job
from functory.operations.service import Service
from store.base import Archive, Code, Creation, NewJob, Outcome
from store.errors import Conflict
from tests.support.clocks import LeapingClock
from tests.support.consumers import OK, WHO, add, blocked_by, put, standing_at
from tests.support.polling import until
from tests.support.service import register, running_daemon

BAD = "return 400, 'bad'"
HOUR_MS = 3_600_000


class SteadyLeaps(LeapingClock):
    """As if time had passed."""

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_ms / 1000


def bad_until(flag: Path) -> str:
    return f"import os\nif payload == 'a' and not os.path.exists({str(flag)!r}):\n    return 400, 'bad'\n"


async def add_named(daemon: Daemon, data: bytes) -> str:
    now_ms = daemon.clock.now_ms()
    (job_id,) = daemon.journal.take_ids(1)
    job = NewJob(job_id, "acme-block", data, now_ms, now_ms, unique="x")
    (report,) = await daemon.store.create_jobs([Creation(job, frozenset({"data"}))], now_ms=now_ms)
    daemon.consumers.wake()
    return report.id


async def add_second(daemon: Daemon, first: str) -> str:
    """Another job of the name, as soon as the first does not have it."""

    async def is_added() -> str | None:
        with suppress(Conflict):
            job_id = await add_named(daemon, b"b")
            return job_id if job_id != first else None
        return None

    return await until(is_added)


async def unblocked(service: Service) -> Standing:
    async def look() -> Standing | None:
        standing = await consumers.get_consumer(service, "acme", "verify")
        return standing if not standing.note.blocks else None

    return await until(look)


async def test_a_name_that_the_next_index_has_does_not_stop_the_first(tmp_path: Path) -> None:
    async with running_daemon(tmp_path / "data") as daemon:
        service, flag = service_of(daemon), tmp_path / "mended"
        await register(daemon, "acme-block", bad_until(flag) + OK)
        await put(service, max_processing=1)
        first = await add_named(daemon, b"a")
        await blocked_by(service, "failed")
        await add_second(daemon, first)
        await asyncio.to_thread(flag.touch)
        await standing_at(service, 2)


async def test_a_name_that_a_job_in_the_queue_has_is_why_an_index_is_not_tried(tmp_path: Path) -> None:
    async with running_daemon(tmp_path / "data") as daemon:
        service, flag = service_of(daemon), tmp_path / "mended"
        await register(
            daemon, "acme-block", bad_until(flag) + "return ctx.retry(after_s=3600) if payload == 'b' else payload"
        )
        other = await add_named(daemon, b"b")  # before the consumer: it has no number, and nothing holds it
        await cancel_job(service, "acme", other)
        await put(service)
        await add_named(daemon, b"a")
        await blocked_by(service, "failed")

        async def is_replayed() -> bool:
            with suppress(Conflict):
                await retry_job(service, WHO, other)
                return True
            return False

        await until(is_replayed)

        async def put_off(after_ms: int) -> Blocked | None:
            standing = await consumers.get_consumer(service, "acme", "verify")
            return next((it for it in standing.note.blocked if it.why and it.next_ms > after_ms), None)

        before = await until(lambda: put_off(0))
        assert before.why == "another job has its unique name x"
        again = await until(lambda: put_off(before.next_ms))
        assert again.tries == before.tries, "it was not tried"
        await asyncio.to_thread(flag.touch)
        await cancel_job(service, "acme", other)
        await standing_at(service, 1)


async def test_an_index_blocks_no_more_when_failures_are_skipped(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-block", BAD)
        await put(service)
        await add(daemon, [b"x"])
        await blocked_by(service, "failed")
        await put(service, on_failed="skip")
        await standing_at(service, 1)
        standing = await unblocked(service)
        assert standing.note.blocked == []
        assert daemon.gauges()["consumers_blocked"] == 0


async def test_the_tries_of_an_index_go_on_with_the_next_leader(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-block", BAD)
        await put(service)
        await add(daemon, [b"x"])

        async def tried(times: int) -> Blocked | None:
            standing = await consumers.get_consumer(service, "acme", "verify")
            return next((it for it in standing.note.blocked if it.tries >= times), None)

        before = await until(lambda: tried(3))
        await put(service, max_processing=7)
        after = await until(lambda: tried(before.tries + 1))
        assert after.since_ms == before.since_ms


async def test_a_job_that_ended_well_while_nobody_led_is_not_run_again(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, retry_base="1h", retry_max="1h") as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-block", BAD)
        await put(service)
        (job_id,) = await add(daemon, [b"x"])
        await blocked_by(service, "failed")
        await consumers.run_consumer(service, WHO, "verify", running=False)
        await until(lambda: is_led(service, led=False))
        await register(daemon, "acme-block", OK)
        await retry_job(service, WHO, job_id)
        await consumers.run_consumer(service, WHO, "verify", running=True)
        standing = await standing_at(service, 1)
        standing = await unblocked(service)
        assert standing.note.blocked == []
        record = await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms())
        assert record is not None
        assert record.job.token == 2


async def is_led(service: Service, *, led: bool) -> bool:
    record = (await consumers.get_consumer(service, "acme", "verify")).record
    return bool(consumers.leader_of(record, service.now_ms())) == led


async def test_an_index_is_tried_again_after_the_clock_was_set_back(tmp_path: Path) -> None:
    clock, flag = LeapingClock(), tmp_path / "mended"
    clock.ahead_ms = HOUR_MS
    async with running_daemon(tmp_path / "data", clock=clock) as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-block", bad_until(flag) + OK)
        await put(service)
        await add(daemon, [b"a"])
        await blocked_by(service, "failed")
        clock.ahead_ms = 0
        await asyncio.to_thread(flag.touch)
        await standing_at(service, 1)


async def test_a_source_is_asked_again_after_the_clock_was_set_back(tmp_path: Path) -> None:
    clock = LeapingClock()
    clock.ahead_ms = HOUR_MS
    async with running_daemon(tmp_path, clock=clock) as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-block", OK)
        await put(service, pull="chain")

        async def is_troubled() -> bool:
            return bool((await consumers.get_consumer(service, "acme", "verify")).note.trouble)

        await until(is_troubled)
        clock.ahead_ms = 0
        body = "import json\nasked = json.loads(payload)\nreturn 3 if asked['ask'] == 'head' else asked['index']"
        await register(daemon, "acme-chain", body, returns="value")
        await standing_at(service, 3)


async def test_an_index_that_has_ended_well_elsewhere_does_not_run_again(tmp_path: Path) -> None:
    clock = SteadyLeaps()
    settings = {"poll": "1h", "lease": "1h", "retry_base": "60s", "retry_max": "60s"}
    async with running_daemon(tmp_path, clock=clock, **settings) as daemon:
        service, store = service_of(daemon), daemon.store
        await register(daemon, "acme-block", BAD)
        await put(service)
        (job_id,) = await add(daemon, [b"a"])
        await blocked_by(service, "failed")
        daemon.executor.is_paused = True  # the others are quicker
        now_ms = clock.now_ms()
        assert await store.replay_jobs("acme", [job_id], dt_ms=now_ms, now_ms=now_ms)
        (job,) = await store.claim_jobs("acme-block", 1, owner="other", lease_ms=60_000, now_ms=now_ms)
        end = Archive(job.id, job.token, Outcome(Code.OK, 200, now_ms, 1, b"there"))
        await store.release_jobs("other", [end], now_ms=now_ms)
        clock.ahead_ms = 120_000
        await consumers.check_consumer(service, "acme", "verify")
        await standing_at(service, 1)
        found = await store.get_job("acme", job_id, now_ms=clock.now_ms())
        assert found is not None
        assert found.outcome == end.outcome
