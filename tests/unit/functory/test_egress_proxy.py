"""The proxy over real sockets: what goes through, what is refused and with which words, and what a hostile client or
host can do to it."""

import asyncio
import contextlib
import socket
import time
from pathlib import Path

import pytest

from functory.egress import proxy as proxy_module
from functory.egress.client_hello import ClientHello
from functory.egress.meters import EgressLimits
from functory.egress.proxy import Gate
from tests.support.client_hello import hello, in_records
from tests.support.egress import ANSWER, PRIVATE, Names, eventually, host, names, rest_of, way


async def test_a_tunnel_carries_bytes_both_ways_and_counts_them(tmp_path: Path) -> None:
    async with host() as server, way(tmp_path, [f"api.example.org:{server.port}"], names()) as made:
        reader, writer = await made.tunnel(f"API.example.org:{server.port}")
        payload = bytes(range(256)) * 4000
        writer.write(payload)
        async with asyncio.timeout(20):
            assert await reader.readexactly(len(payload)) == payload
        writer.write_eof()
        async with asyncio.timeout(20):
            assert await reader.read() == b""  # an end is passed on
        writer.close()
        await eventually(lambda: made.proxy.by_tenant()["acme"]["connections"] == 0)
        assert made.proxy.by_tenant()["acme"] == {
            "connections": 0,
            "connections_total": 1,
            "refused_total": 0,
            "sent_bytes_total": len(payload),
            "received_bytes_total": len(payload),
        }
        assert made.proxy.gauges()["egress_sent_bytes_total"] == len(payload)


async def test_a_plain_request_is_written_anew_with_its_own_host(tmp_path: Path) -> None:
    async with host(answer=ANSWER) as server, way(tmp_path, [f"api.example.org:{server.port}"], names()) as made:
        url = f"http://api.example.org:{server.port}/a?b"
        answer = await made.ask(f"POST {url} HTTP/1.1\nHost: db.internal\nContent-Length: 3", b"abc")
        assert answer == ANSWER
        assert server.got.startswith(f"POST /a?b HTTP/1.1\r\nHost: api.example.org:{server.port}\r\n".encode())
        assert server.got.endswith(b"\r\n\r\nabc")
        assert b"db.internal" not in server.got


@pytest.mark.parametrize(("addresses", "status"), [("127.0.0.4 127.0.0.2", 200), ("127.0.0.4 127.0.0.5", 504)])
async def test_an_address_that_does_not_answer_leaves_time_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, addresses: str, status: int
) -> None:
    connected = proxy_module._connected

    async def connect(address: str, port: int) -> socket.socket:
        if address != "127.0.0.2":
            await asyncio.Event().wait()  # as where packets are dropped
        return await connected(address, port)

    monkeypatch.setattr(proxy_module, "_connected", connect)
    named = Names(api_example_org=[addresses])
    limits = EgressLimits(connect_s=1)
    async with host(answer=ANSWER) as server:
        listed = [f"api.example.org:{server.port}"]
        async with way(tmp_path, listed, named, limits=limits, networks="127.0.0.0/8") as made:
            answer = await made.ask(f"GET http://api.example.org:{server.port}/ HTTP/1.1")
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())


async def test_a_second_request_behind_the_first_does_not_go_on(tmp_path: Path) -> None:
    async with host(answer=ANSWER) as server, way(tmp_path, [f"api.example.org:{server.port}"], names()) as made:
        second = b"GET /second HTTP/1.1\r\nHost: other.example.org\r\n\r\n"
        await made.ask(f"POST http://api.example.org:{server.port}/ HTTP/1.1\nContent-Length: 3", b"abc" + second)
        await made.ask(f"GET http://api.example.org:{server.port}/ HTTP/1.1", second)
        assert b"second" not in server.got


