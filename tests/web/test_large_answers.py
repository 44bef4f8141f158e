"""Large answers: the same bytes in pieces, and clients that do not read theirs cost little and nobody else anything."""

import asyncio
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from functory.web.api import large_job
from functory.web.api.large_job import job_answer
from functory.web.api.rendering import show_job
from functory.web.http import outflow
from functory.web.http.answers import json_answer
from functory.web.http.outflow import LARGE_BYTES, PIECE_BYTES, LargeAnswer, Outflow
from functory.web.http.settings import WebSettings
from store.base import JobRecord
from tests.support.service import until
from tests.support.web import Site, open_site

MIB = 1 << 20
TEXTS = {
    "control": b"\x01" * 300_000,
    "wide": "ß€😀".encode() * 40_000,
    "cut in a character": b"x" * (PIECE_BYTES - 1) + "😀".encode() * 100_000,
    "no text": b"\xff\x00" * 150_000,
    "no text at its end": b"a" * 300_000 + b"\xc3",
    "quotes": b'"\\\n' * 100_000,
}


async def one_job(site: Site, result: bytes, tenant: str = "acme") -> str:
    (job_id,) = await site.add("x", path=f"/{tenant}/job/thumb/add", key=tenant)
    await site.run(jobtype=f"{tenant}-thumb", result=result, log=b"\x02" * 60_000)
    return job_id


@pytest.mark.parametrize("name", TEXTS)
async def test_a_large_job_is_the_same_in_pieces(site: Site, name: str) -> None:
    job_id = await one_job(site, TEXTS[name])
    record = await site.store.get_job("acme", job_id, now_ms=site.clock.now_ms())
    assert isinstance(record, JobRecord)
    assert isinstance(job_answer(site.service, "acme", record), LargeAnswer)
    answer = await site.get(f"/acme/job/{job_id}")
    whole = json_answer(show_job(record)).body
    assert isinstance(whole, bytes)
    assert answer.status == 200
    assert answer.json == json.loads(whole)
    assert answer.headers["X-Request-Id"]
    raw = await site.get(f"/acme/job/{job_id}/result")
    assert raw.body == TEXTS[name]
    assert raw.headers["Content-Length"] == str(len(TEXTS[name]))


async def test_every_large_part_is_put_in_its_place(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (large_job, outflow):
        monkeypatch.setattr(module, "LARGE_BYTES", 10)
        monkeypatch.setattr(module, "PIECE_BYTES", 8)
    (job_id,) = await site.add("payload " * 9)
    await site.run(result=b"result " * 9, log=b"\xff log" * 9)
    record = await site.store.get_job("acme", job_id, now_ms=site.clock.now_ms())
    assert record is not None
    whole = json_answer(show_job(record)).body
    assert isinstance(whole, bytes)
    assert (await site.get(f"/acme/job/{job_id}")).json == json.loads(whole)


async def hold(site: Site, path: str, key: str, body: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Ask, or post a body, and read nothing of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.listener.port, limit=1024)
    head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {site.keys[key]}\r\n\r\n"
    writer.write(head.encode())
    await writer.drain()
    return reader, writer


def buffered_bytes(site: Site) -> int:
    runner = site.listener._runner
    assert runner is not None
    assert runner.server is not None
    transports = [connection.transport for connection in runner.server.connections]
    return sum(transport.get_write_buffer_size() for transport in transports if transport is not None)


@pytest.mark.parametrize("part", ["", "/result"])
async def test_clients_that_do_not_read(tmp_path: Path, part: str) -> None:
    async with open_site(tmp_path, settings=WebSettings(port=0, shutdown_s=0.1)) as site:
        job_id = await one_job(site, b"\x01" * (16 * MIB))
        mine = await one_job(site, b"mine" * MIB, "other")
        held = [await hold(site, f"/acme/job/{job_id}{part}", "acme") for _ in range(12)]
        readers = [reader for reader, _ in held]
        await until(lambda: _answered(readers, b"HTTP/1.1 200", 3))
        await until(lambda: _answered(readers, b"HTTP/1.1 503", 6))
        assert not await _answered(readers, b"HTTP/1.1 200", 4), "three are sent, and three wait"
        assert buffered_bytes(site) < 12 * 4 * LARGE_BYTES
        answer = await site.get(f"/other/job/{mine}/result", key="other")
        assert answer.body == b"mine" * MIB, "and nobody else has to wait"
        for _, writer in held:
            writer.close()


async def _answered(readers: Sequence[asyncio.StreamReader], status: bytes, count: int) -> bool:
    """Whether so many have such an answer, or more."""
    starts = [await _start(reader) for reader in readers]
    return sum(start.startswith(status) for start in starts) >= count


async def _has_gone(site: Site) -> bool:
    runner = site.listener._runner
    assert runner is not None
    assert runner.server is not None
    return all(connection.transport is None for connection in runner.server.connections)


async def _start(reader: asyncio.StreamReader) -> bytes:
    """What has come so far, without reading on."""
    return bytes(reader._buffer[:20])  # type: ignore[attr-defined]


async def test_who_waits_is_served_when_others_have_gone(tmp_path: Path) -> None:
    async with open_site(tmp_path, settings=WebSettings(port=0, shutdown_s=0.1)) as site:
        job_id = await one_job(site, b"\x01" * (16 * MIB))
        held = [await hold(site, f"/acme/job/{job_id}", "acme") for _ in range(3)]
        for reader, _ in held:
            await until(partial(_start, reader))
        waiting = asyncio.create_task(site.get(f"/acme/job/{job_id}/result"))
        for _, writer in held:
            writer.transport.abort()
        assert len((await waiting).body) == 16 * MIB


async def test_a_client_that_reads_by_drops_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outflow, "_GRACE_S", 0.1)
    monkeypatch.setattr(outflow, "_LEAST_BYTES_PER_S", 1 << 40)
    async with open_site(tmp_path, settings=WebSettings(port=0, shutdown_s=0.1)) as site:
        job_id = await one_job(site, b"\x01" * (16 * MIB))
        reader, writer = await hold(site, f"/acme/job/{job_id}", "acme")
        await until(lambda: _start(reader))
        await until(lambda: _has_gone(site))
        writer.close()


