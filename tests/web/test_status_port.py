"""The port for probes and scrapers: health and metrics without a key, and nothing else; also when the store is away."""

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from functory.web.app import make_app, make_status_app
from functory.web.http.settings import WebSettings
from functory.web.listener import Listener
from store.errors import StoreUnavailable
from tests.support.web import Site


@pytest.fixture
async def status_url(site: Site, tmp_path: Path) -> AsyncIterator[str]:
    settings = WebSettings(port=0, shutdown_s=1)
    listener = Listener(make_status_app(make_app(site.service, settings), settings))
    await listener.start()
    yield f"http://127.0.0.1:{listener.port}"
    await listener.stop()


async def test_it_needs_no_key_and_has_nothing_else(site: Site, status_url: str) -> None:
    async with aiohttp.ClientSession(status_url) as session:
        for path, status in {
            "/healthz": 200,
            "/readyz": 200,
            "/metrics": 200,
            "/docs": 404,
            "/admin/tenants": 404,
            "/acme/scoreboard": 404,
            "/": 404,
            "/ui": 404,
            "/ui/signin": 404,
            "/ui/t/acme": 404,
            "/ui/operator": 404,
        }.items():
            async with session.get(path) as answer:
                assert answer.status == status, path
        async with session.post("/acme/job/x/add", data=b"x") as answer:
            assert answer.status == 404
        site.control.problems["journal"] = "the disk is full: /secret/path"
        async with session.get("/readyz") as answer:
            assert (answer.status, (await answer.json())["problems"]) == (503, ["journal"])


async def test_metrics_are_there_while_the_store_is_away(
    site: Site, status_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("no server")

    monkeypatch.setattr(site.store, "get_counters", away)
    async with aiohttp.ClientSession(status_url) as session, session.get("/metrics") as answer:
        text = await answer.text()
    assert answer.status == 200
    assert "functory_journal_lines_written_total" in text
    assert "functory_jobs{" not in text


async def test_what_waits_and_could_run_is_told_with_its_age(site: Site) -> None:
    await site.add("x", "y", path="/acme/job/thumb/add")
    await site.add("x", path="/acme/job/orphan/add")
    answer = await site.call("PUT", "/acme/handler/thumb?lang=python", data=b"return 1")
    assert answer.status < 300
    await site.intake.flush()
    site.clock.advance(90)
    text = (await site.get("/metrics", key="operator")).body.decode()
    assert 'functory_runnable_jobs{tenant="acme",type="thumb"} 2' in text
    assert 'functory_runnable_oldest_seconds{tenant="acme",type="thumb"} 90' in text
    assert 'type="orphan"} ' not in text, "without a handler nothing is runnable"
