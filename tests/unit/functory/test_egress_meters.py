"""The proxy's quotas, with a clock that stands still until it is moved."""

import asyncio
import contextlib
from pathlib import Path
from typing import Any, cast

import pytest

from functory.egress.meters import EgressLimits, Hour, Meters, Pace
from functory.egress.side import Side
from tests.support.egress import Names, host, way

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
NAMES = Names(api_example_org=["127.0.0.2"])


def test_a_pace_is_a_time_to_wait() -> None:
    pace = Pace(per_s=10, burst=5)
    assert pace.take(5, now=100.0) == 0
    assert pace.take(10, now=100.0) == 1.0
    assert pace.take(0, now=100.5) == 0.5
    assert pace.take(5, now=200.0) == 0  # what was saved up is at most the burst
    assert pace.take(1, now=200.0) > 0


def test_an_hour_begins_with_its_first_byte() -> None:
    hour = Hour()
    assert hour.add(10, 50.0) == 10
    assert hour.add(5, 3649.0) == 15
    assert hour.add(1, 3650.0) == 1


def test_connections_are_held_to_three_bounds() -> None:
    meters = Meters(EgressLimits(context_connections=1, tenant_connections=2, connections=3))
    assert meters.why_not("a", 0, 1.0) == ""
    assert "this handler" in meters.why_not("a", 1, 1.0)
    meters.opened("a")
    meters.opened("a")
    assert "the tenant" in meters.why_not("a", 0, 1.0)
    assert meters.why_not("b", 0, 1.0) == ""
    meters.opened("b")
    assert "of this service" in meters.why_not("c", 0, 1.0)
    meters.closed("a")
    assert meters.why_not("c", 0, 1.0) == ""
    assert (meters.of("a").open, meters.of("a").connections_total, meters.all.open) == (1, 2, 2)


def test_bytes_are_held_to_an_hour_per_tenant_and_in_all() -> None:
    meters = Meters(EgressLimits(tenant_hourly_bytes=100, hourly_bytes=150))
    meters.moved("a", 60, 1.0, to_host=True)
    meters.moved("a", 40, 2.0, to_host=False)
    assert "the tenant" in meters.why_no_more("a", 3.0)
    assert meters.why_no_more("b", 3.0) == ""
    meters.moved("b", 50, 3.0, to_host=True)
    assert "this service" in meters.why_no_more("b", 3.0)
    assert (meters.of("a").sent_bytes, meters.of("a").received_bytes) == (60, 40)
    assert meters.why_no_more("a", 3601.0) == ""


def test_who_moves_too_much_rests_and_others_do_not() -> None:
    meters = Meters(EgressLimits(tenant_bytes_per_s=100_000, bytes_per_s=1e12))
    assert meters.took("a", 1.0, count=225_000) == 2.0
    assert meters.took("b", 1.0, count=20) == 0


def test_pieces_count_for_the_pace_and_not_for_the_hour() -> None:
    meters = Meters(EgressLimits(tenant_bytes_per_s=4096, tenant_hourly_bytes=1000, bytes_per_s=1e9))
    assert meters.took("a", 1.0, pieces=1) == 0.75
    assert meters.took("a", 1.0, pieces=10) == 10.75
    assert meters.why_no_more("a", 1.0) == ""
    assert meters.of("a").sent_bytes == 0


def test_an_arrival_counts_for_the_pace_however_small_it_is() -> None:
    meters = Meters(EgressLimits(tenant_bytes_per_s=16 * 1024, bytes_per_s=1e9))
    assert meters.took("a", 1.0, count=1) == 0.75
    assert meters.took("a", 1.0, count=16 * 1024) == 1.75
    assert meters.took("a", 1.0, count=32 * 1024) == 3.75


def test_a_tenant_that_is_gone_is_forgotten() -> None:
    meters = Meters(EgressLimits())
    meters.opened("a")
    meters.closed("a")
    meters.forget("a")
    assert meters.by_tenant() == {}


def test_who_gets_the_name_of_one_that_is_gone_begins_at_zero_whatever_was_still_open() -> None:
    meters = Meters(EgressLimits(tenant_hourly_bytes=100))
    meters.opened("a")
    meters.moved("a", 100, 1.0, to_host=True)
    assert "in an hour" in meters.why_no_more("a", 1.0)
    meters.forget("a")
    assert (meters.why_no_more("a", 1.0), meters.of("a").open) == ("", 1)
    meters.opened("a")  # of the next of its name
    meters.moved("a", 60, 1.0, to_host=True)
    for left in (1, 0):
        meters.closed("a")
        assert (meters.of("a").open, meters.of("a").sent_bytes) == (left, 60)
    meters.opened("a")
    meters.forget("a")
    meters.closed("a")
    assert meters.by_tenant() == {}
    assert meters.all.open == 0


