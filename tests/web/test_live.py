"""Live pages by themselves: the work is per address and not per reader, and stops when nobody looks."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from functory.errors import Missing, NotReadyYet
from functory.operations.principal import Principal
from functory.tenant_limits import TenantLimits
from functory.web.http.stream_seats import StreamSeats
from functory.web.pages.live import LiveHub
from store.errors import NotFound, StoreUnavailable
from tests.support.pages import heard


class Stage:
    """An address whose page the test makes: each turn takes the next text, or raises the next error."""

    def __init__(self) -> None:
        self.texts: asyncio.Queue[str | Exception] = asyncio.Queue()
        self.made = 0
        self.is_welcome = True
        self.url = ""

    async def make(self) -> str:
        text = await self.texts.get()
        self.made += 1
        if isinstance(text, Exception):
            raise text
        return text


def who(request: web.Request) -> Principal:
    key, tenant = request.query.get("key", "key"), request.query.get("tenant", "acme")
    return Principal(key, tenant, frozenset(), TenantLimits())


@asynccontextmanager
async def staged(hub: LiveHub) -> AsyncIterator[tuple[Stage, aiohttp.ClientSession]]:
    stage = Stage()
    numbers = itertools.count()

    async def welcome() -> bool:
        return stage.is_welcome

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            session = request.query.get("session") or f"session {next(numbers)}"
            return await hub.stream(request, who(request), session, "http://here", stage.make, welcome)
        except NotReadyYet:
            return web.Response(status=503)

    app = web.Application()
    app.router.add_get("/live", answer)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    stage.url = f"http://127.0.0.1:{runner.addresses[0][1]}/live"
    try:
        async with aiohttp.ClientSession() as session:
            yield stage, session
            await hub.close()
    finally:
        await runner.cleanup()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 (the hub has no event for it, and needs none)
            await asyncio.sleep(0)


async def test_a_page_is_made_once_however_many_look_and_sent_only_when_it_changed() -> None:
    async with staged(LiveHub(0.0)) as (stage, session):
        readers = [await session.get(stage.url) for _ in range(5)]
        for text in ("one", "one", "one", "two <b>\n"):
            stage.texts.put_nowait(text)
        assert [await heard(it) for it in readers] == ["one"] * 5
        assert [await heard(it) for it in readers] == ["two <b>\n"] * 5
        assert stage.made == 4
        late = await session.get(stage.url)
        for _ in range(2):
            stage.texts.put_nowait("two <b>\n")
        assert await heard(late) == "two <b>\n", "who comes later sees it, although it has not changed"


async def test_who_comes_later_is_not_sent_what_was_read_before() -> None:
    """The page that it has is newer: a page that reloads itself when the two differ would do so again and again."""
    async with staged(LiveHub(0.0)) as (stage, session):
        first = await session.get(stage.url)
        stage.texts.put_nowait("deferred")
        assert await heard(first) == "deferred"
        late = await session.get(stage.url)
        for text in ("deferred, and still on its way", "running"):
            stage.texts.put_nowait(text)
        assert await heard(late) == "running"


async def test_what_cannot_be_made_now_is_tried_again() -> None:
    async with staged(LiveHub(0.0)) as (stage, session):
        reader = await session.get(stage.url)
        stage.texts.put_nowait(StoreUnavailable("away"))
        stage.texts.put_nowait("back")
        assert await heard(reader) == "back"


async def test_a_page_that_cannot_be_made_by_a_mistake_of_ours_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with staged(LiveHub(0.0)) as (stage, session):
        reader = await session.get(stage.url)
        stage.texts.put_nowait(KeyError("nobody thought of it"))
        async with asyncio.timeout(30):
            assert "event: gone" not in await reader.text()
    (record,) = [it for it in caplog.records if it.getMessage() == "live.failed"]
    assert (record.__dict__["path"], "nobody thought of it" in str(record.exc_info)) == ("/live", True)


@pytest.mark.parametrize("error", [Missing("purged"), NotFound("deleted")])
async def test_who_looks_at_what_is_gone_is_told_and_the_stream_ends(error: Exception) -> None:
    async with staged(LiveHub(0.0)) as (stage, session):
        reader = await session.get(stage.url)
        stage.texts.put_nowait(error)
        async with asyncio.timeout(30):
            assert "event: gone\n" in await reader.text()


async def test_a_reader_who_is_not_welcome_any_more_is_let_go() -> None:
    async with staged(LiveHub(0.0)) as (stage, session):
        reader = await session.get(stage.url)
        stage.texts.put_nowait("one")
        assert await heard(reader) == "one"
        stage.is_welcome = False
        stage.texts.put_nowait("secret")
        assert await heard(reader) == ""


async def test_nothing_is_made_when_nobody_looks() -> None:
    hub = LiveHub(0.0)
    async with staged(hub) as (stage, session):
        reader = await session.get(stage.url)
        stage.texts.put_nowait("one")
        assert await heard(reader) == "one"
        stage.is_welcome = False
        stage.texts.put_nowait("two")
        await heard(reader)
        stage.texts.put_nowait("three")
        await until(lambda: not hub._feeds)
        stage.texts.put_nowait("four")
        assert stage.texts.qsize() >= 1


@pytest.mark.parametrize(
    ("seats", "third"),
    [
        (StreamSeats(in_all=2), "?key=3&tenant=other"),
        (StreamSeats(per_tenant=2), "?key=3"),
        (StreamSeats(per_key=2), ""),
    ],
)
async def test_there_are_only_so_many_streams_in_all_of_a_tenant_and_of_a_key(seats: StreamSeats, third: str) -> None:
    async with staged(LiveHub(0.0, seats)) as (stage, session):
        answers = [await session.get(stage.url + one) for one in ("", "", third)]
        assert [it.status for it in answers] == [200, 200, 503]
        stage.is_welcome = False
        for text in ("go", "and go"):
            stage.texts.put_nowait(text)
        assert [await heard(it) for it in answers[:2]] == ["", ""]
        stage.is_welcome = True
        await until(lambda: not seats.taken)
        assert (await session.get(stage.url)).status == 200, "there is room again"


async def test_the_tabs_of_a_browser_are_left_connections() -> None:
    async with staged(LiveHub(0.0)) as (stage, session):
        path = stage.url + "?session=one"
        tabs = [await session.get(path) for _ in range(5)]
        assert [it.status for it in tabs] == [200, 200, 200, 200, 503]
        assert (await session.get(stage.url + "?session=another")).status == 200
        tabs[0].close()
        async with asyncio.timeout(30):
            while (await session.get(path)).status != 200:  # nothing is sent meanwhile that would end the stream
                pass


async def test_closing_ends_every_stream() -> None:
    hub = LiveHub(60.0)
    async with staged(hub) as (stage, session):
        reader = await session.get(stage.url)
        stage.texts.put_nowait("one")
        assert await heard(reader) == "one"
        await hub.close()
        assert await heard(reader) == ""
        assert (await session.get(stage.url)).status == 503
