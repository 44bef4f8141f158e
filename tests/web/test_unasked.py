"""Types with jobs for workers, of which none asks: the metric, and the words for the operator."""

import asyncio
import re
from typing import Any

import msgspec
import pytest

from functory.cli.scoreboard import render_scoreboard
from functory.operations.unasked import unasked_of
from functory.wire.scoreboard import Scoreboard
from functory.workers import unasked
from functory.workers.presence import Seen, note_key
from functory.workers.unasked import UnaskedTypes
from functory.workers.values import Order, Worker
from store.errors import StoreUnavailable
from tests.support.pages import visitor
from tests.support.web import Site


async def seconds(site: Site) -> dict[str, float]:
    text = (await site.get("/metrics", key="operator")).body.decode()
    found = re.findall(r'^functory_runnable_unasked_seconds\{tenant="(\w+)",type="(\w+)"\} (\S+)$', text, re.MULTILINE)
    return {f"{tenant}-{type_name}": float(value) for tenant, type_name, value in found}


async def told(site: Site) -> list[dict[str, Any]]:
    health = (await site.get("/admin/health", key="operator")).json
    assert health["problems"] == {}, "it is a matter of the tenant's"
    found: list[dict[str, Any]] = health["unasked"]
    return found


async def serve(site: Site, *types: str, lang: str = "worker") -> None:
    for name in types:
        answer = await site.call("PUT", f"/acme/handler/{name}", json={"lang": lang, "body": "return 1"})
        assert answer.status < 300, answer.body


async def post(site: Site, *types: str) -> None:
    for name in types:
        await site.add("1", path=f"/acme/job/{name}/add")
    await site.intake.flush()


def order(*patterns: str, **more: Any) -> Order:
    return Order("acme", patterns, worker=Worker("gpu"), **more)


async def test_no_worker_asks(site: Site) -> None:
    await serve(site, "resize", "idle")
    await serve(site, "inside", lang="python")
    await post(site, "resize", "inside", "orphan")
    site.clock.advance(90)
    assert await seconds(site) == {"acme-resize": 90.0}, "neither types without jobs, nor such that daemons run"
    assert await told(site) == []
    site.clock.advance(600)
    text = "no worker has asked for acme-resize for 690 s, and 1 of its jobs wait"
    assert await told(site) == [{"tenant": "acme", "type": "resize", "waiting": 1, "seconds": 690.0, "text": text}]


async def test_it_counts_from_the_last_worker_that_asked(site: Site) -> None:
    await serve(site, "resize")
    await post(site, "resize")
    site.clock.advance(700)
    await site.workers.take(order("other"))
    assert await seconds(site) == {"acme-resize": 700.0}, "it takes other types"
    (job,) = await site.workers.take(order("res*"))
    assert await seconds(site) == {}
    await post(site, "resize")
    site.clock.advance(700)
    assert await seconds(site) == {"acme-resize": 0.0}, "a worker holds one"
    assert job.job.jobtype == "acme-resize"
    await site.workers.give_back("acme", [], "gpu")
    assert await seconds(site) == {"acme-resize": 1400.0}, "it has said goodbye, and the oldest came first"


async def test_a_worker_that_waits_asks_all_the_time(site: Site) -> None:
    await serve(site, "resize")
    site.workers.set_paused(paused=True)
    waiting = asyncio.create_task(site.workers.take(order("resize", wait_s=30.0)))
    await post(site, "resize")
    site.clock.advance(700)
    assert await seconds(site) == {"acme-resize": 0.0}
    site.workers.set_paused(paused=False)
    assert len(await waiting) == 1


async def test_a_paused_type_waits_for_nobody(site: Site) -> None:
    await serve(site, "resize")
    await post(site, "resize")
    site.clock.advance(700)
    assert (await site.post("/admin/tenants/acme/types/resize/pause", key="operator")).status < 300
    assert await told(site) == []


async def test_workers_of_other_daemons_count(site: Site) -> None:
    await serve(site, "resize")
    await post(site, "resize")
    site.clock.advance(900)
    now_ms = site.clock.now_ms()
    other = await site.store.reserve_sysid(info="", lease_ms=3_600_000, now_ms=now_ms)
    note = [Seen(name="far", types=["resize"], asked_ms=now_ms - 40_000, daemon=other.sysid)]
    await site.store.put_note(note_key("acme", other.sysid), msgspec.json.encode(note), expires_ms=now_ms + 60_000)
    assert await seconds(site) == {"acme-resize": 40.0}


async def test_a_type_that_changes_its_language_is_noticed(site: Site) -> None:
    await serve(site, "resize")
    await post(site, "resize")
    assert await seconds(site) == {"acme-resize": 0.0}
    await serve(site, "resize", lang="python")
    assert await seconds(site) == {}


