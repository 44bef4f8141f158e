"""Jobs that programs elsewhere take: leases, verdicts, waking, vanished workers, other daemons."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import functory.workers.handout
from functory.operations import workers as operations
from functory.operations.tenants import create_tenant, delete_tenant
from functory.tenant_limits import TenantLimits
from functory.workers.values import OWNER, Answer, Delivery, Order, Report, Taken, Worker
from store.base import Code, JobState
from tests.support.clocks import FakeClock
from tests.support.service import ended, until
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.workers import ACME, Shop, finished, held, open_shop, payloads, waiting
from vocabulary.new_job import NewJob


@pytest.fixture(params=back_end_params())
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    async with BACK_ENDS[request.param](tmp_path) as url, open_shop(tmp_path, store=url) as opened:
        yield opened


async def test_a_job_is_taken_worked_on_and_reported(shop: Shop) -> None:
    await shop.serve("resize", body="JSON: url and width")
    (job_id,) = await shop.post("cat.png")
    (job,) = await shop.take(worker=Worker("gpu-1"))
    assert (job.job.id, job.job.data, job.job.attempts, job.job.lock) == (job_id, b"cat.png", 1, OWNER)
    assert (await shop.record(job_id)).state is JobState.RUNNING
    assert await shop.take() == [], "a job that a worker holds is not handed out again"
    assert await shop.report(job, result=b"small.png", log=b"resized\n") is Answer.OK
    record = await ended(shop.daemon, job_id)
    assert record.outcome
    assert (record.outcome.code, record.outcome.exitcode, record.outcome.result) == (Code.OK, 200, b"small.png")
    assert (record.outcome.log, record.outcome.isolation, record.outcome.handler_version) == (
        b"resized\n",
        "external",
        1,
    )
    assert shop.daemon.workers.gauges()["worker_jobs_held"] == 0


async def test_a_waiting_worker_is_woken_by_arrival_and_not_by_a_query(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.serve("resize", "crop")
    idle = asyncio.create_task(shop.take("crop", wait_s=30.0))
    takers = [asyncio.create_task(shop.take(wait_s=30.0)) for _ in range(50)]
    await until(waiting(shop, 51))
    claims, claim = 0, shop.daemon.store.claim_jobs

    async def counted(*given: Any, **named: Any) -> Any:
        nonlocal claims
        claims += 1
        return await claim(*given, **named)

    monkeypatch.setattr(shop.daemon.store, "claim_jobs", counted)
    await shop.post("1", "2", "3")
    done = await until(finished(takers, 3))
    assert sorted(payloads([job for task in done for job in task.result()])) == ["1", "2", "3"]
    assert claims <= 3 + 2, "three jobs for fifty workers cost a claim each, and one that finds nothing"
    assert not idle.done()
    shop.daemon.workers.stop()
    for rest in await asyncio.gather(*takers, idle):
        assert len(rest) <= 1


async def test_the_poll_finds_what_nobody_told_of(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if another daemon had added it."""
    await shop.serve("resize")
    taker = asyncio.create_task(shop.take(wait_s=30.0))
    await until(waiting(shop, 1))
    monkeypatch.setattr(shop.daemon.workers._handout, "added", lambda _: None)
    await shop.post("1")
    assert payloads(await taker) == ["1"]


async def test_who_came_first_is_served_first_whatever_types_it_asks_for(shop: Shop) -> None:
    await shop.serve("resize")
    asked = [("resize*",), ("resize", "mail"), ("resize*",), ("resize",)]
    takers: list[asyncio.Task[list[Taken]]] = []
    for number, patterns in enumerate(asked):
        takers.append(asyncio.create_task(shop.take(*patterns, wait_s=30.0)))
        await until(waiting(shop, number + 1))
    await shop.post("0", "1")
    first = await until(finished(takers, 2))
    assert first == takers[:2]
    takers.append(asyncio.create_task(shop.take("resize*", wait_s=30.0)))
    await until(waiting(shop, 3))
    await shop.post("2", "3")
    assert await until(finished(takers, 4)) == takers[:4], "who asks again stands behind the others"
    await shop.post("4")
    assert payloads(await takers[4]) == ["4"]


