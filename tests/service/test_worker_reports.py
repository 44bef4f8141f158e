"""Reports of workers: those that are refused, each alone, with the status that its job has; those that come again or
never."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from functory.operations import workers as operations
from functory.operations.job_changes import retry_job
from functory.operations.jobs import cancel_job
from functory.workers.values import Answer, Delivery, Report, Taken
from handlers.model import Handler
from runner.limits import ContextLimits
from store.base import Code, JobRecord, JobState
from tests.support.clocks import FakeClock, LeapingClock
from tests.support.service import ended, payloads_waiting, until
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.workers import ACME, Shop, held, open_shop
from vocabulary.new_job import NewJob


@pytest.fixture(params=back_end_params())
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    async with BACK_ENDS[request.param](tmp_path) as url, open_shop(tmp_path, store=url) as opened:
        yield opened


async def test_a_report_that_makes_no_sense_is_refused_and_the_others_are_recorded(shop: Shop) -> None:
    await shop.serve("resize")
    await shop.post("1", "2", "3")
    jobs = await shop.take(limit=3)
    first, second, third = map(held, jobs)
    reports = [
        Report(first, 302),
        Report(first, 100, retry_after_ms=-1),
        Report(first, progress=b"{"),
        Report(first, progress=b'"' + b"x" * 5000 + b'"'),
        Report(second, 200, b"fine"),
        Report(second, 400),
        Report(third, progress=b"40"),
    ]
    verdicts = await operations.report(shop.service, ACME, reports)
    assert [(it.id, it.answer, it.status, it.message.partition(":")[0]) for it in verdicts] == [
        (first.id, Answer.REFUSED, 422, "exitcode"),
        (first.id, Answer.REFUSED, 422, "delay_s"),
        (first.id, Answer.REFUSED, 422, "progress"),
        (first.id, Answer.REFUSED, 422, "progress"),
        (second.id, Answer.OK, None, ""),
        (second.id, Answer.REFUSED, 422, "id"),
        (third.id, Answer.OK, None, ""),
    ]
    assert (await ended(shop.daemon, second.id)).outcome is not None
    assert await shop.report(jobs[0]) is Answer.OK, "its worker still has it"


async def test_a_refusal_has_the_status_of_the_job(shop: Shop) -> None:
    await shop.serve("resize", on_failure="alarm")
    (job_id,) = await shop.post("1")
    (job,) = await shop.take()
    report = Report(held(job), 200, log=b"begun", new_jobs=(NewJob("resize", b"x", "bogus=1"),))
    (verdict,) = await operations.report(shop.service, ACME, [report])
    record = await ended(shop.daemon, job_id)
    assert record.outcome
    assert (verdict.answer, verdict.status, record.outcome.exitcode) == (Answer.REFUSED, 400, 400)
    assert record.outcome.log == b"begun\n"
    assert await payloads_waiting(shop.daemon, "acme-alarm") == [record.outcome.result]


ENDS = [Report(Delivery("", 0), code, retry_after_ms=0 if code == 100 else None) for code in (200, 400, 100, 500)]


async def verdicts_of(shop: Shop, jobs: Sequence[Taken]) -> list[tuple[Answer, str]]:
    reports = [end._replace(delivery=held(job)) for end, job in zip(ENDS, jobs, strict=True)]
    return [(it.answer, it.code) for it in await operations.report(shop.service, ACME, reports)]


async def test_an_end_that_is_recorded_and_reported_again_has_the_same_verdict(shop: Shop, tmp_path: Path) -> None:
    """By a worker that did not hear the answer. Whichever daemon it asks: the store tells."""
    await shop.serve("resize")
    await shop.post("1", "2", "3", "4")
    jobs = await shop.take(limit=4)
    told = await verdicts_of(shop, jobs)
    assert told == [(Answer.OK, "ok"), (Answer.OK, "failed"), (Answer.OK, "retry"), (Answer.OK, "error")]
    async with open_shop(tmp_path / "other", is_new=False, store=shop.daemon.settings.store) as other:
        assert await verdicts_of(other, jobs) == told
    assert len(await shop.take(wait_s=30.0)) == 1, "one that is tried again"
    assert await verdicts_of(shop, jobs) == told
    assert shop.gauge("worker_reports_late_total") == 0
    assert await shop.renew(*jobs[:2]) == [Answer.LATE, Answer.LATE]


async def test_another_end_than_the_one_that_is_recorded_is_late(shop: Shop, tmp_path: Path) -> None:
    await shop.serve("resize")
    await shop.post("1")
    (job,) = await shop.take()
    assert await shop.report(job, 400) is Answer.OK
    async with open_shop(tmp_path / "other", is_new=False, store=shop.daemon.settings.store) as other:
        for place in (shop, other):
            assert [await place.report(job, code) for code in (200, 100, 400)] == [Answer.LATE, Answer.LATE, Answer.OK]


@pytest.mark.parametrize("first", [None, 200, 400])
async def test_while_an_end_is_on_its_way_another_is_late(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, first: int | None
) -> None:
    """None: the job is given back. Whoever hears ok may rely on what is recorded."""
    await shop.serve("resize")
    (job_id,) = await shop.post("1")
    (job,) = await shop.take()
    outbox = shop.daemon._parts.reported
    put, is_put, kept = outbox.put, asyncio.Event(), []

    def put_later(*given: Any) -> None:
        kept.append(given)
        is_put.set()

    async def say(exitcode: int | None) -> Answer:
        if exitcode is not None:
            return await shop.report(job, exitcode, result=b"mine")
        (verdict,) = await operations.give_back(shop.service, ACME, [held(job)])
        return verdict.answer

    monkeypatch.setattr(outbox, "put", put_later)
    saying = [asyncio.create_task(say(first))]
    await is_put.wait()
    says = [first, *({None, 200, 400} - {first}), first]
    find, has_found = shop.daemon.workers._reports._find, asyncio.Semaphore(0)

    async def find_and_tell(*given: Any) -> Any:
        try:
            return await find(*given)
        finally:
            has_found.release()

    monkeypatch.setattr(shop.daemon.workers._reports, "_find", find_and_tell)
    for exitcode in says[1:]:
        saying.append(asyncio.create_task(say(exitcode)))
        await has_found.acquire()
    monkeypatch.undo()
    for endings in kept:
        put(*endings)
    assert await asyncio.gather(*saying) == [Answer.OK, Answer.LATE, Answer.LATE, Answer.OK]
    outcome = (await shop.record(job_id)).outcome
    assert (None if outcome is None else outcome.exitcode) == first
    assert shop.gauge("worker_reports_late_total") == 2


async def test_a_report_that_read_the_job_before_the_same_one_was_answered_makes_no_more_jobs(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both find a job that runs, as after a restart, and the first is over before the second goes on."""
    await shop.serve("resize", "next")
    await shop.post("1")
    (job,) = await shop.take()
    claims = shop.daemon.workers._claims
    claims.held.drop_tenant("acme")
    handler_of, has_read, may_go_on = claims._handler, asyncio.Event(), asyncio.Event()

    async def wait_after_reading(jobtype: str, version: int) -> Handler | None:
        has_read.set()
        await may_go_on.wait()
        return await handler_of(jobtype, version)

    one = [Report(held(job), 200, new_jobs=(NewJob("next", b"n"),))]
    monkeypatch.setattr(claims, "_handler", wait_after_reading)
    second = asyncio.create_task(operations.report(shop.service, ACME, one))
    await has_read.wait()
    monkeypatch.setattr(claims, "_handler", handler_of)
    first = await operations.report(shop.service, ACME, one)
    may_go_on.set()
    assert [verdict.answer for (verdict,) in (first, await second)] == [Answer.OK, Answer.OK]
    await shop.daemon.intake.flush()
    assert len(await shop.take("next", limit=10)) == 1