async def test_the_rest_is_told_when_the_store_cannot_tell(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise StoreUnavailable("no server")

    await serve(site, "resize")
    await post(site, "resize")
    monkeypatch.setattr(UnaskedTypes, "among", away)
    assert await seconds(site) == {}
    text = (await site.get("/metrics", key="operator")).body.decode()
    assert 'functory_runnable_jobs{tenant="acme",type="resize"} 1' in text
    assert await told(site) == []


async def test_who_asks_every_moment_costs_the_store_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await serve(site, "resize")
    await post(site, "resize")
    site.clock.advance(700)
    assert [each["seconds"] for each in await told(site)] == [700.0]

    async def away(*_: object, **__: object) -> None:
        raise StoreUnavailable("no server")

    monkeypatch.setattr(site.store, "get_counters", away)
    site.clock.advance(unasked.LIFE_S / 2)
    assert [each["seconds"] for each in await told(site)] == [700.0]
    site.clock.advance(unasked.LIFE_S)
    assert await told(site) == []


async def test_of_very_many_the_oldest_are_told(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unasked, "_MOST_TYPES", 2)
    await serve(site, "a", "b", "c")
    for name in ("c", "b", "a"):
        await post(site, name)
        site.clock.advance(60)
    assert await seconds(site) == {"acme-c": 180.0, "acme-b": 120.0}


async def test_the_scoreboard_and_the_pages_tell_for_how_long(site: Site) -> None:
    await serve(site, "resize", "asked", "idle")
    await post(site, "resize", "asked")
    site.clock.advance(20)
    rows = (await site.get("/acme/scoreboard")).json["types"]
    assert {row["type"]: row["unasked_s"] for row in rows} == {"resize": None, "asked": None, "idle": None}
    site.clock.advance(20)
    assert len(await site.workers.take(order("asked"))) == 1
    rows = (await site.get("/acme/scoreboard")).json["types"]
    assert {row["type"]: row["unasked_s"] for row in rows} == {"resize": 40.0, "asked": None, "idle": None}
    board = msgspec.convert((await site.get("/acme/scoreboard")).json, Scoreboard)
    assert "resize (no worker for 40 s)" in render_scoreboard(board)
    async with visitor(site, "acme") as acme:
        page = await acme.get("/ui/t/acme")
        assert page.text.count("no worker for 40 s") == 1
        page = await acme.get("/ui/t/acme?show=no_worker")
        assert re.findall(r'<tr data-key="(\w+)">', page.text) == ["resize"]
        assert "No worker has asked for 40 s." in (await acme.get("/ui/t/acme/type/resize")).text
        assert "No worker has asked" not in (await acme.get("/ui/t/acme/type/idle")).text


async def test_no_tenant_is_told_of_the_types_of_others(site: Site) -> None:
    await serve(site, "resize")
    await post(site, "resize")
    site.clock.advance(40)
    assert await unasked_of(site.service, "acme") == {"acme-resize": 40.0}
    assert await unasked_of(site.service, "acm") == {}


async def test_those_who_ask_at_the_same_time_share_a_look(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await serve(site, "resize")
    await post(site, "resize")
    site.clock.advance(40)
    looks, real, begun, go_on = 0, site.store.get_waiting_jobtypes, asyncio.Event(), asyncio.Event()

    async def look(**more: Any) -> Any:
        nonlocal looks
        looks += 1
        begun.set()
        await go_on.wait()
        return await real(**more)

    monkeypatch.setattr(site.store, "get_waiting_jobtypes", look)
    asked = [asyncio.create_task(unasked_of(site.service, "acme")) for _ in range(5)]
    await begun.wait()
    asked[0].cancel()
    go_on.set()
    assert await asyncio.gather(*asked[1:]) == [{"acme-resize": 40.0}] * 4
    assert looks == 1


async def test_a_look_that_fails_is_not_tried_again_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await serve(site, "resize")
    await post(site, "resize")
    site.clock.advance(40)
    real, looks = site.store.get_waiting_jobtypes, 0

    async def away(**_: Any) -> Any:
        nonlocal looks
        looks += 1
        raise StoreUnavailable("no server")

    monkeypatch.setattr(site.store, "get_waiting_jobtypes", away)
    assert [await unasked_of(site.service, "acme") for _ in range(3)] == [{}] * 3
    assert looks == 1
    monkeypatch.setattr(site.store, "get_waiting_jobtypes", real)
    site.clock.advance(unasked.LIFE_S)
    assert await unasked_of(site.service, "acme") == {"acme-resize": 50.0}


async def test_many_types_of_others_hide_none(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unasked, "_MOST_TYPES", 2)
    await serve(site, "a", "b", "c")
    await post(site, "a", "b", "c")
    answer = await site.call("PUT", "/other/handler/mine", json={"lang": "worker", "body": ""}, key="other")
    assert answer.status < 300, answer.body
    await site.add("1", path="/other/job/mine/add", key="other")
    await site.intake.flush()
    site.clock.advance(40)
    assert await unasked_of(site.service, "other") == {"other-mine": 40.0}
