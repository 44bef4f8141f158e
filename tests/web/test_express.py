"""The short way of a plain POST: it answers as the ordinary way does, in order, and is not lost on the way out.

The ordinary way is had by a query that changes nothing (`?ids=yes`).
"""

import asyncio
import gc
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from functory.intake.job_options import PLAIN, JobOptions
from functory.operations.keys import create_key
from functory.operations.tenants import update_tenant
from functory.tenant_limits import TenantLimits
from functory.web.connection import Connection
from functory.web.express import PlainAdd
from functory.web.http.settings import WebSettings
from journal import Settled
from journal.errors import DiskFull
from tests.support.express import ADD, request_of, seen_by_client
from tests.support.web import Site, open_site


async def both_ways(site: Site, path: str = ADD, **more: Any) -> tuple[int, dict[str, str], Any]:
    """What the short way answers, which is what the ordinary way answers."""
    short = seen_by_client(await site.post(path, **more))
    assert short == seen_by_client(await site.post(f"{path}?ids=yes", **more))
    return short


async def test_a_plain_post_goes_the_short_way_and_is_answered_alike(site: Site, ordinary: list[str]) -> None:
    await site.add("the key is verified")
    ordinary.clear()
    status, _, (count, _) = await both_ways(site, data=b"one\n\n# a remark\ntwo\n")
    assert (status, count) == (200, 2)
    assert ordinary == [f"{ADD}?ids=yes"]
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 5


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"headers": {"Content-Type": "application/json"}, "data": b'{"payload":"x"}'}, "JSON"),
        ({"headers": {"Content-Encoding": "deflate"}, "data": b"x\x9cK\x04\x00\x00b\x00b"}, "compressed"),
        ({"headers": {"Connection": "close"}, "data": b"x"}, "it is the last one"),
        ({"data": b"x" * 20_000}, "large"),
        ({"key": "nobody", "data": b"x"}, "an unknown key"),
        ({"key": "other", "data": b"x"}, "another tenant's key"),
    ],
)
async def test_what_is_not_plain_goes_the_ordinary_way(
    site: Site, ordinary: list[str], more: dict[str, Any], why: str
) -> None:
    await site.add("x")
    await site.add("x", path="/other/job/thumb/add", key="other")
    ordinary.clear()
    await site.post(ADD, **more)
    assert ordinary == [ADD], why


async def test_who_asks_before_sending_the_body_is_told_to_go_on(site: Site) -> None:
    answer = await asyncio.wait_for(site.post(ADD, data=b"x", expect100=True), 20)
    assert answer.status == 200


@pytest.mark.parametrize("body", [b"", b"\n\n", b"# nothing\n", b"x" * 9_000, b"nul\0byte", b"\xff\xfe"])
async def test_odd_bodies_are_answered_alike(site: Site, body: bytes) -> None:
    await site.add("x")
    await both_ways(site, data=body)


async def test_refusals_are_answered_alike(site: Site) -> None:
    _, reader = await create_key(site.service, "test", "acme", scopes=["read"])
    for name, key in {"acme": "acme", "other": "other", "reader": reader}.items():
        await site.get("/acme/results", key=key)  # known from now on
        short = await both_ways(site, data=b"x", key=key)
        assert short[0] == {"acme": 200, "other": 403, "reader": 403}[name]
    assert (await both_ways(site, data=b"x", key=None))[0] == 401
    assert (await both_ways(site, data=b"x", key="fk_no_key"))[0] == 401
    assert (await both_ways(site, "/acme/job/.dot/add", data=b"x"))[0] == 422


async def test_a_full_quota_is_told_alike(site: Site) -> None:
    await update_tenant(site.service, "test", "acme", limits=TenantLimits(max_jobs=1))
    await site.add("x")
    status, headers, problem = await both_ways(site, data=b"one\ntwo")
    assert (status, problem["error"]["code"]) == (429, "quota_exceeded")
    assert headers["retry-after"] == "30"


async def test_a_rate_is_charged_once_whichever_way(tmp_path: Path) -> None:
    limits = WebSettings(port=0, requests_per_s=0.001, requests_burst=4, shutdown_s=1)
    async with open_site(tmp_path, settings=limits) as site:
        for _ in range(4):
            await site.add("x")
        assert (await both_ways(site, data=b"x"))[2]["error"]["code"] == "rate_limited"


