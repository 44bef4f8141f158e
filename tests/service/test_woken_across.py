"""Daemons of one store wake each other: nothing waits for a poll, and a lost word costs one and never a job.

The poll is an hour here, except where words are lost: whatever happens was told.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.errors import Missing
from functory.loops.job_mark import mark_of
from functory.operations.daemons import info_of, pause_daemon, shown_info_of
from functory.operations.jobs import cancel_job, wait_for_job
from functory.operations.type_controls import pause_type
from functory.operations.workers import give_back
from functory.peers.channel import Envelope
from functory.peers.news import Look, News
from functory.peers.peers import Peer, Peers
from functory.setting_values import Address
from functory.workers.values import Answer, Worker
from store.base import Code, JobRecord, JobState
from tests.support.clocks import LeapingClock
from tests.support.service import ended, register, running_daemon, until
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.two_daemons import two_daemons
from tests.support.workers import ACME, Shop, payloads

WAITS = """
import time, pathlib
pathlib.Path(payload).touch()
while True:
    time.sleep(0.01)
"""


@pytest.fixture(params=back_end_params())
async def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as url:
        yield url


async def run_there(a: Daemon) -> None:
    """A job that is posted to the first ends on the second, and the first is told so."""
    (job_id,) = await a.intake.write("acme-x", [b"1"])
    assert await a.waiters.wait(job_id, 30), "nobody told"
    record = await a.store.get_job("acme", job_id, now_ms=a.clock.now_ms())
    assert record is not None
    assert record.state is JobState.ARCHIVED


async def test_arrivals_and_endings_are_told(tmp_path: Path, store_url: str) -> None:
    async with two_daemons(tmp_path, store_url) as (a, b):
        await register(a, "acme-x", "return payload")
        for _ in range(3):
            await run_there(a)
        assert b.executor.claimed == 3
        assert {info_of(each).wake_at for each in await a.store.list_daemons(now_ms=a.clock.now_ms())} != {""}


async def test_what_cannot_be_sent_is_counted_apart(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        peers, news = daemon._parts.peers, News()
        news.look = Look.JOBS
        before = daemon.gauges()
        for address in (Address("127.0.0.1", 9), Address("255.255.255.255", 9)):  # a broadcast is not permitted
            peers.others = {"b1": Peer(address, "", Envelope(bytes(32)))}
            peers.send(news)
        for name in ("peer_datagrams_sent_total", "peer_datagrams_unsent_total"):
            assert daemon.gauges()[name] == before[name] + 1


async def test_a_job_that_ended_elsewhere_and_is_not_kept_is_not_waited_for(tmp_path: Path, store_url: str) -> None:
    """The one that ran it has its result; the other knows that it is over, before and after."""
    async with two_daemons(tmp_path, store_url) as (a, b):
        gate = tmp_path / "gate"
        body = "import os, time\nwhile not os.path.exists(payload): time.sleep(0.01)\nreturn 'x'"
        await register(b, "acme-x", body, keep="none")
        (job_id,) = await b.intake.write("acme-x", [str(gate).encode()])
        there = asyncio.ensure_future(wait_for_job(service_of(b), "acme", job_id, 3000.0))
        here = asyncio.ensure_future(wait_for_job(service_of(a), "acme", job_id, 3000.0))
        await asyncio.to_thread(gate.touch)
        async with asyncio.timeout(30):  # for a minute the job might be on its way to the store
            found = await there
            assert isinstance(found, JobRecord)
            assert found.outcome is not None
            assert found.outcome.result == b'"x"'
            with pytest.raises(Missing, match="has ended and is not kept"):
                await here
            with pytest.raises(Missing, match="has ended and is not kept"):
                await wait_for_job(service_of(a), "acme", job_id, 3000.0)


async def test_changes_are_told(tmp_path: Path) -> None:
    """A handler, a pause of a type, a pause of a daemon: all made where no jobs run."""
    async with two_daemons(tmp_path) as (a, b):
        await register(a, "acme-x", "return 'first'")
        await run_there(a)
        await pause_type(service_of(a), ACME, "acme", "x", paused=True)
        (held,) = await a.intake.write("acme-x", [b"1"])
        await register(a, "acme-y", "return 'second'")
        (other,) = await a.intake.write("acme-y", [b"1"])
        assert (await ended(a, other)).outcome
        assert await state(a, held) is JobState.WAITING
        await pause_type(service_of(a), ACME, "acme", "x", paused=False)
        assert await a.waiters.wait(held, 30) or await state(a, held) is JobState.ARCHIVED
        await pause_daemon(service_of(a), "test", b.sysid, paused=True)
        await until(lambda: is_paused(b))


async def state(daemon: Daemon, job_id: str) -> JobState | None:
    await daemon.intake.flush()
    record = await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms())
    return None if record is None else record.state


async def is_paused(daemon: Daemon) -> bool:
    return daemon.is_paused


async def test_a_cancel_ends_a_run_elsewhere(tmp_path: Path) -> None:
    """Not when its lease is renewed, which is in minutes."""
    sign = tmp_path / "sign"
    async with two_daemons(tmp_path) as (a, b):
        await register(a, "acme-x", WAITS)
        (job_id,) = await a.intake.write("acme-x", [str(sign).encode()])
        await until(lambda: asyncio.to_thread(sign.exists))
        await cancel_job(service_of(a), "acme", job_id)
        await until(lambda: runs_nothing(b))
        record = await ended(a, job_id)
    assert record.outcome
    assert record.outcome.code is Code.CANCELLED


async def test_a_worker_elsewhere_hears_of_a_cancel_when_it_tells_its_progress(tmp_path: Path) -> None:
    async with two_daemons(tmp_path) as (a, b):
        here, there = Shop(a), Shop(b)
        await here.serve("resize")
        await until(lambda: serves(b, "acme-resize"))
        (job_id,) = await there.post("1")
        (job,) = await there.take("resize", wait_s=30)
        assert await there.report(job, None, progress=b"40") is Answer.OK
        await cancel_job(here.service, "acme", job_id)
        await until(lambda: holds_nothing(there))
        assert await there.report(job, None, progress=b"50") is Answer.LATE


async def holds_nothing(shop: Shop) -> bool:
    return shop.gauge("worker_jobs_held") == 0


async def runs_nothing(daemon: Daemon) -> bool:
    return not daemon._parts.runner.gauges()["running_jobs"]


async def test_a_worker_that_waits_elsewhere_is_woken(tmp_path: Path) -> None:
    async with two_daemons(tmp_path) as (a, b):
        there = Shop(b)
        await Shop(a).serve("resize")
        await until(lambda: serves(b, "acme-resize"))
        taking = asyncio.create_task(there.take("resize", wait_s=30))
        await until(lambda: has_looked(b))
        (job_id,) = await a.intake.write("acme-resize", [b"1"])
        (taken,) = await taking
    assert taken.job.id == job_id


async def test_a_goodbye_gives_back_what_a_worker_took_elsewhere(tmp_path: Path, store_url: str) -> None:
    async with two_daemons(tmp_path, store_url) as (a, b):
        here, there, worker = Shop(a), Shop(b), Worker("w")
        await here.serve("resize")
        await until(lambda: serves(b, "acme-resize"))
        await there.post("1", "2", "3")
        assert payloads(await there.take(limit=2, worker=worker)) == ["1", "2"]
        assert payloads(await there.take(worker=Worker("other"))) == ["3"]
        waiting = asyncio.create_task(there.take(limit=5, wait_s=30))
        assert await give_back(here.service, ACME, [], goodbye="w") == [], "it took nothing here"
        back = await waiting
        back += await there.take(limit=5, wait_s=30) if len(back) == 1 else []
        assert (payloads(back), {each.job.attempts for each in back}) == (["1", "2"], {1})
        assert [seen.name for seen in b.workers._presence.here("acme")] == ["other", ""]


async def test_a_goodbye_whose_end_is_not_recorded_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What jobs of its tenant left may wait for a disk that is full. The loop that hears others is that of all."""
    monkeypatch.setattr("functory.workers.reports._WITHIN_S", 0.01)
    async with two_daemons(tmp_path) as (a, b):
        here, there, worker = Shop(a), Shop(b), Worker("w")
        await here.serve("resize")
        await until(lambda: serves(b, "acme-resize"))
        (job_id,) = await there.post("1")
        assert len(await there.take(worker=worker)) == 1
        is_held, go_on = asyncio.Event(), asyncio.Event()
        admitted = b.workers._outbox._admission.admitted

        async def admitted_late(*some: Any) -> Any:
            is_held.set()
            await go_on.wait()
            return await admitted(*some)

        monkeypatch.setattr(b.workers._outbox._admission, "admitted", admitted_late)
        await give_back(here.service, ACME, [], goodbye="w")
        await is_held.wait()
        await pause_daemon(service_of(a), "test", b.sysid, paused=True)
        await until(lambda: is_paused(b))
        assert await state(b, job_id) is JobState.RUNNING
        go_on.set()
        await until(lambda: is_waiting(b, job_id))


