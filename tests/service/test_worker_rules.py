"""Every rule that holds for other jobs holds for those that workers take."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from functory.errors import InvalidInput, QuotaExceeded
from functory.intake.job_options import JobOptions
from functory.operations import workers as operations
from functory.operations.handlers import invoke
from functory.operations.job_log import get_log, get_progress
from functory.operations.jobs import cancel_job
from functory.operations.submit import submit_lines
from functory.operations.tenants import create_tenant, update_tenant
from functory.operations.type_controls import pause_type
from functory.operations.why import why
from functory.tenant_limits import TenantLimits
from functory.workers import handout, held_jobs, taker_line
from functory.workers.values import OWNER, Answer, Delivery, Order, Report, Worker
from store.base import Code, JobState, RateDomain
from tests.support.clocks import FakeClock
from tests.support.service import ended, register, until
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.workers import ACME, Shop, held, open_shop, payloads, waiting
from vocabulary.names import type_of
from vocabulary.new_job import NewJob


@pytest.fixture(params=back_end_params())
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    async with BACK_ENDS[request.param](tmp_path) as url, open_shop(tmp_path, store=url) as opened:
        yield opened


async def test_retries_windows_and_attempts_are_those_of_the_type(shop: Shop) -> None:
    await shop.serve("resize", options={"max_attempts": 2})
    (job_id,) = await shop.post("1")
    (job,) = await shop.take()
    assert await shop.report(job, 100, retry_after_ms=0, carried=b"from 17 on", result=b"busy") is Answer.OK
    (again,) = await shop.take(wait_s=30.0)
    assert (again.job.data, again.job.attempts) == (b"from 17 on", 2)
    (verdict,) = await operations.report(shop.service, ACME, [Report(held(again), 500, b"Traceback\nIOError: no")])
    assert (verdict.answer, verdict.code, verdict.message) == (Answer.OK, "abandoned", "IOError: no")
    record = await ended(shop.daemon, job_id)
    assert record.outcome
    assert record.outcome.code is Code.ABANDONED
    assert [(attempt.code, attempt.daemon) for attempt in record.history] == [(Code.RETRY, OWNER)]
    failures = await shop.daemon.store.get_counters("acme", now_ms=shop.daemon.clock.now_ms())
    assert [(row.retry, row.abandoned) for row in failures] == [(1, 1)]


async def test_caps_hold_for_workers_and_handlers_together(shop: Shop) -> None:
    await update_tenant(shop.service, "test", "acme", limits=TenantLimits(max_running=3, max_running_per_type=2))
    await shop.serve("resize", "crop")
    await shop.post("1", "2", "3", "4")
    await shop.post("5", "6", type_name="crop")
    jobs = await shop.take(limit=10, wait_s=30.0)
    while len(jobs) < 2:  # until the executor has seen that a type is not its own, its try counts as well
        jobs += await shop.take(limit=10, wait_s=30.0)
    assert (payloads(jobs), await shop.take(limit=10)) == (["1", "2"], []), "the cap of a type"
    more = await shop.take("*", limit=10, wait_s=30.0)
    assert (payloads(more), await shop.take("*", limit=10)) == (["5"], []), "the cap of the tenant"
    await register(shop.daemon, "acme-inside", "return 200")
    (inside,) = await shop.post("7", type_name="inside")
    waiter = asyncio.create_task(shop.take("resize", wait_s=30.0))

    async def is_capped() -> bool:
        return (await why(shop.service, "acme", inside)).reason == "tenant_cap"

    await until(is_capped)
    assert await shop.report(more[0]) is Answer.OK
    await ended(shop.daemon, inside)
    assert await shop.report(jobs[0]) is Answer.OK
    assert payloads(await waiter) == ["3"]


async def test_a_cap_by_key_holds_for_workers(shop: Shop) -> None:
    await shop.serve("resize", options={"max_per_key": 1})
    for name, key in (("a1", "ada"), ("a2", "ada"), ("b1", "bob")):
        await shop.daemon.intake.write("acme-resize", [name.encode()], JobOptions(key=key))
    await shop.daemon.intake.flush()
    jobs = await shop.take(limit=10)
    assert payloads(jobs) == ["a1", "b1"]
    waiter = asyncio.create_task(shop.take(wait_s=30.0))
    await until(waiting(shop, 1))
    assert await shop.report(jobs[0]) is Answer.OK
    assert payloads(await waiter) == ["a2"]


async def test_priorities_rates_pauses_and_suspension(shop: Shop) -> None:
    await shop.serve("resize")
    store, now_ms = shop.daemon.store, shop.daemon.clock.now_ms()
    await store.set_rate_domain(RateDomain("acme", "api", 0.0001, 1), now_ms=now_ms)
    jobs = [("low", 0, ""), ("one", 500, "api"), ("two", 500, "api"), ("high", 1000, "")]
    for name, priority, domain in jobs:
        options = JobOptions(None, priority, domain)
        await shop.daemon.intake.write("acme-resize", [name.encode()], options)
    await shop.daemon.intake.flush()
    assert payloads(await shop.take(limit=10)) == ["high", "one", "low"], "the domain had one token"
    await store.delete_rate_domain("acme", "api", now_ms=now_ms)
    await pause_type(shop.service, ACME, "acme", "resize", paused=True)
    assert await shop.take() == []
    waiter = asyncio.create_task(shop.take(wait_s=30.0))
    await pause_type(shop.service, ACME, "acme", "resize", paused=False)
    assert payloads(await waiter) == ["two"]
    await shop.post("late")
    await update_tenant(shop.service, "test", "acme", suspended=True)
    assert await shop.take() == []
    waiter = asyncio.create_task(shop.take(wait_s=30.0))
    await until(waiting(shop, 1))
    await update_tenant(shop.service, "test", "acme", suspended=False)
    assert payloads(await waiter) == ["late"]
    shop.daemon.pause()
    await shop.post("later")
    waiter = asyncio.create_task(shop.take(wait_s=30.0))
    await until(waiting(shop, 1))
    shop.daemon.resume()
    assert payloads(await waiter) == ["later"]


async def test_types_of_a_tenant_take_turns_by_the_time_they_use(shop: Shop) -> None:
    await shop.serve("slow", "quick")
    for name in ("slow", "quick"):
        await shop.post(*map(str, range(40)), type_name=name)
    line = shop.daemon.workers._handout
    await shop.take("none")
    line.learn("acme-slow", 1, 9.0)
    line.learn("acme-quick", 1, 1.0)
    names = [(await shop.take("*"))[0].job.jobtype for _ in range(20)]
    assert 1 <= names.count("acme-slow") <= 4, "nine parts of time in ten would be its own otherwise"


async def test_new_jobs_and_quotas(shop: Shop) -> None:
    await shop.serve("resize")
    (job_id,) = await shop.post("1")
    (job,) = await shop.take()
    assert await shop.report(job, new_jobs=(NewJob("resize", b"child"), NewJob("mail", b"x"))) is Answer.OK
    await ended(shop.daemon, job_id)
    (child,) = await shop.take(wait_s=30.0)
    assert child.job.data == b"child"
    await update_tenant(shop.service, "test", "acme", limits=TenantLimits(max_bytes=1))
    (verdict,) = await operations.report(shop.service, ACME, [Report(held(child), 200, b"r" * 5000)])
    assert (verdict.answer, verdict.code) == (Answer.REFUSED, "failed")
    assert "may have 1" in verdict.message


async def test_log_and_progress_can_be_read_while_it_runs(shop: Shop) -> None:
    await shop.serve("resize")
    (job_id,) = await shop.post("1")
    (job,) = await shop.take()
    assert await shop.report(job, None, log=b"one", progress=b"40") is Answer.OK
    assert await shop.report(job, None, log=b"two\n") is Answer.OK
    assert await get_log(shop.service, "acme", job_id) == b"one\ntwo\n"
    assert get_progress(shop.service, "acme", job_id) == 40
    assert (await shop.record(job_id)).state is JobState.RUNNING
    assert await shop.report(job, 400, result=b"cannot", log=b"three") is Answer.OK
    record = await ended(shop.daemon, job_id)
    assert record.outcome
    assert record.outcome.log == b"one\ntwo\nthree\n"


async def test_logs_of_others_take_no_words_from_the_end_of_a_job(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it runs, a log that may not grow keeps its newest lines, and says that there were others."""
    monkeypatch.setattr(held_jobs, "_LOG_BYTES_IN_ALL", 0)
    monkeypatch.setattr(held_jobs, "_SMALL_LOGS_BYTES", 0)
    await shop.serve("resize")
    (job_id,) = await shop.post("1")
    (job,) = await shop.take()
    for number in range(3):
        assert await shop.report(job, None, log=b"%d" % number * 200) is Answer.OK
    said = await get_log(shop.service, "acme", job_id)
    assert said.startswith(b"[347 bytes were dropped]\n")
    assert said.endswith(b"2" * 200 + b"\n")
    assert await shop.report(job, 200, log=b"e" * 2000) is Answer.OK
    record = await ended(shop.daemon, job_id)
    assert record.outcome
    assert record.outcome.log.endswith(b"2" * 200 + b"\n" + b"e" * 2000 + b"\n")


