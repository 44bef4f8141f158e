"""Many connections that wait for jobs: each job goes to exactly one, none is lost, and waiting costs no look."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from functory.operations.keys import create_key, revoke_key
from tests.support.bedrock import Bedrock, Session, open_bedrock
from tests.support.clocks import FakeClock
from tests.support.service import until
from tests.support.workers import waiting

MANY = 64


@pytest.fixture
async def bedrock(tmp_path: Path) -> AsyncIterator[Bedrock]:
    """It looks for what other daemons do as good as never: whoever waits is woken."""
    async with open_bedrock(tmp_path, poll="1h") as running:
        await running.shop.serve("x")
        yield running


async def enter(stack: AsyncExitStack, bedrock: Bedrock, count: int = MANY) -> list[Session]:
    """So many connections that wait."""
    sessions = [await stack.enter_async_context(bedrock.session()) for _ in range(count)]
    for session in sessions:
        session.send("GetJob", name="x", Connection="wait", Timeout=60_000)
    await until(waiting(bedrock.shop, count))
    return sessions


async def test_each_job_goes_to_exactly_one_of_many(bedrock: Bedrock) -> None:
    async with AsyncExitStack() as stack:
        sessions = await enter(stack, bedrock)
        creator = await stack.enter_async_context(bedrock.session())
        for _ in range(MANY):
            creator.send("CreateJob", name="x")
        replies = await asyncio.gather(*(session.reply() for session in sessions))
        assert sorted(reply.json["jobID"] for reply in replies) == list(range(1, MANY + 1))
        for session, reply in zip(sessions, replies, strict=True):
            session.send("FinishJob", jobID=reply.json["jobID"])
        assert {(await session.reply()).status for session in sessions} == {200}
        rows = (await _last(creator, MANY).ask("Query", query="select count(*) from jobs where state='FINISHED'")).json
        assert rows == [[MANY]]


def _last(session: Session, answers: int) -> Session:
    return _Skipping(session, answers)


class _Skipping(Session):
    """Leaves out the answers to what was sent before."""

    def __init__(self, session: Session, answers: int) -> None:
        super().__init__(session.reader, session.writer)
        self._answers = answers

    async def reply(self) -> Any:
        while self._answers:
            self._answers -= 1
            await super().reply()
        return await super().reply()


async def test_a_connection_that_closes_while_it_waits_loses_no_job(bedrock: Bedrock) -> None:
    async with AsyncExitStack() as stack:
        sessions = await enter(stack, bedrock)
        creator = await stack.enter_async_context(bedrock.session())
        for session in sessions[::2]:
            await session.close()
        for _ in range(MANY // 2):
            creator.send("CreateJob", name="x")
        replies = await asyncio.gather(*(session.reply() for session in sessions[1::2]))
        assert sorted(reply.json["jobID"] for reply in replies) == list(range(1, MANY // 2 + 1))
        assert bedrock.shop.gauge("worker_jobs_held") == MANY // 2


async def test_connections_that_close_as_jobs_arrive_lose_none(bedrock: Bedrock) -> None:
    """Whatever was handed to one of them is handed out again, with no attempt counted, unless it was answered."""
    async with AsyncExitStack() as stack:
        sessions = await enter(stack, bedrock, 16)
        creator = await stack.enter_async_context(bedrock.session())
        for _ in range(16):
            creator.send("CreateJob", name="x")
        answered: set[int] = set()
        for session in sessions:
            session.writer.write_eof()
            answered |= {reply["jobID"] for reply in [await _json(session)] if reply}
        left: set[int] = set()
        reader = await stack.enter_async_context(bedrock.session())
        while len(answered | left) < 16:
            left.add((await reader.ask("GetJob", name="x", Connection="wait", Timeout=60_000)).json["jobID"])
        assert not answered & left
        assert answered | left == set(range(1, 17))


async def _json(session: Session) -> Any:
    return (await session.reply()).json


async def test_idle_waiting_asks_the_store_nothing(bedrock: Bedrock) -> None:
    async with AsyncExitStack() as stack:
        sessions = await enter(stack, bedrock)
        store: Any = bedrock.shop.daemon.store
        asked: list[str] = []
        for verb in ("get_waiting_jobtypes", "claim_jobs", "list_handlers", "get_tenant", "number_jobs"):
            _count(store, verb, asked)
        async with bedrock.session() as other:  # round trips, in which whoever waits could have looked
            for _ in range(20):
                assert (await other.ask("Nonsense")).status == 430
        assert asked == []
        await bedrock.shop.post("{}", type_name="x")
        done, _ = await asyncio.wait(
            [asyncio.create_task(session.reply()) for session in sessions], return_when=asyncio.FIRST_COMPLETED
        )
        assert [task.result().json["jobID"] for task in done] == [1]
        assert asked.count("claim_jobs") <= 2, "one job costs one claim, and perhaps one that finds nothing"


async def test_taking_and_finishing_a_job_costs_a_claim_and_a_release(bedrock: Bedrock) -> None:
    async with bedrock.session() as session:
        for _ in range(11):
            await session.ask("CreateJob", name="x")
        await session.ask("GetJob", name="x")
        store: Any = bedrock.shop.daemon.store
        asked: list[str] = []
        for verb in ("get_job", "claim_jobs", "release_jobs", "number_jobs", "find_numbered", "get_waiting_jobtypes"):
            _count(store, verb, asked)
        for number in range(2, 12):
            assert (await session.ask("GetJob", name="x")).json["jobID"] == number
            assert (await session.ask("FinishJob", jobID=number)).status == 200
        looks = asked.count("get_waiting_jobtypes")
        assert [verb for verb in asked if verb != "get_waiting_jobtypes"] == ["claim_jobs", "release_jobs"] * 10
        assert looks < 5, "no pair looks at what waits; the poll may come by"


async def test_children_are_handed_out_as_soon_as_their_parent_waits_for_them(bedrock: Bedrock) -> None:
    """Whoever reports the parent: over HTTP it is the same way."""
    await bedrock.shop.serve("piece")
    async with bedrock.session() as parent, bedrock.session() as child:
        await parent.ask("CreateJob", name="x")
        await parent.ask("GetJob", name="x")
        await parent.ask("CreateJob", name="piece", parentJobID=1)
        child.send("GetJob", name="piece", Connection="wait", Timeout=60_000)
        await until(waiting(bedrock.shop, 1))
        assert (await parent.ask("FinishJob", jobID=1)).status == 200
        assert (await child.reply()).json["jobID"] == 2
        parent.send("GetJob", name="x", Connection="wait", Timeout=60_000)
        assert (await child.ask("FinishJob", jobID=2)).status == 200
        assert (await parent.reply()).json["jobID"] == 1


def _count(store: Any, verb: str, asked: list[str]) -> None:
    before = getattr(store, verb)

    async def counted(*args: Any, **more: Any) -> Any:
        asked.append(verb)
        return await before(*args, **more)

    setattr(store, verb, counted)


async def test_a_daemon_that_stops_answers_those_who_wait_at_once(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        async with open_bedrock(tmp_path, poll="1h") as bedrock:
            sessions = [await stack.enter_async_context(bedrock.session()) for _ in range(8)]
            for session in sessions:
                session.send("GetJob", name="x", Connection="wait")
            await until(waiting(bedrock.shop, 8))
        for session in sessions:
            assert (await session.rest()).startswith(b"303 Timeout\n")


async def test_a_time_to_wait_is_kept(bedrock: Bedrock) -> None:
    async with bedrock.session() as session:
        assert (await session.ask("GetJob", name="x", connection="WAIT", timeout=30)).status == 303
        assert (await session.ask("GetJobs", name="x", numResults=2, connection="wait", timeout=0)).status == 303


@pytest.mark.parametrize("way", ["revoked", "revoked elsewhere", "expired"])
async def test_one_that_waits_gets_no_job_after_its_key_has_ended(tmp_path: Path, clock: FakeClock, way: str) -> None:
    async with open_bedrock(tmp_path, clock, poll="1h") as bedrock:
        service = bedrock.shop.service
        await bedrock.shop.serve("x")
        key, text = await create_key(service, "test", "acme", scopes=("work",), expires_s=60)
        async with bedrock.session() as session, bedrock.session() as other:
            session.send("GetJob", name="x", Connection="wait", Authorization=f"Bearer {text}")
            await until(waiting(bedrock.shop, 1))
            if way == "revoked":
                await revoke_key(service, "test", "acme", key.key_id)
            elif way == "revoked elsewhere":
                await service.store.delete_key("acme", key.key_id)
                clock.advance(5)
            else:
                clock.advance(60)
            await bedrock.shop.post("{}", type_name="x")
            assert (await session.reply()).status == 401
            assert (await other.ask("GetJob", name="x", Connection="wait")).status == 200, "it was given back"