@pytest.mark.parametrize("is_back", [False, True])
async def test_the_gates_of_a_tenant_end_with_it_unless_another_has_its_name(tmp_path: Path, is_back: bool) -> None:
    async with host() as server, way(tmp_path, [f"api.example.org:{server.port}"], NAMES) as made:
        _, writer = await made.tunnel(f"api.example.org:{server.port}")
        made.proxy.end_tenant("acme", is_back=is_back)
        assert (made.gate in made.proxy._gates) == is_back
        figures = made.proxy.by_tenant()["acme"]
        assert (figures["connections"], figures["connections_total"]) == (1, 0), "counters begin anew"
        writer.close()


async def test_what_comes_together_with_the_head_counts_and_so_does_the_head(tmp_path: Path) -> None:
    body = bytes(20_000)
    limits = EgressLimits(tenant_hourly_bytes=50_000)
    async with host(answer=ANSWER) as server:
        listed = [f"api.example.org:{server.port}"]
        async with way(tmp_path, listed, NAMES, limits=limits) as made:
            asked = f"POST http://api.example.org:{server.port}/ HTTP/1.1\nX: {'h' * 9000}\nContent-Length: {len(body)}"
            assert await made.ask(asked, body) == ANSWER
            assert made.proxy.by_tenant()["acme"]["sent_bytes_total"] == len(server.got) > 29_000
            await made.ask(asked, body)
            assert (await made.ask(asked, body)).startswith(b"HTTP/1.1 429")


async def test_small_chunks_are_paced_by_their_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    took = Meters.took

    def count(self: Meters, tenant: str, now: float, *, count: int = 0, pieces: int = 0) -> float:
        counted.append(pieces)
        return took(self, tenant, now, count=count, pieces=pieces)

    monkeypatch.setattr(Meters, "took", count)
    async with host(answer=ANSWER) as server, way(tmp_path, [f"api.example.org:{server.port}"], NAMES) as made:
        url = f"http://api.example.org:{server.port}/"
        body = b"1\r\nx\r\n" * 200 + b"0\r\n\r\n"
        answer = await made.ask(f"POST {url} HTTP/1.1\nTransfer-Encoding: chunked", body)
        assert answer == ANSWER
        assert server.got.endswith(body)
    assert sum(counted) == 201


async def test_of_many_small_chunks_some_are_looked_at_in_one_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one arrival took 30 ms, and many connections have arrivals at the same time."""
    counted = []
    took = Meters.took

    def count(self: Meters, tenant: str, now: float, *, count: int = 0, pieces: int = 0) -> float:
        counted.append(pieces)
        return took(self, tenant, now, count=count, pieces=pieces)

    monkeypatch.setattr(Meters, "took", count)
    limits = EgressLimits(tenant_bytes_per_s=1e9, bytes_per_s=1e9)
    async with host() as server, way(tmp_path, [f"api.example.org:{server.port}"], NAMES, limits=limits) as made:
        body = b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"
        reader, writer = await made.connect()
        url = f"http://api.example.org:{server.port}/"
        writer.write(f"POST {url} HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + body)
        async with asyncio.timeout(60):
            back = b""
            while not back.endswith(body):
                back += await reader.read(65536)
        writer.close()
    assert (sum(counted), max(counted)) == (20_001, 256)


@pytest.mark.parametrize("asked", ["nowhere.example.org:443", "api.example.org:{}", ""])
async def test_whoever_sends_byte_by_byte_is_paced_whatever_becomes_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """In a head, in a tunnel, and behind a request that was refused."""
    rested: list[float] = []
    rest = Side.rest

    def note(self: Side, for_s: float) -> None:
        rested.append(for_s)
        rest(self, for_s)

    monkeypatch.setattr(Side, "rest", note)
    limits = EgressLimits(tenant_bytes_per_s=160 * 1024)
    async with host() as server, way(tmp_path, [f"api.example.org:{server.port}"], NAMES, limits=limits) as made:
        _, writer = await made.connect()
        writer.write(f"CONNECT {asked.format(server.port)} HTTP/1.1\r\n\r\n".encode() if asked else b"G")
        while not rested:
            with contextlib.suppress(ConnectionError):
                writer.write(b"E")
                await writer.drain()
            await asyncio.sleep(0)
        writer.close()
    assert max(rested) < 1


async def test_a_side_rests_until_the_last_of_its_rests_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    side, read = Side(cast("Any", None)), asyncio.Event()
    monkeypatch.setattr(side, "let_go", lambda _: read.set())
    side.rest(0)
    side.rest(3600)
    for _ in range(10):
        await asyncio.sleep(0)
    assert not read.is_set()
    side.rest(0)
    await read.wait()