async def test_a_late_token_is_that_items_verdict_and_changes_nothing(shop: Shop) -> None:
    await shop.serve("resize")
    ids = await shop.post("1", "2")
    first, second = await shop.take(limit=2)
    late = Delivery(ids[0], first.job.token + 1)
    other = Delivery("20261114T235959123Z-1-00001f", 1)
    new = (NewJob("mail", b"x"),)
    verdicts = await operations.report(
        shop.service,
        ACME,
        [Report(late, 200, new_jobs=new), Report(other, 200), Report(held(second), 200, b"done")],
    )
    assert [verdict.answer for verdict in verdicts] == [Answer.LATE, Answer.UNKNOWN, Answer.OK]
    assert (await shop.record(ids[0])).state is JobState.RUNNING
    renewed = await operations.renew(shop.service, ACME, [late, held(first), held(second)])
    assert [verdict.answer for verdict in renewed] == [Answer.LATE, Answer.OK, Answer.LATE]
    back = await operations.give_back(shop.service, ACME, [late, held(second), held(first)])
    assert [verdict.answer for verdict in back] == [Answer.LATE, Answer.LATE, Answer.OK]
    assert shop.daemon.workers.gauges()["worker_reports_late_total"] == 5
    counters = await shop.daemon.store.get_counters("acme", now_ms=shop.daemon.clock.now_ms())
    assert [row.jobtype for row in counters] == ["acme-resize"], "the late report made no new job"


async def test_a_job_given_back_keeps_its_place_and_its_attempts(shop: Shop) -> None:
    await shop.serve("resize")
    await shop.post("1", "2")
    (job,) = await shop.take()
    waiter = asyncio.create_task(shop.take(limit=5, wait_s=30.0))
    assert payloads(await waiter) == ["2"]
    again = asyncio.create_task(shop.take(wait_s=30.0))
    (verdict,) = await operations.give_back(shop.service, ACME, [held(job)])
    assert verdict.answer is Answer.OK
    (back,) = await again
    assert (back.job.data, back.job.attempts, back.job.token) == (b"1", 1, 2)