async def test_the_word_of_a_goodbye_takes_nothing_from_a_worker_that_has_come_again(tmp_path: Path) -> None:
    async with two_daemons(tmp_path) as (a, b):
        here, there, worker = Shop(a), Shop(b), Worker("w")
        await here.serve("resize")
        await until(lambda: serves(b, "acme-resize"))
        (job_id,) = await there.post("1")
        await give_back(here.service, ACME, [], goodbye="w")
        said_ms = a.clock.now_ms()
        await until(lambda: has_passed(b, said_ms))
        assert len(await there.take(worker=worker)) == 1
        await b.workers.left_elsewhere("acme", mark_of("w"))
        assert await state(b, job_id) is JobState.RUNNING
        assert [seen.name for seen in b.workers._presence.here("acme")] == ["w"]


async def test_a_goodbye_counts_once_whatever_the_clock_of_the_daemon_that_heard_it(tmp_path: Path) -> None:
    async with two_daemons(tmp_path) as (a, b):
        here, there, worker = Shop(a), Shop(b), Worker("w")
        ahead = LeapingClock()
        ahead.ahead_ms = 30_000
        a.workers._goodbyes._clock = ahead
        await here.serve("resize")
        await until(lambda: serves(b, "acme-resize"))
        (job_id,) = await there.post("1")
        for _ in range(2):  # the second goodbye is another one
            assert len(await there.take(worker=worker)) == 1
            await give_back(here.service, ACME, [], goodbye="w")
            await until(lambda: is_waiting(b, job_id))
            ahead.ahead_ms += 1
        assert len(await there.take(worker=worker)) == 1
        await b.workers.left_elsewhere("acme", mark_of("w"))
        assert await state(b, job_id) is JobState.RUNNING
        assert [seen.name for seen in b.workers._presence.here("acme")] == ["w"]