async def test_an_end_of_which_nothing_is_kept_has_the_same_verdict_again(shop: Shop) -> None:
    await shop.serve("resize", keep="none")
    (job_id,) = await shop.post("1")
    (job,) = await shop.take()
    assert [await shop.report(job) for _ in range(2)] == [Answer.OK, Answer.OK]
    assert not await shop.daemon.store.get_states("acme", [job_id], now_ms=shop.daemon.clock.now_ms())


async def test_a_refusal_reported_again_is_one_on_any_daemon(shop: Shop, tmp_path: Path) -> None:
    await shop.serve("resize")
    await shop.post("1")
    (job,) = await shop.take()
    report = Report(held(job), 200, new_jobs=(NewJob("resize", b"x", "bogus=1"),))
    (verdict,) = await operations.report(shop.service, ACME, [report])
    async with open_shop(tmp_path / "other", is_new=False, store=shop.daemon.settings.store) as other:
        assert await operations.report(other.service, ACME, [report]) == [verdict]
    assert verdict.answer is Answer.REFUSED


async def test_the_end_of_a_delivery_that_ended_otherwise_is_late(shop: Shop) -> None:
    """Its job has an outcome, of an earlier delivery or of none."""
    await shop.serve("resize")
    await shop.post("1")
    (first,) = await shop.take()
    assert await shop.report(first, 100, retry_after_ms=0) is Answer.OK
    (second,) = await shop.take(wait_s=30.0)
    await operations.give_back(shop.service, ACME, [held(second)])
    assert await shop.report(second) is Answer.LATE
    (third,) = await shop.take(wait_s=30.0)
    await cancel_job(shop.service, "acme", third.job.id)
    assert await shop.report(third) is Answer.LATE