@pytest.mark.parametrize(
    ("target", "status", "words"),
    [
        ("other.example.org:443", 403, "other.example.org is not in this handler's `hosts`"),
        ("api.example.org:25", 403, "api.example.org is in this handler's `hosts`, but not at port 25"),
        ("[fd00:ec2::254]:25", 403, "but not at port 25: add [fd00:ec2::254]:25"),
        ("127.0.0.2:443", 403, "127.0.0.2 is not in this handler's `hosts`"),
        ("[::1]:443", 403, "::1 is not in this handler's `hosts`"),
        ("[::ffff:127.0.0.2]:443", 403, "is not in this handler's `hosts`"),
        ("2130706434:443", 400, "is not a host and a port"),
        ("nowhere.example.org:443", 403, "its host is unknown, or has an address that is loopback"),
        ("db.internal:443", 403, "its host is unknown, or has an address that is loopback"),
        ("169.254.169.254:80", 403, "loopback, private, link-local"),
        ("[fd00:ec2::254]:80", 403, "loopback, private, link-local"),
        ("[64:ff9b::a9fe:a9fe]:80", 403, "loopback, private, link-local"),
        ("[2002:7f00:1::]:80", 403, "loopback, private, link-local"),
        ("forbidden.example:443", 403, "not among the hosts that the operator of this service allows"),
    ],
)
async def test_refusals_say_why_to_the_program_and_to_the_log(
    tmp_path: Path, target: str, status: int, words: str
) -> None:
    listed = ["api.example.org", "nowhere.example.org", "db.internal", "forbidden.example", "169.254.169.254"]
    listed += ["[fd00:ec2::254]", "[64:ff9b::a9fe:a9fe]", "[2002:7f00:1::]"]
    allowed = "*.example.org, db.internal, 169.254.169.254, [fd00:ec2::254], [64:ff9b::a9fe:a9fe], [2002:7f00:1::]"
    async with way(tmp_path, listed, names(), allowed=allowed) as made:
        answer = (await made.ask(f"CONNECT {target} HTTP/1.1")).decode()
        first, _, rest = answer.partition("\r\n")
        assert first.startswith(f"HTTP/1.1 {status} ")
        assert words in first  # all that some programs show
        assert words in rest.partition("\r\n\r\n")[2]
        assert words in made.told[0]
        assert PRIVATE not in answer
        assert made.proxy.by_tenant()["acme"]["refused_total"] == 1


async def test_what_is_not_listed_or_not_allowed_is_not_even_resolved(tmp_path: Path) -> None:
    known = names()
    async with way(tmp_path, ["a.example"], known, allowed="*.example.org", networks="") as made:
        await made.ask("CONNECT secret-in-a-name.evil.example:443 HTTP/1.1")
        await made.ask("CONNECT a.example:443 HTTP/1.1")
    assert known.asked == []


async def test_a_name_that_changes_its_answer_is_called_where_it_was_checked(tmp_path: Path) -> None:
    """Rebinding: the second look at the name would lead inside. There is no second look; a new request is a new one."""
    rebinding = Names(api_example_org=["127.0.0.2", PRIVATE], mixed_example_org=[f"127.0.0.2 {PRIVATE}"])
    async with host() as server, host(PRIVATE) as inside:
        hosts = [f"{name}.example.org:{port}" for name in ("api", "mixed") for port in (server.port, inside.port)]
        async with way(tmp_path, hosts, rebinding) as made:
            _, writer = await made.tunnel(f"api.example.org:{server.port}")
            writer.close()
            again = await made.ask(f"CONNECT api.example.org:{inside.port} HTTP/1.1")
            mixed = await made.ask(f"CONNECT mixed.example.org:{inside.port} HTTP/1.1")
        assert again.startswith(b"HTTP/1.1 403")
        assert mixed.startswith(b"HTTP/1.1 403")
        assert (server.visits, inside.visits) == (1, 0)
        assert rebinding.asked == ["api.example.org", "api.example.org", "mixed.example.org"]


@pytest.mark.parametrize(("name", "passes"), [("api.example.org", True), ("other.example.org", False), (None, True)])
async def test_tls_asks_for_the_host_of_its_tunnel(tmp_path: Path, name: str | None, passes: bool) -> None:
    async with host() as server, way(tmp_path, [f"*.example.org:{server.port}"], names()) as made:
        reader, writer = await made.tunnel(f"api.example.org:{server.port}")
        first = hello(name)
        writer.write(first[:20])
        await writer.drain()
        writer.write(first[20:])
        async with asyncio.timeout(20):
            try:
                back = await reader.read(1)
            except ConnectionError:
                back = b""
        assert bool(back) is passes
        assert bool(server.got) is passes
        assert made.told == ([] if passes else ["TLS asks for other.example.org in a tunnel to api.example.org"])
        writer.close()


