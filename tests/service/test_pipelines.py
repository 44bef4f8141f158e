"""Pipelines of consumers on a running daemon: each index makes its jobs once, and no stage runs away from the next."""

from collections import Counter
from pathlib import Path

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.operations import consumers
from functory.operations.consumers import Standing
from store.base import JobFilter, JobState
from tests.support.consumers import add, put, standing_at
from tests.support.polling import until
from tests.support.service import register, running_daemon

EMIT = "ctx.enqueue('second', payload)\nreturn payload"
EMIT_AND_FAIL_FIRST = """
import os
ctx.enqueue('second', payload)
if int(payload) % 3 == 0 and ctx.attempt == 1:
    return ctx.retry(after_s=0)
mark = FOLDER + '/' + payload
if int(payload) % 3 == 1 and not os.path.exists(mark):
    open(mark, 'w').close()
    return ctx.fail('not yet')
return payload
"""


async def payloads_of(daemon: Daemon, jobtype: str, count: int) -> Counter[bytes]:
    found: Counter[bytes] = Counter()
    for seq in range(1, count + 1):
        record = await daemon.store.get_job_at("acme", jobtype, seq, now_ms=daemon.clock.now_ms())
        assert record is not None, seq
        found[record.job.data] += 1
    return found


async def test_each_index_makes_its_jobs_once_however_often_it_is_tried(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-first", EMIT_AND_FAIL_FIRST.replace("FOLDER", repr(str(tmp_path))))
        await register(daemon, "acme-second", "ctx.enqueue('third', payload)\nreturn payload")
        await register(daemon, "acme-third", "return payload")
        for name, follows in (("first", "second"), ("second", "third"), ("third", "")):
            await put(service, name, name, next_type=follows, max_processing=20)
        expected = [b"%d" % number for number in range(90)]
        await add(daemon, expected, "first")
        for name in ("first", "second", "third"):
            standing = await standing_at(service, 90, name)
            assert standing.report.head == 90, f"{name}: none twice, none lost"
        for jobtype in ("acme-second", "acme-third"):
            assert await payloads_of(daemon, jobtype, 90) == Counter(expected)


async def test_an_index_that_carries_data_on_makes_its_jobs_too(tmp_path: Path) -> None:
    """Plain ones, the one that gets its result, and its children."""
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-first", "ctx.carry('seen')\n" + EMIT, then="second")
        body = """
if ctx.children:
    return [payload, ctx.children[0]["code"]]
ctx.enqueue("piece", payload, child=True)
ctx.carry("carried on")
"""
        await register(daemon, "acme-second", body)
        await register(daemon, "acme-piece", "return payload")
        await put(service, "first", "first")
        await put(service, "second", "second")
        await add(daemon, [b"1"], "first")
        standing = await standing_at(service, 2, "second")
        assert standing.report.head == 2, "the job that it asked for, and the one of its result"
        for seq in (1, 2):
            record = await daemon.store.get_job_at("acme", "acme-second", seq, now_ms=daemon.clock.now_ms())
            assert record is not None
            whole = await daemon.store.get_job("acme", record.job.id, now_ms=daemon.clock.now_ms())
            assert whole is not None
            assert whole.outcome is not None
            assert whole.outcome.result == b'["carried on","ok"]'


async def test_a_stage_stops_while_the_next_is_too_far_behind(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await register(daemon, "acme-first", EMIT)
        await put(service, "second", "second")
        await put(service, "first", "first", next_type="second", max_lag=10, max_processing=5)
        await add(daemon, [b"%d" % number for number in range(100)], "first")

        async def has_stopped() -> Standing | None:
            standing = await consumers.get_consumer(service, "acme", "first")
            is_at_rest = standing.report.processed == standing.report.released
            return standing if standing.next_lag is not None and standing.next_lag > 10 and is_at_rest else None

        standing = await until(has_stopped)
        assert standing.report.released <= 10 + 5 + 1, "what was in work when the bound was reached, and no more"
        for _ in range(3):
            assert (await consumers.check_consumer(service, "acme", "first")) == daemon.sysid
        waiting = JobFilter(JobState.WAITING, "acme-first")
        assert not (await daemon.store.list_jobs("acme", waiting, now_ms=daemon.clock.now_ms())).records
        await register(daemon, "acme-second", "return payload")
        standing = await standing_at(service, 100, "second")
        assert standing.report.head == 100