async def test_a_result_that_changes_while_it_is_read_is_broken_off(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never the start of one and the end of another."""
    job_id = await one_job(site, b"a" * (2 * MIB))
    read, parts = site.store.read_result, 0

    async def changed(*where: Any, **part: Any) -> bytes | None:
        nonlocal parts
        parts += 1
        return await read(*where, **part) if parts < 3 else None

    monkeypatch.setattr(type(site.store), "read_result", lambda _, *where, **part: changed(*where, **part))
    with pytest.raises(aiohttp.ClientPayloadError):
        await site.get(f"/acme/job/{job_id}/result")


async def test_a_job_that_is_gone_before_its_turn_is_told_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    job_id = await one_job(site, b"a" * (2 * MIB))

    async def gone(*_where: object, **_part: object) -> None:
        return None

    monkeypatch.setattr(type(site.store), "read_result", gone)
    answer = await site.get(f"/acme/job/{job_id}/result")
    assert (answer.status, answer.json["error"]["code"]) == (404, "missing")


async def test_a_large_result_is_never_read_as_a_whole(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is asked about the job, by however many."""
    job_id = await one_job(site, b"\x01" * (4 * MIB))
    get_job, most = site.store.get_job, 0

    async def measured(*where: Any, **options: Any) -> JobRecord | None:
        nonlocal most
        record = await get_job(*where, **options)
        assert record is not None
        assert record.outcome is not None
        most = max(most, len(record.outcome.result or b""))
        return record

    monkeypatch.setattr(type(site.store), "get_job", lambda _, *where, **options: measured(*where, **options))
    for path in ("", "?wait_s=1", "/result", "/why", "/children"):
        assert (await site.get(f"/acme/job/{job_id}{path}")).status == 200
    assert (await site.post(f"/acme/job/{job_id}/retry")).status == 200
    assert 0 < most <= LARGE_BYTES


async def test_ids_that_nobody_reads(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand of them in 20 KB: a tenant that does not read its answers is told to, before it adds more."""
    seen: list[Outflow] = []
    check = Outflow.check

    def noted(it: Outflow, tenant: str) -> None:
        seen.append(it)
        check(it, tenant)

    monkeypatch.setattr(Outflow, "check", noted)
    body = b"x\n" * 10_000
    assert (await site.post("/acme/job/x/add", data=body)).status == 200
    seen[0]._waiting["acme"] = 3  # as when nobody reads them
    for path in ("/acme/job/x/add", "/acme/job/x/add?delay_s=60", "/add?jobtype=x"):
        answer = await site.post(path, data=body)
        assert (answer.status, answer.code) == (503, "not_ready_yet")
    assert len(await site.add("x", path="/acme/job/x/add")) == 1, "a small request is not refused"
    assert (await site.post("/other/job/x/add", data=body, key="other")).status == 200, "nor is anybody else"


async def test_a_large_result_of_an_invocation(site: Site) -> None:
    """The runner of these tests returns the payload. In JSON it is longer."""
    payload = "\x01\n\N{OBJECT REPLACEMENT CHARACTER}" * (MIB // 8)
    body = {"payload": payload, "handler": {"lang": "python", "body": "pass"}}
    answer = await site.post("/acme/handler/x/invoke", data=json.dumps(body).encode())
    assert answer.status == 200
    assert answer.json["result"] == f"echo {payload}"
    assert answer.headers.get("Transfer-Encoding") == "chunked", "in pieces"


async def test_an_answer_that_is_yet_to_be_made_has_room_when_another_was_read() -> None:
    flow = Outflow(of_one_bytes=MIB)
    written, may_end = asyncio.Event(), asyncio.Event()

    async def write(_: bytes) -> None:
        written.set()
        await may_end.wait()

    sending = asyncio.create_task(flow.send_bytes("acme", b"x" * MIB, write))
    await written.wait()
    async with flow.ahead("acme", 1, 0.0) as has_room:
        assert not has_room
    async with flow.ahead("rival", 2 * MIB, 0.0) as has_room, flow.ahead("rival", 1, 0.0) as has_more:
        assert (has_room, has_more) == (True, False)
    waiting = asyncio.create_task(flow.ahead("acme", 1, 600.0).__aenter__())
    await asyncio.sleep(0)
    may_end.set()
    assert await waiting
    assert await sending