async def test_goodbye_leaves_an_end_alone_that_is_on_its_way(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    await shop.serve("resize")
    await shop.post("1")
    (job,) = await shop.take(worker=Worker("a"))
    outbox = shop.daemon._parts.reported
    put, held_up = outbox.put, list[Any]()
    monkeypatch.setattr(outbox, "put", lambda *ending: held_up.append(ending))
    saying = asyncio.ensure_future(shop.report(job))
    await until(lambda: asyncio.sleep(0, bool(held_up)))
    assert await operations.give_back(shop.service, ACME, [], goodbye="a") == []
    put(*held_up[0])
    await saying
    assert shop.gauge("worker_reports_late_total") == 0


async def test_goodbye_gives_back_all_that_a_worker_holds(shop: Shop) -> None:
    await shop.serve("resize")
    await shop.post("1", "2", "3")
    await shop.take(limit=2, worker=Worker("a"))
    await shop.take(worker=Worker("b"))
    assert len(await operations.give_back(shop.service, ACME, [], goodbye="a")) == 2
    assert payloads(await shop.take(limit=5)) == ["1", "2"]
    assert [seen.name for seen in await operations.list_workers(shop.service, "acme")] == ["", "b"]


async def test_a_worker_that_vanishes_is_found_by_its_lease(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_shop(tmp_path, clock, max_attempts="2") as shop:
        await shop.serve("resize")
        (job_id,) = await shop.post("1")
        (first,) = await shop.take(lease_ms=5000)
        again = asyncio.create_task(shop.take(wait_s=30.0, lease_ms=5000))
        clock.advance(4)
        (verdict,) = await operations.renew(shop.service, ACME, [held(first)])
        assert (verdict.answer, verdict.until_ms) == (Answer.OK, clock.now_ms() + 5000)
        clock.advance(4)
        await shop.daemon.upkeep.expire_leases()
        assert not again.done(), "the lease was renewed"
        clock.advance(2)
        (second,) = await again
        assert (second.job.attempts, second.job.token) == (2, 2)
        assert await shop.report(first, result=b"late") is Answer.LATE
        clock.advance(6)
        assert await shop.take(wait_s=1.0) == [], "its attempts are used up"
        record = await ended(shop.daemon, job_id)
        assert record.outcome
        assert record.outcome.code is Code.ABANDONED
        assert shop.daemon.workers.gauges()["worker_jobs_held"] == 0


async def test_progress_after_the_lease_is_late_if_the_job_was_given_up(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_shop(tmp_path, clock, poll="1h") as shop:
        await shop.serve("resize")
        await shop.post("1")
        (job,) = await shop.take(lease_ms=5000)
        clock.advance(4)
        assert await shop.report(job, None, progress=b"40", log=b"begun\n") is Answer.OK
        clock.advance(4)
        assert await shop.report(job, None, progress=b"80") is Answer.OK, "nobody has seen yet that it lapsed"
        await shop.daemon.upkeep.expire_leases()
        assert await shop.report(job, None, progress=b"90") is Answer.LATE
        assert shop.gauge("worker_jobs_held") == 0


async def test_leases_of_a_type_and_fixed_ones(shop: Shop) -> None:
    await shop.serve("resize", timeout_s=20.0, options={"lease_s": 15})
    await shop.post("1")
    now_ms = shop.daemon.clock.now_ms()
    (job,) = await shop.take()
    assert 14_000 < job.job.dt_ms - now_ms <= 16_000
    assert job.timeout_ms == 20_000
    (verdict,) = await operations.renew(shop.service, ACME, [held(job)], lease_ms=60_000)
    assert (verdict.until_ms or 0) - now_ms <= 21_000, "not longer than the type allows"
    held_job = shop.daemon.workers._claims.held.find("acme", job.job.id)
    assert held_job is not None
    held_job.claimed_ms -= 20_000
    (verdict,) = await operations.renew(shop.service, ACME, [held(job)])
    assert verdict.answer is Answer.TIMED_OUT


async def test_any_daemon_renews_and_releases_also_after_a_restart(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        await shop.serve("resize", options={"max_attempts": 1})
        ids = await shop.post("1", "2", "3")
        jobs = await shop.take(limit=3)
    async with open_shop(tmp_path, is_new=False) as shop:
        assert await shop.take() == [], "the leases hold"
        (verdict,) = await operations.renew(shop.service, ACME, [held(jobs[0])])
        assert verdict.answer is Answer.OK
        assert await shop.report(jobs[0], result=b"done") is Answer.OK
        assert await shop.report(jobs[1], 500, result=b"oh") is Answer.OK
        (verdict,) = await operations.report(shop.service, ACME, [Report(Delivery(ids[2], None), 200)])
        assert verdict.answer is Answer.OK, "a protocol without tokens means the delivery that is held"
        codes = [(await ended(shop.daemon, job_id)).outcome for job_id in ids]
        assert [outcome and outcome.code for outcome in codes] == [Code.OK, Code.ABANDONED, Code.OK]
        (verdict,) = await operations.report(shop.service, ACME, [Report(Delivery(ids[2], None), 200)])
        assert verdict.answer is Answer.LATE


async def test_a_taker_that_has_left_gets_nothing_and_loses_nothing(shop: Shop) -> None:
    await shop.serve("resize")
    is_there = True
    gone = asyncio.create_task(shop.take(wait_s=30.0, is_present=lambda: is_there))
    cancelled = asyncio.create_task(shop.take(wait_s=30.0))
    await until(waiting(shop, 2))
    is_there = False
    cancelled.cancel()
    await shop.post("1")
    (job,) = await shop.take(wait_s=30.0)
    assert (job.job.data, job.job.attempts) == (b"1", 1)
    assert await gone == []


async def test_workers_that_ask_at_the_same_time_share_a_claim(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    await shop.serve("resize")
    await shop.post(*map(str, range(25)))
    claim, begun, go, claims = shop.daemon.store.claim_jobs, asyncio.Event(), asyncio.Event(), 0

    async def slow(*given: Any, **named: Any) -> Any:
        nonlocal claims
        claims += 1
        begun.set()
        await go.wait()
        return await claim(*given, **named)

    monkeypatch.setattr(shop.daemon.store, "claim_jobs", slow)
    first = asyncio.create_task(shop.take(wait_s=30.0, worker=Worker("0")))
    await begun.wait()
    others = [asyncio.create_task(shop.take(limit=2, wait_s=30.0, worker=Worker(str(n)))) for n in range(1, 13)]
    await until(waiting(shop, 13))
    go.set()
    taken = [payloads(jobs) for jobs in await asyncio.gather(first, *others)]
    assert [len(jobs) for jobs in taken] == [1, *[2] * 12]
    assert sorted(int(text) for texts in taken for text in texts) == list(range(25)), "each has gone to one of them"
    assert claims == 2
    assert {seen.name: seen.running for seen in await operations.list_workers(shop.service, "acme")} == {
        str(n): 1 if n == 0 else 2 for n in range(13)
    }


async def test_jobs_claimed_for_one_who_leaves_meanwhile_are_given_back(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.serve("resize")
    await shop.post("1")
    claim, begun, go = shop.daemon.store.claim_jobs, asyncio.Event(), asyncio.Event()

    async def slow(*given: Any, **named: Any) -> Any:
        begun.set()
        await go.wait()
        return await claim(*given, **named)

    monkeypatch.setattr(shop.daemon.store, "claim_jobs", slow)
    taker = asyncio.create_task(shop.take(wait_s=30.0))
    await begun.wait()
    taker.cancel()
    go.set()
    (job,) = await shop.take(wait_s=30.0)
    assert (job.job.data, job.job.attempts) == (b"1", 1)


async def test_a_stopping_daemon_answers_at_once_and_records_what_was_reported(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        await shop.serve("resize")
        (job_id,) = await shop.post("1")
        (job,) = await shop.take()
        waiter = asyncio.create_task(shop.take(wait_s=60.0))
        await until(waiting(shop, 1))
        reported = asyncio.create_task(shop.report(job))
        await asyncio.sleep(0)
        shop.daemon.quit()
        assert await waiter == []
        assert await reported is Answer.OK
    async with open_shop(tmp_path, is_new=False) as shop:
        assert (await shop.end(job_id)).code is Code.OK


async def test_workers_that_wait_are_not_walked_through_while_there_is_nothing_for_them(shop: Shop) -> None:
    await shop.serve("resize")
    asked = 0

    def is_present() -> bool:
        nonlocal asked
        asked += 1
        return True

    order = Order("acme", ("resize",), wait_s=30.0, is_present=is_present)
    line = shop.daemon.workers
    waiters = [asyncio.create_task(line.take(order)) for _ in range(50)]
    await until(waiting(shop, 50))
    asked = 0
    assert await line.take(order._replace(wait_s=0.01)) == []
    assert asked < 10, "the first in line, each time that the line is looked at"
    await shop.post("1")
    done, others = await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED, timeout=30.0)
    assert [len(await each) for each in done] == [1]
    line.stop()
    assert [await each for each in others] == [[]] * 49


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_report_that_comes_twice_at_once_makes_its_jobs_once(shop: Shop, is_known: bool) -> None:
    await shop.serve("resize", "next")
    await shop.post("1")
    (job,) = await shop.take()
    if not is_known:  # as after a restart
        shop.daemon.workers._claims.held.drop_tenant("acme")
    one = [Report(held(job), 200, new_jobs=(NewJob("next", b"n"),))]
    answers = await asyncio.gather(*(operations.report(shop.service, ACME, one) for _ in range(2)))
    assert [verdict.answer for (verdict,) in answers] == [Answer.OK, Answer.OK]
    await shop.daemon.intake.flush()
    assert payloads(await shop.take("next", limit=10)) == ["n"]


async def test_one_who_does_not_wait_is_tried_while_others_are_served(shop: Shop) -> None:
    await shop.serve("resize", "crop")
    await shop.post("1")
    await shop.post("2", type_name="crop")
    taken = await asyncio.gather(shop.take("resize"), shop.take("crop"))
    assert [payloads(jobs) for jobs in taken] == [["1"], ["2"]]


async def test_workers_are_woken_when_none_has_asked_for_long(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functory.workers.handout, "_KEPT_S", -1.0)
    await shop.serve("resize")
    assert await shop.take() == []
    shop.daemon.workers.wake()  # so that the next one looks first
    taker = asyncio.create_task(shop.take(wait_s=30.0))
    await until(waiting(shop, 1))
    await shop.post("1")
    async with asyncio.timeout(20):
        assert payloads(await taker) == ["1"]


async def test_a_new_tenant_has_nothing_of_the_workers_of_one_that_had_its_name(shop: Shop) -> None:
    await shop.serve("resize")
    await shop.post("1")
    worker = Worker("gpu-1")
    await shop.take(worker=worker, lease_ms=3_600_000)
    await operations.drain_worker(shop.service, ACME, "gpu-2", drained=True)
    waits = asyncio.create_task(shop.take(worker=worker, wait_s=60.0))
    await until(waiting(shop, 1))
    await shop.daemon.workers.write_down()
    while (await delete_tenant(shop.service, "test", "acme")).more:
        pass
    async with asyncio.timeout(20):
        assert await waits == [], "it gets none of the next one's jobs"
    assert shop.gauge("worker_jobs_held") == 0
    gone_ms = shop.daemon.clock.now_ms()

    async def is_later() -> bool:
        return shop.daemon.clock.now_ms() > gone_ms

    await until(is_later)
    await create_tenant(shop.service, "test", "acme", 1, TenantLimits())
    assert await operations.list_workers(shop.service, "acme") == []
    assert not operations.is_draining(shop.service, ACME, "gpu-2")
    await shop.serve("resize")
    await shop.post("2")
    assert payloads(await shop.take(worker=Worker("gpu-2"), wait_s=30.0)) == ["2"]
