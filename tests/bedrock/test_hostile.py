"""Slow, endless, binary and malformed input: an error, and bounded memory."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from functory.bedrock.connection import Connection
from functory.bedrock.input_room import FREE_BYTES, InputRoom
from functory.bedrock.settings import BedrockSettings
from functory.web.http.body_room import BodyRoom
from tests.support.bedrock import Bedrock, Session, key_of, open_bedrock
from tests.support.service import until

TENANT = BedrockSettings(tenant="acme")


async def told(bedrock: Bedrock, data: bytes) -> bytes:
    """What the server says to some bytes, until it closes."""
    async with bedrock.session() as session:
        session.send_bytes(data)
        return await session.rest()


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", b"400 "),
        (b"\xff\xfe\n\n", b"400 a line is not UTF-8 text"),
        (b"Get Job\n\n", b"400 the first line must be a command"),
        (b"GetJob\nname\n\n", b"400 'name' must read `name: value`"),
        (b"GetJob\nname: a\nNAME: b\n\n", b"400 name: is given twice"),
        (b"GetJob\nname: a\x00b\n\n", b"400 name: holds a control character"),
        (b"GetJob\n name: a\n\n", b"400 "),
        (b"GetJob\ncontent-length: -1\n\n", b"400 content-length: must be a whole number"),
        (b"GetJob\ncontent-length: 99999999\n\n", b"413 the body is longer than"),
        (b"GetJob\ntransfer-encoding: chunked\n\n", b"501 "),
        (b"GetJob\ncontent-length: 2\n\n{]", b"401 Invalid JSON"),
        (b"GetJob\n" + b"".join(b"a%d: b\n" % number for number in range(101)), b"400 more than 100 parameters"),
        (b"\n" * 65_536, b"400 more than 512 bytes of blank lines"),
        (b"\r\n" * 300 + b"GetJob\nname: x\n\n", b"400 more than 512 bytes of blank lines"),
        (b"GetJob\ncontent-length: 200000\n\n", b"413 the body is longer than 131072 bytes"),
        (b"POST /getjob?name=x HTTP/1.1\r\ncontent-length: 200000\r\n\r\n", b"HTTP/1.1 413 the body is longer than"),
        (b"Nonsense\ncontent-length: 200000\n\n", b"413 the body is longer than 131072 bytes"),
        (b"CreateJob\ncontent-length: 5000000\n\nx=" + b"a" * 4_999_998, b"413 the form is longer than 4194304 bytes"),
        (b"CreateJob\ncontent-length: 2002\n\nx=" + b"%" * 2000, b"400 the form cannot be read: it has more than 1000"),
        (b"CreateJob\ncontent-length: 3\n\nx=\xff", b"400 the form is not UTF-8 text"),
        (b"A" * 9000, b"413 the first line is longer than 8192 bytes"),
        (b"GetJob\nname: " + b"x" * (3 << 20), b"413 the command and its parameters are longer than"),
    ],
)
async def test_what_is_no_request_is_told_so_and_the_connection_closed(
    bedrock: Bedrock, data: bytes, answer: bytes
) -> None:
    assert (await told(bedrock, data)).startswith(answer)
    async with bedrock.session() as session:
        assert (await session.ask("GetJob", name="x")).status == 404


async def test_one_that_sends_slowly_is_cut_off(tmp_path: Path) -> None:
    settings = BedrockSettings(tenant="acme", request_s=0.05)
    async with open_bedrock(tmp_path, settings=settings) as bedrock:
        assert (await told(bedrock, b"GetJob\nname")).startswith(b"408 ")


async def test_one_that_says_nothing_is_closed(tmp_path: Path) -> None:
    async with open_bedrock(tmp_path, settings=BedrockSettings(tenant="acme", idle_s=0.05)) as bedrock:
        assert await told(bedrock, b"") == b""


async def test_blank_lines_are_no_request_and_win_no_time(bedrock: Bedrock) -> None:
    async with bedrock.session() as session:
        for _ in range(20):  # after each request it begins anew
            session.send_bytes(b"\r\n" * 50)
            assert (await session.ask("GetJob", name="x")).status == 404
        (connection,) = bedrock.listener._shared.open
        timer = connection._timer
        assert timer is not None
        session.send_bytes(b"\n" * 50)
        await until(lambda: _has_blank(connection))
        assert connection._timer is timer


async def _has_blank(connection: Connection) -> bool:
    return connection._parser._blank_bytes == 50


async def test_one_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    settings = BedrockSettings(tenant="acme", stall_s=0.2)
    async with open_bedrock(tmp_path, settings=settings) as bedrock, bedrock.session() as session:
        data = '{"a":"' + "x" * 500_000 + '"}'
        assert (await session.ask("CreateJob", name="big", data=data)).status == 200
        transport: Any = session.writer.transport
        transport.pause_reading()
        for _ in range(200):
            session.send("QueryJob", jobID=1)
        await until(lambda: _none_open(bedrock))


async def test_one_that_reads_slowly_is_cut_off_when_it_stops(bedrock: Bedrock, session: Session) -> None:
    """The looks are made by hand: each comes after something was read, and the last after nothing was."""
    for _ in range(8):
        await session.ask("CreateJob", name="big", data='{"a":"' + "x" * 500_000 + '"}')
    (connection,) = bedrock.listener._shared.open
    small: socket.socket = connection._transport.get_extra_info("socket")
    small.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
    session.send("GetJobs", name="big", numResults=8)
    await until(lambda: _is_stuck(connection))
    for _ in range(3):
        unread_bytes = connection._transport.get_write_buffer_size()
        while connection._transport.get_write_buffer_size() == unread_bytes:
            await session.reader.read(65_536)
        connection._on_stall()
        assert not connection._transport.is_closing()
    connection._on_stall()
    assert connection._transport.is_closing()


async def _is_stuck(connection: Connection) -> bool:
    return connection._drained is not None


async def _none_open(bedrock: Bedrock) -> bool:
    return bedrock.listener.connections == 0


class SeenRoom(BodyRoom):
    """Notes who takes room."""

    def __init__(self) -> None:
        super().__init__()
        self.payers: list[str] = []

    @asynccontextmanager
    async def of(self, tenant: str, size_bytes: int) -> AsyncIterator[bool]:
        self.payers.append(tenant)
        async with super().of(tenant, size_bytes) as has_waited:
            yield has_waited


async def test_a_large_answer_takes_room_of_the_tenant_that_asked(bedrock: Bedrock) -> None:
    async with bedrock.session() as session:
        await session.ask("CreateJob", name="big", data='{"a":"' + "x" * 500_000 + '"}')
        bedrock.listener._shared.commands.room = room = SeenRoom()
        assert (await session.ask("QueryJob", jobID=1)).status == 200
        assert room.payers == ["acme"]
        (connection,) = bedrock.listener._shared.open
        assert (await session.ask("QueryJob", jobID=1, authorization="Bearer wrong")).status == 401
        assert connection.peer.payer == "127.0.0.1"


async def test_connections_are_counted_in_all_and_by_address(tmp_path: Path) -> None:
    for limits in (
        BedrockSettings(tenant="acme", max_connections=3),
        BedrockSettings(tenant="acme", max_connections_of_one=3),
    ):
        async with open_bedrock(tmp_path / str(limits.max_connections), settings=limits) as bedrock:
            async with AsyncExitStack() as stack:
                for _ in range(3):
                    session = await stack.enter_async_context(bedrock.session())
                    assert (await session.ask("GetJob", name="x")).status == 404
                assert await told(bedrock, b"") == b"503 Too many connections\n\n"
            async with bedrock.session() as session:
                assert (await session.ask("GetJob", name="x")).status == 404


async def test_large_requests_that_are_not_whole_share_a_bounded_room(tmp_path: Path) -> None:
    settings = BedrockSettings(tenant="acme", max_input_bytes=1 << 20)
    async with open_bedrock(tmp_path, settings=settings) as bedrock, AsyncExitStack() as stack:
        half = b"CreateJob\nname: x\ndata: {" + b" " * 900_000
        first = await stack.enter_async_context(bedrock.session())
        first.send_bytes(half)
        second = await stack.enter_async_context(bedrock.session())
        second.send_bytes(half)
        said = await asyncio.wait(
            [asyncio.create_task(_first_line(session)) for session in (first, second)],
            return_when=asyncio.FIRST_COMPLETED,
            timeout=60,
        )
        (refused,) = said[0]
        assert refused.result().startswith(b"503 Too many large requests")
        (waits,) = said[1]
        for session in (first, second):
            session.send_bytes(b"}\n\n")
        assert (await waits).startswith(b"200 OK")


async def _first_line(session: Session) -> bytes:
    return await session.reader.readline()


def test_the_room_is_given_back() -> None:
    room = InputRoom(100, 100)
    assert room.change("a", 0, FREE_BYTES)
    assert room.change("a", FREE_BYTES, FREE_BYTES + 100)
    assert not room.change("b", 0, FREE_BYTES + 1)
    assert room.change("a", FREE_BYTES + 100, 0)
    assert room.change("b", 0, FREE_BYTES + 1)


def test_one_owner_leaves_room_for_others() -> None:
    room = InputRoom(100, 50)
    assert room.change("a", 0, FREE_BYTES + 30)
    assert not room.change("a", 0, FREE_BYTES + 21)
    assert room.change("b", 0, FREE_BYTES + 60), "one alone may be larger than its share"
    assert room.change("a", FREE_BYTES + 30, FREE_BYTES + 40)


async def test_a_large_request_without_a_key_is_refused_when_it_begins(tmp_path: Path) -> None:
    async with open_bedrock(tmp_path, settings=BedrockSettings()) as bedrock:
        for line in (b"", b"authorization: Bearer wrong\n"):
            said = await told(bedrock, b"CreateJob\n" + line + b"content-length: 9000000\n\n" + b" " * 100_000)
            assert said.startswith(b"401 "), said
        head = b"POST /CreateJob HTTP/1.1\r\nContent-Length: 9000000\r\n\r\n"
        assert (await told(bedrock, head + b" " * 100_000)).startswith(b"HTTP/1.1 401 ")


async def test_who_has_no_key_leaves_room_for_who_has(tmp_path: Path) -> None:
    settings = BedrockSettings(max_input_bytes=1 << 20)
    async with open_bedrock(tmp_path, settings=settings) as bedrock, AsyncExitStack() as stack:
        key = await key_of(bedrock, "acme", "submit")
        shared = bedrock.listener._shared
        nobodies = [await stack.enter_async_context(bedrock.session()) for _ in range(3)]
        for nobody in nobodies:  # a head that has no end, and fits
            nobody.send_bytes(b"CreateJob\ndata: " + b" " * 60_000)
        await until(lambda: _holds(shared.unknown_room, 80_000))
        nobodies[0].send_bytes(b" " * 900_000)
        assert (await nobodies[0].rest()).startswith(b"503 Too many large requests")
        session = await stack.enter_async_context(bedrock.session())
        body = b'{"name":"x","data":{"a":"' + b"y" * 500_000 + b'"}}'
        head = b"CreateJob\nauthorization: %s\ncontent-length: %d\n\n" % (key.encode(), len(body))
        session.send_bytes(head + body[:400_000])
        await until(lambda: _holds(shared.room, 300_000))
        session.send_bytes(body[400_000:])
        assert (await session.reply()).json == {"jobID": 1}
        assert not shared.room._taken


async def _holds(room: InputRoom, size_bytes: int) -> bool:
    return room._taken.total() >= size_bytes


async def test_a_large_request_behind_one_that_waits_is_read_on(bedrock: Bedrock) -> None:
    async with bedrock.session() as session, bedrock.session() as other:
        session.send("GetJob", name="x", connection="wait", timeout=60_000)
        session.send("CreateJob", name="y", data='{"a":"' + "z" * 900_000 + '"}')
        await until(lambda: _is_behind(bedrock))
        await other.ask("CreateJob", name="x")
        assert (await session.reply()).json["name"] == "x"
        assert (await session.reply()).status == 200


async def _is_behind(bedrock: Bedrock) -> bool:
    return any(each._parser.size_bytes >= FREE_BYTES for each in bedrock.listener._shared.open)


async def test_requests_that_wait_behind_one_are_left_in_the_kernel(bedrock: Bedrock) -> None:
    async with bedrock.session() as session:
        session.send("GetJob", name="x", connection="wait", timeout=60_000)
        one = b"CreateJob\nname: y\ndata: {%s}\n\n" % (b" " * 30_000)
        for _ in range(100):
            session.send_bytes(one)
        async with bedrock.session() as other:
            for _ in range(20):
                await other.ask("Nonsense")
            (held,) = [each for each in bedrock.listener._shared.open if each._serving is not None]
            assert held._parser.size_bytes < 1 << 20
            await other.ask("CreateJob", name="x")
        assert (await session.reply()).json["name"] == "x"
        for _ in range(100):
            assert (await session.reply()).status == 200


async def test_a_body_with_a_million_fields_is_not_built(bedrock: Bedrock) -> None:
    fields = b",".join(b'"f%d":0' % number for number in range(1_000_000))
    body = b'{"name":"x",' + fields + b"}"
    async with bedrock.session() as session:
        session.send_bytes(b"CreateJob\nContent-Length: %d\n\n" % len(body) + body)
        assert (await session.reply()).json == {"jobID": 1}


async def test_data_may_be_a_form(bedrock: Bedrock) -> None:
    text = '{"a":"' + "é" * 400_000 + '"}'
    body = urlencode({"name": "x", "data": text}).encode()
    async with bedrock.session() as session:
        session.send_bytes(b"CreateJob\nContent-Length: %d\n\n" % len(body) + body)
        assert (await session.reply()).json == {"jobID": 1}
        assert (await session.ask("QueryJob", jobID=1)).json["data"] == json.loads(text)


async def test_a_command_that_has_no_data_is_short(bedrock: Bedrock) -> None:
    async with bedrock.session() as session:
        reply = await session.ask("GetJob", name="x", connection="wait", data="x" * 100_000)
        assert (reply.status, "longer than" in reply.reason) == (402, True)


async def make_album(session: Session, carried: str, **of_pieces: str) -> None:
    """A parent with ten children, which can be taken."""
    await session.ask("CreateJob", name="album")
    await session.ask("GetJob", name="album")
    for _ in range(10):
        await session.ask("CreateJob", name="piece", parentJobID=1, **of_pieces)
    await session.ask("FinishJob", jobID=1, data=carried)


async def test_the_data_of_relatives_is_bounded_and_has_room_before_it_is_read(
    bedrock: Bedrock, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = '{"a":"' + "x" * 1_000_000 + '"}'
    async with bedrock.session() as session:
        await make_album(session, data, data=data)
        seen = note_rooms(bedrock, monkeypatch)
        pieces: list[Any] = []
        while len(pieces) < 10:
            pieces += (await session.ask("GetJobs", name="piece", numResults=10)).json["jobs"]
        assert all(len(piece["parentData"]["a"]) == 1_000_000 for piece in pieces), "some at a time"
        for piece in pieces:
            await session.ask("FinishJob", jobID=piece["jobID"])
        seen.clear()
        children = (await session.ask("GetJob", name="album")).json["finishedChildJobs"]
        whole = {"data": json.loads(data)}
        left_out = {"dataOmitted": True}
        assert children == [{**(whole if number < 10 else left_out), "jobID": number} for number in range(2, 12)]
        assert seen[0] == ("acme", 8 * len(data)), "before the data is read"


async def test_the_data_of_a_parent_is_told_to_so_many_of_its_children(
    bedrock: Bedrock, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = '{"a":"' + "x" * 1_000_000 + '"}'
    async with bedrock.session() as session:
        await make_album(session, data)
        seen = note_rooms(bedrock, monkeypatch)
        pieces = (await session.ask("GetJobs", name="piece", numResults=10)).json["jobs"]
        assert [piece.get("parentData") == json.loads(data) for piece in pieces] == [True] * 8 + [False] * 2
        assert [piece.get("parentDataOmitted") for piece in pieces] == [None] * 8 + [True] * 2
        assert seen[0] == ("acme", 8 * len(data))


def note_rooms(bedrock: Bedrock, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Who takes how much room from now on."""
    seen: list[tuple[str, int]] = []
    room = bedrock.listener._shared.commands.room
    real = room.of

    def of(tenant: str, size_bytes: int) -> AbstractAsyncContextManager[bool]:
        seen.append((tenant, size_bytes))
        return real(tenant, size_bytes)

    monkeypatch.setattr(room, "of", of)
    return seen