async def is_waiting(daemon: Daemon, job_id: str) -> bool:
    return await state(daemon, job_id) is JobState.WAITING


async def has_passed(daemon: Daemon, time_ms: int) -> bool:
    return daemon.clock.now_ms() > time_ms


async def serves(daemon: Daemon, jobtype: str) -> bool:
    return jobtype in await daemon.workers._handout._types.of("acme")


async def has_looked(daemon: Daemon) -> bool:
    """A worker waits, and the store was looked at for it."""
    return bool(daemon.workers.gauges()["workers_waiting"]) and not daemon.workers._handout._is_stale


async def test_lost_words_cost_a_poll_and_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with two_daemons(tmp_path, poll="50ms") as (a, b):
        await register(a, "acme-x", "return payload")
        monkeypatch.setattr(Peers, "send", lambda *_: None)
        ids = await a.intake.write("acme-x", [b"1", b"2", b"3"])
        records = [await ended(a, job_id) for job_id in ids]
        assert b.executor.claimed == 3
    assert [record.job.attempts for record in records] == [1, 1, 1]


async def test_the_key_is_shown_to_nobody(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        (record,) = await daemon.store.list_daemons(now_ms=daemon.clock.now_ms())
    key = info_of(record).wake_key
    assert len(key) == 64
    assert key not in json.dumps(shown_info_of(record))
    assert shown_info_of(record)["wake_at"].startswith("127.0.0.1:")


async def test_a_daemon_that_is_told_nothing_goes_on(tmp_path: Path) -> None:
    async with running_daemon(tmp_path, wake="off") as daemon:
        await register(daemon, "acme-x", "return payload")
        (job_id,) = await daemon.intake.write("acme-x", [b"1"])
        await ended(daemon, job_id)
        (record,) = await daemon.store.list_daemons(now_ms=daemon.clock.now_ms())
    assert info_of(record).wake_at == ""


async def test_who_waits_where_a_job_runs_that_is_not_kept_gets_its_result(tmp_path: Path) -> None:
    """Also if the other daemon has accepted it, and may still have it, as far as its id tells."""
    async with two_daemons(tmp_path) as (a, b):
        gate = tmp_path / "gate"
        body = "import os, time\nwhile not os.path.exists(payload): time.sleep(0.01)\nreturn 'x'"
        await register(b, "acme-x", body, keep="none")
        (job_id,) = await a.intake.write("acme-x", [str(gate).encode()])

        async def is_running() -> bool:
            return bool(b._parts.runner.gauges()["running_jobs"])

        await until(is_running)
        waiting = asyncio.create_task(wait_for_job(service_of(b), "acme", job_id, 20.0))
        await asyncio.to_thread(gate.touch)
        found = await waiting
        assert isinstance(found, JobRecord)
        assert found.outcome is not None
        assert found.outcome.result == b'"x"'
