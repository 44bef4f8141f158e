"""Jobs with retries and an expiry of their own, run by a daemon and by workers elsewhere."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.errors import InvalidInput
from functory.operations import workers as operations
from functory.operations.job_changes import retry_job
from functory.operations.job_settings import to_options
from functory.operations.submit import Submission, submit_jobs
from functory.operations.type_controls import pause_type
from functory.queue import Queue
from functory.sync import Jobs
from functory.wire.jobs import JobSettings
from functory.workers.values import Answer, Report
from store.base import Code, JobFilter, JobRecord, JobState, NewJob
from tests.support.clocks import FakeClock, LeapingClock
from tests.support.queue_places import KINDS, Place, open_place
from tests.support.served_daemon import served_daemon
from tests.support.service import ended, register, running_daemon, until
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.workers import ACME, held, open_shop
from vocabulary.job_limits import JobLimits, limits_of
from vocabulary.new_job import NewJob as MadeJob

FAILS = "raise ValueError('no')"


@pytest.fixture(params=back_end_params())
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as store_url:
        yield store_url


async def post(daemon: Daemon, job_type: str, parent: str = "", **fields: Any) -> str:
    options = to_options(JobSettings(**fields), daemon.clock.now_ms())
    (job_id,) = await submit_jobs(service_of(daemon), ACME, job_type, [Submission(b"x", options, parent=parent)])
    await daemon.intake.flush()
    return job_id


def how_it_ended(record: JobRecord) -> tuple[Code, int]:
    assert record.outcome
    return record.outcome.code, record.job.attempts


async def test_each_job_is_tried_as_often_as_it_says_whatever_its_type_says(tmp_path: Path, url: str) -> None:
    async with running_daemon(tmp_path, store=url) as daemon:
        await register(daemon, "acme-x", FAILS, options={"max_attempts": 2, "retry_base_ms": 1})
        jobs = [await post(daemon, "x", max_attempts=number) for number in (1, 3)] + [await post(daemon, "x")]
        assert [how_it_ended(await ended(daemon, job_id)) for job_id in jobs] == [
            (Code.ABANDONED, 1),
            (Code.ABANDONED, 3),
            (Code.ABANDONED, 2),
        ]


async def test_a_retry_by_hand_counts_its_attempts_anew(tmp_path: Path, url: str) -> None:
    async with running_daemon(tmp_path, store=url) as daemon:
        await register(daemon, "acme-x", FAILS, options={"retry_base_ms": 1})
        job_id = await post(daemon, "x", max_attempts=2)
        first = await ended(daemon, job_id)
        await retry_job(service_of(daemon), ACME, job_id)

        async def is_over_again() -> JobRecord | None:
            record = await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms())
            assert record
            is_new = record.state is JobState.ARCHIVED and record.job.token > first.job.token
            return record if is_new else None

        assert how_it_ended(await until(is_over_again)) == (Code.ABANDONED, 2)


async def test_each_round_of_a_job_that_repeats_has_them(tmp_path: Path, url: str) -> None:
    async with running_daemon(tmp_path, store=url) as daemon:
        await register(daemon, "acme-x", FAILS, options={"retry_base_ms": 1})
        job_id = await post(daemon, "x", max_attempts=2, repeat="SCHEDULED, +1 SECOND", dt=daemon.clock.now_ms() - 2500)

        async def has_had_two_rounds() -> JobRecord | None:
            record = await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms())
            return record if record is not None and len(record.schedule.rounds) >= 2 else None

        record = await until(has_had_two_rounds)
        assert [(each.code, each.attempts) for each in record.schedule.rounds[:2]] == [(Code.ABANDONED, 2)] * 2


@pytest.mark.parametrize(("own", "of_type"), [({"max_wait_s": 60}, {}), ({"max_wait_s": 60}, {"max_wait_s": 3600})])
async def test_what_has_waited_for_longer_than_it_may_is_not_run(
    tmp_path: Path, url: str, own: dict[str, Any], of_type: dict[str, int]
) -> None:
    async with running_daemon(tmp_path, LeapingClock(), store=url) as daemon:
        clock = daemon.clock
        assert isinstance(clock, LeapingClock)
        ran = tmp_path / "ran"
        body = f"open({str(ran)!r}, 'a').write(ctx.id)"
        await register(daemon, "acme-x", body, options=of_type)
        await pause_type(service_of(daemon), ACME, "acme", "x", paused=True)
        late, patient = await post(daemon, "x", **own), await post(daemon, "x")
        clock.ahead_ms += 61_000
        in_time = await post(daemon, "x", **own)
        await pause_type(service_of(daemon), ACME, "acme", "x", paused=False)
        record = await ended(daemon, late)
        assert record.outcome
        assert (record.outcome.code, record.outcome.exitcode, record.outcome.handler_version) == (
            Code.ABANDONED,
            504,
            0,
        )
        assert [(await ended(daemon, job_id)).outcome.code for job_id in (patient, in_time)] == [Code.OK] * 2  # type: ignore[union-attr]
        assert late not in await asyncio.to_thread(ran.read_text)


async def test_a_parent_that_waits_to_run_again_has_started_before(tmp_path: Path, url: str) -> None:
    body = "if ctx.children: return 'all are here'\nctx.enqueue('piece', 'x', child=True)"
    async with running_daemon(tmp_path, LeapingClock(), store=url) as daemon:
        clock, service = daemon.clock, service_of(daemon)
        assert isinstance(clock, LeapingClock)
        await register(daemon, "acme-x", body)
        await register(daemon, "acme-piece", "return 'here'")
        await pause_type(service, ACME, "acme", "piece", paused=True)
        job_id = await post(daemon, "x", max_wait_s=60)

        async def state() -> JobState | None:
            record = await daemon.store.get_job("acme", job_id, now_ms=clock.now_ms())
            return None if record is None else record.state

        async def has_made_its_child() -> bool:
            return await state() is JobState.PAUSED

        async def waits_again() -> bool:
            return await state() is JobState.WAITING

        await until(has_made_its_child)
        await pause_type(service, ACME, "acme", "x", paused=True)
        await pause_type(service, ACME, "acme", "piece", paused=False)
        await until(waits_again)
        clock.ahead_ms += 61_000
        await pause_type(service, ACME, "acme", "x", paused=False)
        record = await ended(daemon, job_id)
        assert record.outcome
        assert (record.outcome.code, record.outcome.result) == (Code.OK, b'"all are here"')


async def test_a_job_that_was_lost_with_its_daemons_has_no_more_attempts_than_it_says(tmp_path: Path) -> None:
    async with running_daemon(tmp_path / "data", max_attempts="9") as daemon:
        daemon.pause()
        await register(daemon, "acme-x", "return 'done'")
        now_ms = daemon.clock.now_ms()
        few, many = daemon.journal.take_ids(2)
        plain = NewJob(few, "acme-x", b"", now_ms, now_ms)
        once = plain._replace(options='{"limits":{"max_attempts":2}}')
        await daemon.store.add_jobs([once, plain._replace(id=many)], now_ms=now_ms)
        for _ in range(2):
            await daemon.store.claim_jobs("acme-x", 2, owner="zz", lease_ms=1, now_ms=now_ms)
            await daemon.store.expire_locks(now_ms=now_ms + 1)
        daemon.resume()
        record = await ended(daemon, few)
        assert record.outcome
        assert record.outcome.code is Code.ABANDONED
        assert "lost" in record.outcome.message
        other = await ended(daemon, many)
        assert other.outcome
        assert other.outcome.code is Code.OK


async def test_jobs_that_a_handler_makes_have_them_through_the_journal_and_in_the_write(tmp_path: Path) -> None:
    body = "ctx.enqueue('quick', 'x', max_attempts=1)\nprint('#J: quick?max_attempts=1|y')"
    child = "if ctx.children: return ctx.children[0]['code']\nctx.enqueue('quick', 'x', child=True, max_attempts=1)"
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-quick", FAILS, options={"retry_base_ms": 1})
        await register(daemon, "acme-makes", body)
        await register(daemon, "acme-parent", child)
        await ended(daemon, await post(daemon, "makes"))
        parent = await ended(daemon, await post(daemon, "parent"))
        assert parent.outcome
        assert parent.outcome.result == b'"abandoned"'

        async def all_over() -> list[JobRecord] | None:
            over = await daemon.store.list_jobs(
                "acme", JobFilter(JobState.ARCHIVED, "acme-quick"), now_ms=daemon.clock.now_ms()
            )
            return list(over.records) if len(over.records) == 3 else None

        assert [how_it_ended(record) for record in await until(all_over)] == [(Code.ABANDONED, 1)] * 3


async def test_a_job_that_asks_for_what_cannot_be_fails_and_makes_none(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-makes", "ctx.enqueue('quick', 'a')\nctx.enqueue('quick', 'b', max_attempts=1001)")
        record = await ended(daemon, await post(daemon, "makes"))
        assert record.outcome
        assert (record.outcome.code, record.outcome.exitcode) == (Code.FAILED, 400)
        told = "max_attempts of a new job must be a whole number between 1 and 1000, not 1001"
        assert record.outcome.message == told
        await daemon.intake.flush()
        waiting = JobFilter(JobState.WAITING, "acme-quick")
        assert not (await daemon.store.list_jobs("acme", waiting, now_ms=daemon.clock.now_ms())).records


async def test_workers_obey_them_as_handlers_do(tmp_path: Path, url: str) -> None:
    clock = FakeClock()
    async with open_shop(tmp_path, clock, store=url) as shop:
        await shop.serve("resize", options={"retry_base_ms": 1})
        once = await post(shop.daemon, "resize", max_attempts=1)
        (job,) = await shop.take()
        assert await shop.report(job, 500, result=b"no") is Answer.OK
        assert how_it_ended(await ended(shop.daemon, once)) == (Code.ABANDONED, 1)

        late = await post(shop.daemon, "resize", max_wait_s=60)
        clock.advance(61)
        assert await shop.take() == []
        record = await ended(shop.daemon, late)
        assert record.outcome
        assert (record.outcome.code, record.outcome.exitcode) == (Code.ABANDONED, 504)

        lost = await post(shop.daemon, "resize", max_attempts=1)
        (job,) = await shop.take(lease_ms=5000)
        clock.advance(6)
        await shop.daemon.upkeep.expire_leases()
        assert await shop.take() == [], "its attempts are used up"
        assert how_it_ended(await ended(shop.daemon, lost)) == (Code.ABANDONED, 2)

        short = await post(shop.daemon, "resize", retry_window_s=10)
        (job,) = await shop.take()
        clock.advance(11)
        assert await shop.report(job, 500) is Answer.OK
        assert how_it_ended(await ended(shop.daemon, short)) == (Code.ABANDONED, 1)


async def test_of_jobs_that_are_reported_together_each_has_its_own(tmp_path: Path) -> None:
    async with open_shop(tmp_path, FakeClock()) as shop:
        await shop.serve("resize")
        once, again = await post(shop.daemon, "resize", max_attempts=1), await post(shop.daemon, "resize")
        taken = await shop.take(limit=2)
        reports = [Report(held(one), 500) for one in taken]
        verdicts = await operations.report(shop.service, ACME, reports)
        assert [verdict.code for verdict in verdicts] == ["abandoned", "error"]
        assert how_it_ended(await ended(shop.daemon, once)) == (Code.ABANDONED, 1)
        assert (await shop.record(again)).state is JobState.DEFERRED


async def test_a_worker_that_another_daemon_gave_a_job_reports_it_here(tmp_path: Path, url: str) -> None:
    """It is read from the store then, with what it says itself."""
    async with (
        open_shop(tmp_path / "one", store=url) as one,
        open_shop(tmp_path / "two", store=url, is_new=False) as two,
    ):
        await one.serve("resize")
        job_id = await post(one.daemon, "resize", max_attempts=1)
        (job,) = await one.take()
        assert await two.report(job, 500, result=b"no") is Answer.OK
        assert how_it_ended(await ended(one.daemon, job_id)) == (Code.ABANDONED, 1)


async def test_a_worker_makes_jobs_with_them_and_a_wrong_one_fails_its_job(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        await shop.serve("resize", "mail")
        await shop.post("a", "b")
        good, bad = await shop.take(limit=2)
        assert await shop.report(good, new_jobs=(MadeJob("mail", b"x", "max_attempts=4&max_wait_s=9"),)) is Answer.OK
        assert await shop.report(bad, new_jobs=(MadeJob("mail", b"x", "max_wait_s=0"),)) is Answer.REFUSED
        await shop.daemon.intake.flush()
        (made,) = await shop.take("mail", limit=2)
        assert limits_of(made.job.options) == JobLimits(max_attempts=4, max_wait_s=9)


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(request.param, tmp_path) as opened:
        yield opened


async def limits_in(place: Place, queue: Queue, job_id: str) -> JobLimits:
    async def is_stored() -> JobRecord | None:
        return await place.record(job_id)

    return limits_of((await until(is_stored)).job.options)


async def test_a_queue_adds_jobs_with_them(place: Place) -> None:
    each: dict[str, Any] = {
        "max_attempts": 3,
        "retry_base_ms": 250,
        "retry_max_ms": 9000,
        "retry_window_s": 90,
        "max_wait_s": 5,
    }
    async with place.open() as queue:
        await queue.register("feed", "next")
        (job_id,) = await queue.add("feed", "x", **each)
        assert await limits_in(place, queue, job_id) == JobLimits(**each)
        job = await queue.next("feed")
        for wrong in (True, 0, 1.5, "2"):
            with pytest.raises(InvalidInput, match="max_attempts must be a whole number"):
                job.add("next", "y", max_attempts=wrong)
            with pytest.raises(InvalidInput, match="max_attempts must be a whole number"):
                await queue.add("feed", "x", max_attempts=wrong)  # type: ignore[arg-type]
        job.add("next", "y", max_attempts=2, max_wait_s=None, child=True)
        await job.done()
        made = await queue.next("next")
        assert await limits_in(place, queue, made.id) == JobLimits(max_attempts=2)


async def test_synchronous_code_adds_jobs_with_them(tmp_path: Path) -> None:
    async with served_daemon(tmp_path) as served:
        with Jobs(served.url, key=served.key, tenant="acme") as jobs:
            job_id = await asyncio.to_thread(jobs.add, "x", "y", max_attempts=3, retry_window_s=60)
            found = await asyncio.to_thread(jobs.get, job_id)
        assert (found.max_attempts, found.retry_window_s) == (3, 60)