async def test_a_full_disk_is_told_alike_and_nothing_of_ours_is_shown(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> list[str]:
        raise DiskFull("no room in /secret/path")

    await site.add("x")
    monkeypatch.setattr(site.service.journal, "begin_write", full)
    status, _, problem = await both_ways(site, data=b"x")
    assert (status, problem["error"]["code"]) == (507, "disk_full")
    assert "secret" not in str(problem)


@pytest.mark.parametrize("body", [b"x", b"x\n" * 2000], ids=["written at once", "written by a task"])
async def test_a_refused_body_goes_with_its_answer_and_not_with_a_collection(
    site: Site, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    """Or they pile up just when the journal is full: collections are rare here."""

    def full(*_: object) -> list[str]:
        raise DiskFull("no room")

    await site.add("x")
    monkeypatch.setattr(site.service.journal, "begin_write", full)
    gc.collect()
    gc.disable()
    try:
        assert (await site.post(ADD, data=body)).status == 507
        assert not [it for it in gc.get_objects() if isinstance(it, PlainAdd)]
    finally:
        gc.enable()


_STATUS: Final = {"plain": 200, "query": 200, "empty": 422, "health": 200, "stranger": 403}


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, str]:
    """The status, and the id of the request that it answers."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:] if line)
    await reader.readexactly(int(headers["Content-Length"]))
    return int(lines[0].split()[1]), headers["X-Request-Id"]


async def test_every_request_of_a_connection_is_answered_once_and_in_order(site: Site) -> None:
    """However the stream is cut into pieces, and however many requests are sent before an answer is read."""
    await site.add("the key is verified")
    added = 1
    for seed in range(100):
        dice = random.Random(seed)
        kinds = dice.choices(sorted(_STATUS), k=dice.randint(1, 12))
        expected = [(_STATUS[kind], f"r{number}") for number, kind in enumerate(kinds)]
        data = b"".join(request_of(kind, site, name) for kind, (_, name) in zip(kinds, expected, strict=True))
        assert await talk(site, dice, data, len(kinds)) == expected, f"seed {seed}"
        added += sum(2 for kind in kinds if kind in ("plain", "query"))
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == added


async def talk(site: Site, dice: random.Random, data: bytes, count: int) -> list[tuple[int, str]]:
    """Send it in pieces, with some turns of the event loop in between; so many answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.listener.port)
    answers = asyncio.ensure_future(read_answers(reader, count))
    most = dice.choice([20, 200, 2000])
    while data:
        size = dice.randint(1, most)
        writer.write(data[:size])
        data = data[size:]
        for _ in range(dice.randint(0, 4)):
            await asyncio.sleep(0)
    try:
        return await asyncio.wait_for(answers, 30)
    finally:
        writer.close()
        await writer.wait_closed()


async def read_answers(reader: asyncio.StreamReader, count: int) -> list[tuple[int, str]]:
    return [await read_answer(reader) for _ in range(count)]


class HeldIntake:
    """Writes wait until they are let go."""

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = asyncio.Event()
        self.go = asyncio.Event()
        self.ended = asyncio.Event()
        begin, write = site.intake.begin, site.intake.write

        async def held_write(jobtype: str, lines: list[bytes], options: JobOptions = PLAIN) -> list[str]:
            self.began.set()
            await self.go.wait()
            try:
                return await write(jobtype, lines, options)
            finally:
                self.ended.set()

        def held(jobtype: str, lines: list[bytes], told: Settled) -> list[str]:
            async def settle(error: Exception | None) -> None:
                await self.go.wait()
                told(error)
                self.ended.set()

            def settled(error: Exception | None) -> None:
                self._settling = asyncio.ensure_future(settle(error))

            self.began.set()
            return begin(jobtype, lines, settled)

        monkeypatch.setattr(site.intake, "begin", held)
        monkeypatch.setattr(site.intake, "write", held_write)


async def test_a_request_under_way_is_finished_when_the_service_stops(
    site: Site, monkeypatch: pytest.MonkeyPatch, ordinary: list[str]
) -> None:
    await site.add("x")
    ordinary.clear()
    held = HeldIntake(site, monkeypatch)
    adding = asyncio.ensure_future(site.add("y"))
    await held.began.wait()
    stopping = asyncio.ensure_future(site.listener.stop())
    await asyncio.sleep(0)
    held.go.set()
    assert len(await adding) == 1
    await stopping
    assert not ordinary


async def test_who_waits_for_an_answer_is_not_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = asyncio.Queue[None]()
    look = Connection._process_keepalive

    def spied(self: Connection) -> None:
        looks.put_nowait(None)
        look(self)

    monkeypatch.setattr(Connection, "_process_keepalive", spied)
    async with open_site(tmp_path, settings=WebSettings(port=0, keepalive_s=0.01, shutdown_s=1)) as site:
        await site.get("/acme/results")
        held = HeldIntake(site, monkeypatch)
        adding = asyncio.ensure_future(site.add("y"))
        await held.began.wait()
        async with asyncio.timeout(20):
            for _ in range(looks.qsize() + 3):
                await looks.get()
        held.go.set()
        assert len(await adding) == 1


@pytest.mark.parametrize("end", [lambda it: it.close(), lambda it: it.transport.abort()])
async def test_a_client_that_does_not_wait_has_added_its_job_all_the_same(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    end: Callable[[asyncio.StreamWriter], None],
) -> None:
    await site.add("x")
    held = HeldIntake(site, monkeypatch)
    _, writer = await asyncio.open_connection("127.0.0.1", site.listener.port)
    writer.write(request_of("plain", site, "r1"))
    await held.began.wait()
    end(writer)
    await asyncio.sleep(0)
    held.go.set()
    await held.ended.wait()
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 3
    assert not [it for it in caplog.records if it.levelname in ("WARNING", "ERROR")]
