"""A POST that waits for its jobs on the short way: answered as on the ordinary one, and never waited for in vain."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from functory.operations.jobs import wait_for_awaited
from functory.operations.keys import create_key
from functory.web.api import add
from functory.web.http import outflow
from functory.web.http.outflow import Outflow
from functory.web.http.settings import WebSettings
from store.errors import StoreUnavailable
from tests.support.express import ADD, request_of, seen_by_client
from tests.support.service import until
from tests.support.web import Answer, Site, open_site

WAITS: Final = ("?wait_s=30", "?wait_s=30&ids=yes")
"""The short way and the ordinary one."""


async def ended(site: Site, query: str, **outcome: Any) -> Answer:
    """What a POST answers that waits for its job, which ends meanwhile."""
    posting = asyncio.ensure_future(site.post(ADD + query, data=b"x\n"))
    (job_id,) = await until(partial(site.run, **outcome))
    site.waiters.tell(job_id)
    return await posting


async def test_a_post_that_waits_goes_the_short_way_and_is_answered_alike(site: Site, ordinary: list[str]) -> None:
    await site.add("the key is verified")
    await site.run()
    ordinary.clear()
    short, usual = [await ended(site, query) for query in WAITS]
    assert ordinary == [f"{ADD}?wait_s=30&ids=yes"]
    for answer in (short, usual):
        (job,) = answer.json["jobs"]
        assert answer.json["ids"] == [job.pop("id")]
    assert short.json["jobs"] == usual.json["jobs"]
    assert (short.json["jobs"][0]["code"], short.json["jobs"][0]["result"]) == ("ok", "done")
    assert seen_by_client(short) == seen_by_client(usual)


@pytest.mark.parametrize(
    "query", ["?wait_s=61", "?wait_s=-1", "?wait_s=1e1", "?wait_s=05", "?wait_s=1&wait_s=2", "?wait_s="]
)
async def test_an_odd_wait_is_read_by_the_ordinary_way(site: Site, ordinary: list[str], query: str) -> None:
    await site.add("x")
    await site.run()
    ordinary.clear()
    posting = asyncio.ensure_future(site.post(ADD + query, data=b"x\n"))
    await until(lambda: asyncio.sleep(0, bool(ordinary)))
    if query == "?wait_s=1e1":
        (job_id,) = await until(site.run)
        site.waiters.tell(job_id)
        assert (await posting).status == 200
    else:
        assert (await posting).status == 422


@pytest.mark.parametrize("query", WAITS)
async def test_what_was_accepted_is_answered_although_it_cannot_be_looked_at(
    site: Site, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("no answer")

    get_job, has_looked = site.store.get_job, asyncio.Event()

    async def look(*names: str, **more: Any) -> Any:
        found = await get_job(*names, **more)
        has_looked.set()
        return found

    await site.add("the key is verified")
    monkeypatch.setattr(site.store, "get_job", look)
    posting = asyncio.ensure_future(site.post(ADD + query, data=b"x\n"))
    await has_looked.wait()
    (_, job_id) = await site.run()
    monkeypatch.setattr(site.store, "get_job", away)
    monkeypatch.setattr(site.service.accepted, "find", lambda *_: None)  # it knows only so many
    site.waiters.tell(job_id)
    answer = await posting
    assert (answer.status, answer.json) == (200, {"count": 1, "ids": [job_id]})


async def test_who_may_not_read_may_not_wait(site: Site) -> None:
    _, site.keys["adds"] = await create_key(site.service, "test", "acme", scopes=("submit",))
    await site.add("x", key="adds")
    refused = [seen_by_client(await site.post(ADD + query, data=b"x\n", key="adds")) for query in WAITS]
    assert refused[0] == refused[1]
    assert refused[0][0] == 403
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 1


async def test_a_large_answer_is_sent_in_pieces_and_has_a_place(
    site: Site, monkeypatch: pytest.MonkeyPatch, ordinary: list[str]
) -> None:
    await site.add("x")
    await site.run()
    ordinary.clear()
    sent: list[tuple[str, int]] = []
    send_bytes = Outflow.send_bytes

    async def spy(self: Outflow, tenant: str, answer: bytes, write: Any) -> bool:
        sent.append((tenant, len(answer)))
        return await send_bytes(self, tenant, answer, write)

    monkeypatch.setattr(Outflow, "send_bytes", spy)
    answer = await ended(site, "?wait_s=30", result=b"\x01" * 200_000)
    assert answer.json["jobs"][0]["result"] == "\x01" * 200_000
    assert not ordinary
    ((tenant, size),) = sent
    assert (tenant, size > 1_000_000) == ("acme", True)


async def test_a_large_answer_that_nobody_reads_gives_its_place_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "functory.web")
    monkeypatch.setattr(outflow, "_GRACE_S", 0.0)
    monkeypatch.setattr(outflow, "_LEAST_BYTES_PER_S", 1 << 40)
    large = b"x" * (1 << 20)
    outflows = Outflow()

    async def never(piece: bytes) -> None:
        await asyncio.Event().wait()

    assert await outflows.send_bytes("acme", large, never) is False
    assert [it.message for it in caplog.records] == ["connection.cut_off"]
    assert not outflows._held_bytes, "its place is free again"


@pytest.mark.parametrize("query", WAITS)
async def test_nobody_waits_for_a_job_for_a_client_that_has_gone(
    site: Site, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    await site.add("x")
    given_up = asyncio.Event()

    async def spy(*args: Any, **more: Any) -> Any:
        found = await wait_for_awaited(*args, **more)
        given_up.set()
        return found

    monkeypatch.setattr(add, "wait_for_awaited", spy)
    _, writer = await asyncio.open_connection("127.0.0.1", site.listener.port)
    writer.write(request_of("plain", site, "r1").replace(ADD.encode(), (ADD + query).encode()))
    await site.waiters.waiting.wait()
    assert not given_up.is_set()
    writer.transport.abort()

    async def look_again() -> bool:
        for job_id in list(site.waiters._events):
            site.waiters.tell(job_id)
        await asyncio.sleep(0)
        return given_up.is_set()

    await until(look_again)


async def test_who_waits_for_a_job_is_let_go_when_the_service_stops(tmp_path: Path, ordinary: list[str]) -> None:
    async with open_site(tmp_path, settings=WebSettings(port=0, shutdown_s=0.01)) as site:
        await site.add("x")
        ordinary.clear()
        waiting = asyncio.ensure_future(site.post(ADD + "?wait_s=50", data=b"y\n"))
        await site.waiters.waiting.wait()
        async with asyncio.timeout(20):
            await site.listener.stop()
        assert not [task for task in asyncio.all_tasks() if "_serve" in repr(task.get_coro())]
        with pytest.raises(aiohttp.ClientError):
            await waiting
        assert not ordinary
