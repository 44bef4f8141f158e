"""Plain requests through the proxy: an answer arrives whole, also when it comes before its time."""

import asyncio
import contextlib
import select
import socket
from pathlib import Path

import pytest

from functory.egress import connection as connection_module
from functory.egress.answer import MOST_INTERIM, AnswerHead
from functory.egress.connection import Connection
from functory.egress.side import Side
from tests.support.egress import ANSWER, eventually, host, names, rest_of, way


@pytest.mark.parametrize("is_reset", [False, True])
async def test_an_answer_before_the_end_of_the_body_reaches_whoever_sends_all_of_it(
    tmp_path: Path, is_reset: bool
) -> None:
    answered, is_read = asyncio.Event(), asyncio.Event()

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER.replace(b"200 OK", b"413 Too much"))
        await writer.drain()
        if is_reset:
            await is_read.wait()
            writer.transport.abort()  # with bytes unread
        else:
            writer.write_eof()
            while await reader.read(65536):  # as nginx does for a while
                pass
            writer.close()
        answered.set()

    server = await asyncio.start_server(visit, "127.0.0.2")
    port, size, loop = server.sockets[0].getsockname()[1], 16 << 20, asyncio.get_running_loop()
    async with way(tmp_path, [f"api.example.org:{port}"], names()) as made, asyncio.timeout(30):
        with socket.socket(socket.AF_UNIX) as sender:
            sender.setblocking(False)
            await loop.sock_connect(sender, made.path)
            head = f"POST http://api.example.org:{port}/ HTTP/1.1\r\nContent-Length: {size}\r\n\r\n"
            await loop.sock_sendall(sender, head.encode() + bytes(1000))
            first = await loop.sock_recv(sender, 12) if is_reset else b""
            is_read.set()
            await loop.sock_sendall(sender, bytes(size - 1000))
            while data := await loop.sock_recv(sender, 65536):
                first += data
        assert first.startswith(b"HTTP/1.1 413 ")
        await answered.wait()
        await eventually(lambda: made.proxy.by_tenant()["acme"]["connections"] == 0)
        assert made.proxy.by_tenant()["acme"]["sent_bytes_total"] >= size  # what was dropped is counted, too
    server.close()


async def test_what_is_sent_behind_an_answer_is_read_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "_LINGER_S", 0.05)
    async with host(answer=ANSWER) as server, way(tmp_path, [f"api.example.org:{server.port}"], names()) as made:
        reader, writer = await made.connect()
        writer.write(f"POST http://api.example.org:{server.port}/ HTTP/1.1\r\nContent-Length: 9\r\n\r\n".encode())
        async with asyncio.timeout(20):
            assert await rest_of(reader) == ANSWER
        await eventually(lambda: made.proxy.by_tenant()["acme"]["connections"] == 0)
        writer.close()


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def test_a_host_that_said_no_more_than_to_go_on_has_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is gone, the rest of the body is not waited for."""
    monkeypatch.setattr(connection_module, "_LINGER_S", 3600.0)
    async with host(answer=CONTINUE) as server, way(tmp_path, [f"api.example.org:{server.port}"], names()) as made:
        reader, writer = await made.connect()
        writer.write(f"POST http://api.example.org:{server.port}/ HTTP/1.1\r\nContent-Length: 9\r\n\r\n".encode())
        async with asyncio.timeout(20):
            assert await rest_of(reader) == CONTINUE
        await eventually(lambda: made.proxy.by_tenant()["acme"]["connections"] == 0)
        writer.close()


async def test_who_gives_up_in_a_body_frees_the_place_at_once(tmp_path: Path) -> None:
    """The host would wait for the rest of it, and the place would be taken for minutes."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.2", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        async with way(tmp_path, [f"api.example.org:{port}"], names()) as made, asyncio.timeout(20):
            _, writer = await made.connect()
            head = f"POST http://api.example.org:{port}/ HTTP/1.1\r\nContent-Length: 9\r\n\r\n"
            writer.write(head.encode() + b"body")
            visit, _ = await loop.sock_accept(server)
            with visit, contextlib.suppress(ConnectionError):
                visit.setblocking(False)
                got = b""
                while not got.endswith(b"\r\n\r\nbody"):
                    got += await loop.sock_recv(visit, 65536)
                writer.write_eof()
                assert await loop.sock_recv(visit, 65536) == b""
            await eventually(lambda: made.proxy.by_tenant()["acme"]["connections"] == 0)
            writer.close()