async def test_a_cancelled_job_is_lost_to_its_worker(shop: Shop) -> None:
    await shop.serve("resize")
    (job_id,) = await shop.post("1")
    (job,) = await shop.take()
    await cancel_job(shop.service, "acme", job_id)
    assert await shop.report(job, new_jobs=(NewJob("resize", b"x"),)) is Answer.LATE
    assert await shop.report(job, None, progress=b"50") is Answer.LATE
    assert await shop.renew(job) == [Answer.LATE]
    assert (await shop.end(job_id)).code is Code.CANCELLED
    await shop.daemon.intake.flush()
    assert await shop.take() == [], "a late report makes no new jobs"


async def test_why_says_who_asks(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_shop(tmp_path, clock) as shop:
        await shop.serve("resize", "crop")
        (job_id,) = await shop.post("1", type_name="crop")
        reason = await why(shop.service, "acme", job_id)
        assert (reason.reason, "none has asked" in reason.text) == ("no_worker", True)
        await shop.take("cr?p", worker=Worker("b"))
        await shop.take("resize", worker=Worker("a"))
        (job_id,) = await shop.post("2", type_name="crop")
        assert (await why(shop.service, "acme", job_id)).reason == "in_line"
        clock.advance(40)
        reason = await why(shop.service, "acme", job_id)
        assert (reason.reason, reason.text) == ("no_worker", "no worker has asked for 40 s")
        await operations.give_back(shop.service, ACME, [], goodbye="b")
        reason = await why(shop.service, "acme", job_id)
        assert (reason.reason, "or those that did have left" in reason.text) == ("no_worker", True)
        waiter = asyncio.create_task(shop.take("resize", "crop", wait_s=30.0, worker=Worker("b")))
        (job,) = await waiter
        reason = await why(shop.service, "acme", job.job.id)
        assert (reason.reason, reason.text.startswith("worker b has it, until ")) == ("running", True)


async def test_what_cannot_be_is_refused_with_its_field(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    await shop.serve("resize")
    for field, fields in (
        ("types", {"patterns": ()}),
        ("types", {"patterns": ("x" * 128,)}),
        ("types", {"patterns": ("x",) * 21}),
        ("limit", {"limit": 0}),
        ("limit", {"limit": 1001}),
        ("wait_s", {"wait_s": 61.0}),
        ("wait_s", {"wait_s": float("nan")}),
        ("lease_s", {"lease_ms": 5}),
        ("worker.name", {"worker": Worker("a\n")}),
    ):
        with pytest.raises(InvalidInput) as caught:
            await operations.take(shop.service, ACME, Order("", ("resize",))._replace(**fields))
        assert caught.value.detail == {"field": field}
    one = Delivery("x", 1)
    with pytest.raises(InvalidInput) as caught:
        await operations.report(shop.service, ACME, [Report(one)] * 1001)
    assert caught.value.detail == {"field": "reports"}
    monkeypatch.setattr(taker_line, "MOST_GROUPS", 1)
    taker = asyncio.create_task(shop.take("r*", wait_s=30.0))
    await until(waiting(shop, 1))
    with pytest.raises(QuotaExceeded, match="1 different lists of patterns"):
        await shop.take("other*", wait_s=1.0)
    monkeypatch.setattr(taker_line, "MOST_TAKERS", 1)
    with pytest.raises(QuotaExceeded, match="1 workers"):
        await shop.take()
    taker.cancel()
    with pytest.raises(InvalidInput, match="workers"):
        await invoke(shop.service, ACME, "resize", b"x")


async def test_other_types_are_never_handed_out_and_these_are_never_run(shop: Shop) -> None:
    await register(shop.daemon, "acme-inside", "return payload")
    await shop.serve("resize")
    inside = await shop.post("1", type_name="inside")
    await shop.post("2", type_name="nobody")
    outside = await shop.post("3")
    assert (await ended(shop.daemon, inside[0])).outcome
    assert payloads(await shop.take("*", limit=10)) == ["3"]
    assert shop.daemon.executor.claimed == 1
    await pause_type(shop.service, ACME, "acme", "inside", paused=True)
    await shop.post("4", type_name="inside")
    assert await shop.take("*", "inside", limit=10) == []
    assert not any(map(shop.daemon.straight.is_here, outside))


async def test_jobs_of_workers_never_take_the_straight_way(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    start = shop.daemon.straight.start

    def watched(jobtype: str, most: int) -> Any:
        jobs, version = start(jobtype, most)
        started.extend([jobtype] * bool(jobs))
        return jobs, version

    async def is_clear() -> bool:
        return shop.daemon.executor.is_clear("acme-resize")

    monkeypatch.setattr(shop.daemon.straight, "start", watched)
    await shop.serve("resize")
    await register(shop.daemon, "acme-inside", "return 200")
    await until(is_clear)
    is_quick = shop.daemon.settings.store_url.startswith("sqlite")
    for _ in range(100 if is_quick else 1):  # on a busy machine one or the other takes the long way
        (inside,) = await submit_lines(shop.service, ACME, "inside", [b"1"])
        await ended(shop.daemon, inside)
        if "acme-inside" in started:
            break
    assert "acme-inside" in started or not is_quick, "others do"
    await submit_lines(shop.service, ACME, "resize", [b"1"])
    (job,) = await shop.take(wait_s=30.0)
    assert (job.job.attempts, job.job.token) == (1, 1), "no daemon had it before"
    assert "acme-resize" not in started


async def test_a_job_that_a_handler_runs_is_no_workers(shop: Shop) -> None:
    await register(shop.daemon, "acme-inside", "import time\ntime.sleep(600)")
    (job_id,) = await shop.post("1", type_name="inside")

    async def runs() -> bool:
        return (await shop.record(job_id)).state is JobState.RUNNING

    await until(runs)
    for token in (1, None):
        for report in (Report(Delivery(job_id, token), progress=b"1"), Report(Delivery(job_id, token), 200)):
            (verdict,) = await operations.report(shop.service, ACME, [report])
            assert verdict.answer is Answer.LATE
    assert (await shop.record(job_id)).state is JobState.RUNNING
    await cancel_job(shop.service, "acme", job_id)


async def test_a_type_that_gets_a_handler_is_not_handed_out_any_more(shop: Shop) -> None:
    await shop.serve("resize")
    await shop.post("1")
    (job,) = await shop.take()
    await register(shop.daemon, "acme-resize", "return 'inside'")
    ids = await shop.post("2")
    assert await shop.take() == []
    record = await ended(shop.daemon, ids[0])
    assert record.outcome
    assert record.outcome.isolation != "external"
    assert await shop.report(job) is Answer.OK, "what is held is reported as it was taken"


async def test_the_most_urgent_type_goes_first(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handout, "_RANK_S", 0.0)
    monkeypatch.setattr(handout, "_LOOK_PART", 0)
    await shop.serve("aa", "bb")

    async def post(type_name: str, priority: int) -> None:
        await submit_lines(shop.service, ACME, type_name, [b"x"] * 2, JobOptions(priority=priority))
        await shop.daemon.intake.flush()

    async def taken() -> str:
        return type_of((await shop.take("*"))[0].job.jobtype)

    await post("aa", 500)
    await post("bb", 1000)
    assert [await taken() for _ in range(3)] == ["bb", "bb", "aa"]


async def test_what_waits_becomes_more_urgent(shop: Shop) -> None:
    await shop.serve("resize")
    assert await shop.take() == []
    line = shop.daemon.workers._handout._lines["acme"]
    line.set_listed({"acme-aa": 500, "acme-bb": 1000})
    assert sorted(("acme-aa", "acme-bb"), key=line._rank) == ["acme-bb", "acme-aa"]
    line._ready["acme-aa"] -= 2.5 * taker_line._STEP_AFTER_S
    assert sorted(("acme-aa", "acme-bb"), key=line._rank) == ["acme-aa", "acme-bb"]


async def test_another_tenant_reaches_nothing(shop: Shop) -> None:
    await create_tenant(shop.service, "test", "other", 1, TenantLimits())
    other = ACME._replace(tenant="other")
    await shop.serve("resize")
    await shop.post("1")
    assert await operations.take(shop.service, other, Order("acme", ("*",))) == []
    (job,) = await shop.take()
    for verdicts in (
        await operations.renew(shop.service, other, [held(job)]),
        await operations.report(shop.service, other, [Report(held(job), 200)]),
        await operations.give_back(shop.service, other, [held(job)]),
    ):
        assert [verdict.answer for verdict in verdicts] == [Answer.UNKNOWN]
    assert (await shop.record(job.job.id)).state is JobState.RUNNING
    assert shop.daemon.glimpse("other", job.job.id) is None


async def test_workers_are_remembered_within_bounds(shop: Shop) -> None:
    """Nothing that a tenant's workers say of themselves can keep the note of them from being written."""
    quotes = tuple(f"{number:02}" + '"' * 125 for number in range(20))
    for number in range(300):
        await shop.take(*quotes, worker=Worker(f"{number:03}" + '"' * 97, '"' * 100, '"' * 100))
    await shop.daemon.workers.write_down()
    workers = await operations.list_workers(shop.service, "acme")
    assert len(workers) == 200
    assert workers[-1].name.startswith("299")


async def test_two_daemons_share_workers_jobs_and_what_they_know(tmp_path: Path) -> None:
    store = f"sqlite://{tmp_path}/store.db"
    async with (
        open_shop(tmp_path / "a", store=store) as here,
        open_shop(tmp_path / "b", is_new=False, store=store) as there,
    ):
        await here.serve("resize")
        waiter = asyncio.create_task(there.take(wait_s=30.0, worker=Worker("b's")))
        await until(waiting(there, 1))
        (job_id,) = await here.post("1")
        (job,) = await waiter
        assert job.job.id == job_id, "the poll has found it"
        await there.daemon.workers.write_down()
        assert [(seen.name, seen.running) for seen in await operations.list_workers(here.service, "acme")] == [
            ("b's", 1)
        ]
        assert await here.renew(job) == [Answer.OK]
        assert await here.report(job, result=b"done") is Answer.OK
        assert await there.report(job) is Answer.OK, "what became of it: this one changes nothing"
        assert await there.renew(job) == [Answer.LATE]
        assert (await there.end(job_id)).result == b"done"