async def test_an_end_of_an_earlier_delivery_is_not_told_of_a_later_one(shop: Shop, tmp_path: Path) -> None:
    """Also if it was recorded by a clock that was ahead, and with the same word."""
    await shop.serve("resize")
    await shop.post("1")
    clock, store = LeapingClock(), shop.daemon.settings.store
    async with open_shop(tmp_path / "other", clock, is_new=False, store=store) as other:
        clock.ahead_ms = 50_000
        (first,) = await other.take(wait_s=30.0)
        assert await other.report(first, 100, retry_after_ms=0) is Answer.OK
    await retry_job(shop.service, ACME, first.job.id)
    (second,) = await shop.take(wait_s=30.0)
    await operations.give_back(shop.service, ACME, [held(second)])
    assert [await shop.report(second, code) for code in (200, 100)] == [Answer.LATE, Answer.LATE]


async def test_an_end_that_a_slow_clock_has_recorded_is_told_again(shop: Shop, tmp_path: Path) -> None:
    """By the daemon that handed the job out, whose clock is ahead of that end."""
    await shop.serve("resize")
    await shop.post("1", "2", "3", "4")
    jobs = await shop.take(limit=4)
    clock, store = LeapingClock(), shop.daemon.settings.store
    clock.ahead_ms = -5000
    async with open_shop(tmp_path / "other", clock, is_new=False, store=store) as other:
        told = await verdicts_of(other, jobs)
    assert told == [(Answer.OK, "ok"), (Answer.OK, "failed"), (Answer.OK, "retry"), (Answer.OK, "error")]
    assert await verdicts_of(shop, jobs) == told


