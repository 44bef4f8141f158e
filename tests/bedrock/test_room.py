"""Jobs that are claimed while others hold the room for large answers: none waits for long, and none is lost."""

import json
import socket
import struct

import pytest

from functory.bedrock import taking
from functory.web.http.body_room import BodyRoom
from tests.support.bedrock import Bedrock, Session
from tests.support.service import until

ALL_BYTES = 40 << 20
LARGE = '{"a":"' + "x" * 1_000_000 + '"}'


async def family(session: Session, *children: str, parent: str = "{}") -> None:
    """The job 1, album, that waits for its children 2, 3, ... of the type piece."""
    await session.ask("CreateJob", name="album")
    await session.ask("GetJob", name="album")
    for data in children:
        await session.ask("CreateJob", name="piece", parentJobID=1, data=data)
    await session.ask("FinishJob", jobID=1, data=parent)


def room_of(bedrock: Bedrock) -> BodyRoom:
    return bedrock.listener._shared.commands.room


async def test_without_room_a_child_is_handed_out_without_the_data_of_its_parent(
    bedrock: Bedrock, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await family(session, "{}", parent=LARGE)
    monkeypatch.setattr(taking, "ROOM_WAIT_S", 0.0)
    async with room_of(bedrock).of("other", ALL_BYTES):
        told = (await session.ask("GetJob", name="piece")).json
    assert told == {"data": {}, "jobID": 2, "name": "piece", "parentJobID": 1, "parentDataOmitted": True}


async def test_without_room_a_parent_is_told_the_data_that_needs_none(
    bedrock: Bedrock, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await family(session, LARGE, '{"b":1}', LARGE)
    for number in (2, 3, 4):
        await session.ask("GetJob", name="piece")
        await session.ask("FinishJob", jobID=number)
    monkeypatch.setattr(taking, "ROOM_WAIT_S", 0.0)
    async with room_of(bedrock).of("other", ALL_BYTES):
        told = (await session.ask("GetJob", name="album")).json
    assert told["finishedChildJobs"] == [
        {"dataOmitted": True, "jobID": 2},
        {"data": {"b": 1}, "jobID": 3},
        {"dataOmitted": True, "jobID": 4},
    ]


@pytest.mark.parametrize(
    ("child", "parent"), [("{}", LARGE), (LARGE, "{}")], ids=["for its relatives", "for its answer"]
)
async def test_a_job_that_waits_for_room_is_given_back_when_its_connection_breaks(
    bedrock: Bedrock, session: Session, monkeypatch: pytest.MonkeyPatch, child: str, parent: str
) -> None:
    await family(session, child, parent=parent)
    monkeypatch.setattr(taking, "ROOM_WAIT_S", 600.0)
    room = room_of(bedrock)
    async with room.of("other", ALL_BYTES):
        async with bedrock.session() as breaking:
            connections = len(bedrock.listener._shared.open)
            breaking.send("GetJob", name="piece")
            await until(lambda: _is_waited_for(room))
            assert bedrock.shop.gauge("worker_jobs_held") == 1
            reset(breaking)
        await until(lambda: _has_fewer(bedrock, connections))
    reply = await session.ask("GetJob", name="piece", connection="wait", timeout=60_000)
    assert (reply.status, reply.json["jobID"]) == (200, 2)


async def test_one_that_has_closed_its_side_gets_the_job_that_waited_for_room(
    bedrock: Bedrock, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await family(session, "{}", parent=LARGE)
    monkeypatch.setattr(taking, "ROOM_WAIT_S", 600.0)
    room = room_of(bedrock)
    async with bedrock.session() as closing:
        async with room.of("other", ALL_BYTES):
            closing.send("GetJob", name="piece")
            closing.writer.write_eof()
            await until(lambda: _is_waited_for(room))
        assert (await closing.reply()).json["jobID"] == 2


def reset(session: Session) -> None:
    """Close the connection so that the other side knows that nobody reads any more."""
    opened: socket.socket = session.writer.get_extra_info("socket")
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    session.writer.transport.abort()


async def _is_waited_for(room: BodyRoom) -> bool:
    return bool(room._waiting)


async def _has_fewer(bedrock: Bedrock, connections: int) -> bool:
    return len(bedrock.listener._shared.open) < connections


async def test_many_jobs_that_are_created_together_wait_for_room(bedrock: Bedrock, session: Session) -> None:
    room = bedrock.listener._shared.commands._web.job_room

    async def waits() -> bool:
        return bool(room._waiting)

    async with room.of("acme", 24 << 20):
        session.send("CreateJobs", jobs=json.dumps([{"name": "piece"}] * 1000))
        await until(waits)
    assert len((await session.reply()).json["jobIDs"]) == 1000