async def test_a_gate_that_closes_takes_its_connections_along(tmp_path: Path) -> None:
    """Half-open tunnels do not outlive their context."""
    async with host() as server, way(tmp_path, [f"api.example.org:{server.port}"], names()) as made:
        reader, writer = await made.tunnel(f"api.example.org:{server.port}")
        waiting, asking = await made.connect()
        asking.write(b"CONNECT api.exam")
        await eventually(lambda: made.proxy.by_tenant()["acme"]["connections"] == 2)
        await asyncio.gather(*made.gate.close(), return_exceptions=True)
        async with asyncio.timeout(20):
            await server.ended.wait()
            for side in (reader, waiting):
                assert await rest_of(side) == b""
        assert made.proxy.by_tenant()["acme"]["connections"] == 0
        with pytest.raises(ConnectionError):
            await made.connect()
        for each in (writer, asking):
            each.close()


async def test_too_many_connections_are_told_so_and_a_free_place_is_taken(tmp_path: Path) -> None:
    limits = EgressLimits(context_connections=2)
    async with host() as server, way(tmp_path, [f"api.example.org:{server.port}"], names(), limits=limits) as made:
        target = f"api.example.org:{server.port}"
        _, first = await made.tunnel(target)
        _, second = await made.tunnel(target)
        answer = await made.ask(f"CONNECT {target} HTTP/1.1")
        assert answer.startswith(b"HTTP/1.1 429 this handler has 2 connections open, and may have 2")
        # Many at once are refused a few at a time, and none of them takes a place.
        answers = await asyncio.gather(*(made.ask(f"CONNECT {target} HTTP/1.1") for _ in range(12)))
        assert {answer[:12] for answer in answers} == {b"HTTP/1.1 429"}
        first.close()
        await eventually(lambda: made.proxy.by_tenant()["acme"]["connections"] == 1)
        _, third = await made.tunnel(target)
        for writer in (second, third):
            writer.close()


async def test_the_bytes_of_an_hour_end_a_stream(tmp_path: Path) -> None:
    limits = EgressLimits(tenant_hourly_bytes=300_000)
    async with host() as server, way(tmp_path, [f"api.example.org:{server.port}"], names(), limits=limits) as made:
        reader, writer = await made.tunnel(f"api.example.org:{server.port}")
        got = 0

        async def read() -> None:
            nonlocal got
            try:
                while data := await reader.read(65536):
                    got += len(data)
            except ConnectionError:
                pass

        reading = asyncio.create_task(read())
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(20):
                while True:
                    writer.write(bytes(65536))
                    await writer.drain()
        await reading
        assert got < 300_000
        assert "in an hour" in made.told[0]
        assert (await made.ask("CONNECT api.example.org:1 HTTP/1.1")).startswith(b"HTTP/1.1 429")
        assert made.proxy.by_tenant()["acme"]["sent_bytes_total"] < 300_000 + 2 * 65536


async def test_a_side_that_does_not_read_stops_the_other_and_memory_does_not_grow(tmp_path: Path) -> None:
    """An endless answer that nobody reads: the host cannot send more than the kernel's buffers and one piece hold."""
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.read(1)
        try:
            while True:
                writer.write(bytes(65536))
                await writer.drain()
                sent += 65536
        except ConnectionError:
            return

    server = await asyncio.start_server(flood, "127.0.0.2")
    port = server.sockets[0].getsockname()[1]
    async with way(tmp_path, [f"api.example.org:{port}"], names()) as made:
        reader, writer = await made.tunnel(f"api.example.org:{port}")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"x")
        seen = -1

        def stands_still() -> bool:
            nonlocal seen
            was, seen = seen, sent
            return 0 < was == sent

        await eventually(stands_still)
        [connection] = made.gate._connections.values()
        transport = connection._client.transport
        assert transport is not None
        assert 0 < transport.get_write_buffer_size() <= 65536
        writer.close()
        del reader
    server.close()