async def test_the_end_of_a_body_is_no_hanging_up_before_there_is_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, loop = asyncio.Event(), asyncio.get_running_loop()
    ended = Connection.ended

    def hear(self: Connection, side: Side) -> None:
        ended(self, side)
        heard.set()

    monkeypatch.setattr(Connection, "ended", hear)
    with socket.create_server(("127.0.0.2", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        async with way(tmp_path, [f"api.example.org:{port}"], names()) as made, asyncio.timeout(20):
            reader, writer = await made.connect()
            writer.write(f"POST http://api.example.org:{port}/ HTTP/1.1\r\nContent-Length: 4\r\n\r\n".encode())
            visit, _ = await loop.sock_accept(server)
            with visit:
                visit.setblocking(False)
                await loop.sock_sendall(visit, CONTINUE)
                assert await reader.readexactly(len(CONTINUE)) == CONTINUE
                writer.write(b"body")
                got = b""
                while not got.endswith(b"\r\n\r\nbody"):
                    got += await loop.sock_recv(visit, 65536)
                writer.write_eof()
                await heard.wait()
                assert select.select([visit], [], [], 0)[0] == []
                await loop.sock_sendall(visit, KEEPING)
                assert await reader.readexactly(len(ANSWER)) == ANSWER
            writer.close()


KEEPING = (
    b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5,\r\n max=9\r\nContent-Length: 2\r\nconnection: keep-alive\r\n\r\nok"
)


async def test_a_host_that_keeps_its_connection_open_is_called_again_on_another(tmp_path: Path) -> None:
    visits = ended = 0

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal visits, ended
        visits += 1
        with contextlib.suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(KEEPING)
        ended += 1
        writer.close()

    server = await asyncio.start_server(visit, "127.0.0.2")
    port = server.sockets[0].getsockname()[1]
    async with way(tmp_path, [f"api.example.org:{port}"], names()) as made, asyncio.timeout(20):
        for _ in range(3):
            reader, writer = await made.connect()
            writer.write(f"GET http://api.example.org:{port}/ HTTP/1.1\r\n\r\n".encode())
            assert await reader.readexactly(len(ANSWER)) == ANSWER  # which tells the program to close it
            writer.close()
        await eventually(lambda: made.proxy.by_tenant()["acme"]["connections"] == 0)  # the host heard of it
    server.close()
    assert (visits, ended) == (3, 3)


@pytest.mark.parametrize(
    ("told", "passed"),
    [
        (KEEPING, ANSWER),
        (KEEPING.replace(b"\r\n", b"\n"), ANSWER.replace(b"\r\n", b"\n").replace(b"close", b"close\r")),
        (b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" + KEEPING, b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" + ANSWER),
        (CONTINUE * MOST_INTERIM + KEEPING, CONTINUE * MOST_INTERIM + ANSWER),
        (CONTINUE * (MOST_INTERIM + 1) + KEEPING, CONTINUE * (MOST_INTERIM + 1) + KEEPING),  # they cost time
        (b"HTTP/1.1 204 x\r\n\r\n", b"HTTP/1.1 204 x\r\nConnection: close\r\n\r\n"),
        *(
            (one, one)
            for one in (b"HTTP/1.1 200", b"HTT", b"", b"hello\n\nConnection: x\n\n", b"HTTP/1.1 " + b"x" * 40_000)
        ),
    ],
)
def test_an_answer_is_for_one_request_however_it_is_cut(told: bytes, passed: bytes) -> None:
    for size in (1, 3, len(told) or 1):
        head = AnswerHead()
        pieces = [head.take(told[at : at + size]) for at in range(0, len(told), size)]
        assert b"".join(pieces) + head.rest() == passed