async def test_a_result_that_is_too_large_is_told_again(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functory.workers.reports._LIMITS", ContextLimits(result_bytes=3))
    await shop.serve("resize")
    await shop.post("1")
    (job,) = await shop.take()
    report = Report(held(job), 200, b"four")
    (verdict,) = await operations.report(shop.service, ACME, [report])
    assert (verdict.answer, verdict.code) == (Answer.OK, "failed")
    async with open_shop(tmp_path / "other", is_new=False, store=shop.daemon.settings.store) as other:
        assert await operations.report(other.service, ACME, [report]) == [verdict]


async def test_a_job_that_was_cancelled_elsewhere_makes_no_new_jobs(shop: Shop) -> None:
    """This daemon has not heard of it yet."""
    await shop.serve("resize")
    (job_id,) = await shop.post("1")
    (job,) = await shop.take()
    await shop.daemon.store.cancel_job("acme", job_id, now_ms=shop.daemon.clock.now_ms(), running=True)
    assert await shop.report(job, new_jobs=(NewJob("resize", b"x"),)) is Answer.LATE
    await shop.daemon.intake.flush()
    assert await shop.take() == []


async def test_what_is_held_for_too_long_is_tried_again_after_a_pause(tmp_path: Path) -> None:
    """As a run that takes too long. Handed out at once, it would use up its attempts while what it waits for is away,
    and hang in one thread of a worker after the other."""
    clock = FakeClock()
    async with open_shop(tmp_path, clock, retry_base="60s", retry_max="60s") as shop:
        await shop.serve("resize", timeout_s=5)
        (job_id,) = await shop.post("1")
        (first,) = await shop.take(lease_ms=3000)
        deadline_ms = clock.now_ms() + 5000
        clock.advance(2)
        (verdict,) = await operations.renew(shop.service, ACME, [held(first)])
        clock.advance(2)
        (verdict,) = await operations.renew(shop.service, ACME, [held(first)], lease_ms=60_000)
        assert (verdict.answer, verdict.until_ms) == (Answer.OK, deadline_ms)
        clock.advance(1)
        await shop.daemon.store.expire_locks(now_ms=clock.now_ms())
        await shop.daemon.upkeep.expire_leases()

        async def is_over() -> JobRecord | None:
            record = await shop.record(job_id)
            return record if record.state is JobState.DEFERRED else None

        record = await until(is_over)
        assert record.outcome
        assert (record.outcome.code, record.outcome.exitcode) == (Code.ERROR, 504)
        assert record.outcome.message == "held for longer than 5 s, the timeout_s of its type"
        assert await shop.report(first) is Answer.LATE
        clock.advance(61)
        await shop.daemon.upkeep.expire_leases()
        (again,) = await shop.take(wait_s=30)
        assert (again.job.attempts, again.job.dt_ms - clock.now_ms()) == (2, 5000)


async def test_who_ends_a_job_in_time_is_not_late_at_its_deadline(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_shop(tmp_path, clock, poll="1h") as shop:
        await shop.serve("resize", timeout_s=5)
        (job_id,) = await shop.post("1")
        (first,) = await shop.take()
        clock.advance(5)
        assert await shop.daemon.store.expire_locks(now_ms=clock.now_ms()) == 0, "another daemon is no quicker"
        assert await shop.report(first, result=b"done") is Answer.OK
        clock.advance(1)
        await shop.daemon.upkeep.expire_leases()
        assert (await shop.end(job_id)).result == b"done"
        assert not shop.daemon.workers._claims.held._deadlines, "it is forgotten"


async def test_a_job_that_is_given_up_says_for_how_long_its_type_lets_workers_hold_it(tmp_path: Path) -> None:
    """Its lease lapses if the daemon that handed it out is not there any more at its deadline."""
    clock = FakeClock()
    async with open_shop(tmp_path, clock, max_attempts="1") as shop:
        await shop.serve("resize", timeout_s=5)
        (job_id,) = await shop.post("1")
        (first,) = await shop.take(lease_ms=30_000)
        assert first.job.dt_ms == clock.now_ms() + 5000
        shop.daemon.workers._claims.held.drop_tenant("acme")
        clock.advance(60)
        await shop.daemon.upkeep.expire_leases()
        assert await shop.take(wait_s=1.0) == [], "its attempts are used up"
        record = await ended(shop.daemon, job_id)
        assert record.outcome
        assert record.outcome.message.endswith("or held it for longer than 5 s, the timeout_s of its type")
        assert [run.message for run in record.history][-1].startswith("the run was lost: its lease lapsed")