async def test_slow_and_silent_connections_end_by_the_clock(tmp_path: Path) -> None:
    limits = EgressLimits(head_s=0.05)
    async with host() as server, way(tmp_path, [f"api.example.org:{server.port}"], names(), limits=limits) as made:
        reader, writer = await made.connect()
        writer.write(b"CONNECT api.example.org")  # and never the rest
        async with asyncio.timeout(20):
            assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()
        _, idle = await made.tunnel(f"api.example.org:{server.port}")
        [connection] = made.gate._connections.values()
        now = connection.moved_at
        assert not connection.is_due(now + limits.idle_s)
        assert connection.is_due(now + limits.idle_s + 1)
        connection.moved_at = now + limits.life_s
        assert connection.is_due(now + limits.life_s + 1)  # a byte a minute does not keep it alive for ever
        made.gate.end_due(now + limits.life_s + 1)
        async with asyncio.timeout(20):
            await server.ended.wait()
        idle.close()


async def test_a_hello_that_does_not_arrive_in_time_ends_its_tunnel(tmp_path: Path) -> None:
    limits = EgressLimits(head_s=0.05)
    async with host() as server, way(tmp_path, [f"api.example.org:{server.port}"], names(), limits=limits) as made:
        reader, writer = await made.tunnel(f"api.example.org:{server.port}")
        writer.write(hello("api.example.org")[:-1])  # and never the rest
        async with asyncio.timeout(20):
            assert await rest_of(reader) == b""
        assert made.told == ["TLS cannot be read: its ClientHello did not arrive within 0.05 s"]
        assert not server.got
        writer.close()


async def test_each_byte_of_a_hello_is_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    news = asyncio.Event()
    take = ClientHello.take

    def noting(arriving: ClientHello, data: bytes) -> bool:
        looked_at.append(len(data))
        news.set()
        return take(arriving, data)

    monkeypatch.setattr(ClientHello, "take", noting)
    async with host() as server, way(tmp_path, [f"api.example.org:{server.port}"], names()) as made:
        reader, writer = await made.tunnel(f"api.example.org:{server.port}")
        first = in_records(hello("api.example.org"), 50)
        for at in range(len(first)):
            writer.write(first[at : at + 1])
            async with asyncio.timeout(20):
                await news.wait()
            news.clear()
        async with asyncio.timeout(20):
            assert await reader.readexactly(len(first)) == first
        assert looked_at == [1] * len(first)
        writer.write(b"more")
        async with asyncio.timeout(20):
            assert await reader.readexactly(4) == b"more"
        assert len(looked_at) == len(first)
        writer.close()


async def test_a_hello_in_tiny_records_is_not_waited_for(tmp_path: Path) -> None:
    async with host() as server, way(tmp_path, [f"api.example.org:{server.port}"], names()) as made:
        reader, writer = await made.tunnel(f"api.example.org:{server.port}")
        writer.write(in_records(hello("api.example.org"), 1))
        async with asyncio.timeout(20):
            assert await rest_of(reader) == b""
        assert made.told == ["TLS cannot be read: its ClientHello comes in more than 64 records"]
        writer.close()


async def test_a_head_without_end_is_refused(tmp_path: Path) -> None:
    async with way(tmp_path, ["*"], names()) as made:
        reader, writer = await made.connect()
        writer.write(b"GET http://api.example.org/ HTTP/1.1\r\n" + b"A: b\r\n" * 20_000)
        async with asyncio.timeout(20):
            assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        writer.close()


async def test_a_host_that_is_not_there(tmp_path: Path) -> None:
    async with host() as server:
        port = server.port
    async with way(tmp_path, [f"api.example.org:{port}"], names()) as made:
        answer = (await made.ask(f"CONNECT api.example.org:{port} HTTP/1.1")).decode()
    assert answer.startswith(f"HTTP/1.1 502 api.example.org:{port} cannot be reached: Connection refused")
    assert "127.0.0.2" not in answer


async def test_connections_come_at_a_bounded_pace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are too fast wait in the kernel's queue; none is lost."""
    rests: list[float] = []
    rest = Gate._rest

    def noting(gate: Gate, seconds: float) -> None:
        rests.append(seconds)
        rest(gate, seconds)

    monkeypatch.setattr(Gate, "_rest", noting)
    async with way(tmp_path, [], names(), limits=EgressLimits(connections_per_s=10)) as made:
        made.proxy.meters.of("acme").starts.take(10, time.monotonic())  # all that was saved up
        answers = await asyncio.gather(*(made.ask("CONNECT a.example:1 HTTP/1.1") for _ in range(5)))
    assert {answer[:12] for answer in answers} == {b"HTTP/1.1 403"}
    assert rests
    assert all(0 < seconds < 1 for seconds in rests)
