"""The window of the scoreboard: all that ended in it counts, and the rate is over the time that was counted. And what a
scoreboard of many types and many pages of jobs cost others."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from functory.loops.slices import SLICE
from functory.operations import scoreboard
from functory.web.api import results
from functory.web.app import WEB
from functory.wire.scoreboard import TypeRow
from store.base import HandlerSummary, JobPage, TypeCounters
from store.errors import StoreUnavailable
from tests.support.pages import visitor
from tests.support.service import until
from tests.support.web import Site

MINUTE_S = 60


async def ended_per_s(site: Site, window_s: int) -> float:
    (row,) = (await site.get(f"/acme/scoreboard?window_s={window_s}")).json["types"]
    assert row["duration"] is not None
    rate: float = row["ended_per_s"]
    return rate


async def test_what_ended_in_the_minute_before_counts_in_a_window_of_a_minute(site: Site) -> None:
    site.clock.advance(50)
    await site.add(*"abcdef")
    await site.run(6)
    site.clock.advance(12)
    assert await ended_per_s(site, MINUTE_S) == pytest.approx(6 / 62), "since the start of the minute"


@pytest.mark.parametrize("window_s", [60, 3600, 6 * 3600, 7 * 3600, 86_400])
async def test_a_window_has_all_that_ended_in_it_and_nothing_from_before(site: Site, window_s: int) -> None:
    site.clock.advance(37 * MINUTE_S + 10)
    await site.add(*"abcdef")
    await site.run(2)
    site.clock.advance(MINUTE_S)
    await site.run(3)
    site.clock.advance(window_s - 1)
    await site.run(1)
    assert await ended_per_s(site, window_s) == pytest.approx(4 / (window_s + 9))


async def test_a_scoreboard_is_made_once_for_all_who_ask_before_it_begins(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, let_go, get_counters = list[str](), asyncio.Event(), site.store.get_counters

    async def held(tenant: str | None, *, now_ms: int) -> list[TypeCounters]:
        if tenant is not None:
            began.append(tenant)
            await let_go.wait()
        return await get_counters(tenant, now_ms=now_ms)

    async def has_begun(tenant: str) -> bool:
        return tenant in began

    async def all_wait() -> bool:
        return site.listener._app[WEB].looks._turns._tenants["acme"].users == 3

    await site.add("a")
    await site.intake.flush()
    monkeypatch.setattr(site.store, "get_counters", held)
    first = asyncio.ensure_future(site.get("/acme/scoreboard"))
    await until(lambda: has_begun("acme"))
    later = [asyncio.ensure_future(site.get(f"/acme/scoreboard?window_s={n}")) for n in (60, 3600) * 4]
    await until(all_wait)
    other = asyncio.ensure_future(site.get("/other/scoreboard", key="other"))
    await until(lambda: has_begun("other"))
    assert began == ["acme", "other"], "a tenant has one under way"
    await site.add("a", path="/acme/job/new/add")
    await site.intake.flush()
    let_go.set()
    assert len((await first).json["types"]) == 2
    assert [len((await answer).json["types"]) for answer in later] == [2] * 8, "as it is after they asked"
    assert (await other).json["types"] == []
    assert Counter(began) == {"acme": 3, "other": 1}


async def test_the_rows_of_many_types_are_made_in_slices(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    turn, turns, make_row = 0, list[int](), results._row

    async def many(tenant: str | None, *, now_ms: int) -> list[TypeCounters]:
        return [TypeCounters(f"{tenant}-{number}") for number in range(2000)]

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def row(it: scoreboard.Row, window_s: float) -> TypeRow:
        turns.append(turn)
        return make_row(it, window_s)

    monkeypatch.setattr(site.store, "get_counters", many)
    monkeypatch.setattr(results, "_row", row)
    counting = asyncio.create_task(count_turns())
    assert len((await site.get("/acme/scoreboard")).json["types"]) == 2000
    counting.cancel()
    assert max(Counter(turns).values()) <= SLICE / 100


async def test_a_tenant_has_one_page_of_jobs_read_at_a_time(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    began, let_go, list_jobs = list[str](), asyncio.Event(), site.store.list_jobs

    async def held(tenant: str, *args: Any, **more: Any) -> JobPage:
        began.append(tenant)
        await let_go.wait()
        return await list_jobs(tenant, *args, **more)

    async def all_wait() -> bool:
        own = site.listener._app[WEB].listings._tenants.get("acme")
        return own is not None and own.users == 3

    async def has_begun(tenant: str) -> bool:
        return tenant in began

    (job_id,) = await site.add("a")
    monkeypatch.setattr(site.store, "list_jobs", held)
    asked = [asyncio.ensure_future(site.get("/acme/results?state=waiting")) for _ in range(3)]
    await until(all_wait)
    asked.append(asyncio.ensure_future(site.get("/other/results?state=waiting", key="other")))
    await until(lambda: has_begun("acme"))
    await until(lambda: has_begun("other"))
    assert sorted(began) == ["acme", "other"]
    assert (await site.get(f"/acme/job/{job_id}")).status == 200, "a single read does not wait"
    let_go.set()
    assert [len((await answer).json["jobs"]) for answer in asked] == [1, 1, 1, 0]


async def test_who_asks_for_all_handlers_meanwhile_gets_one_answer_together(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, asks, let_go, list_handlers = 0, 0, asyncio.Event(), site.store.list_handlers
    looks = site.listener._app[WEB].looks
    ask = looks.ask

    async def held(tenant: str) -> list[HandlerSummary]:
        nonlocal reads
        reads += 1
        await let_go.wait()
        return await list_handlers(tenant)

    async def counted(*about: Any) -> bytes:
        nonlocal asks
        asks += 1
        return await ask(*about)

    async def is_begun() -> bool:
        return reads == 1

    async def all_have_asked() -> bool:
        return asks == 6

    await site.call("PUT", "/acme/handler/thumb", json={"lang": "worker", "body": ""})
    monkeypatch.setattr(site.store, "list_handlers", held)
    monkeypatch.setattr(looks, "ask", counted)
    asked = [asyncio.ensure_future(site.get("/acme/handler"))]
    await until(is_begun)
    asked += [asyncio.ensure_future(site.get("/acme/handler")) for _ in range(5)]
    await until(all_have_asked)
    let_go.set()
    assert [[row["type"] for row in (await answer).json["handlers"]] for answer in asked] == [["thumb"]] * 6
    assert reads == 2


@pytest.mark.parametrize(
    ("page", "verb"),
    [("jobs?state=waiting", "list_jobs"), ("failures", "list_failure_groups")],
    ids=["jobs", "failures"],
)
async def test_a_list_on_a_page_waits_for_the_tenants_others(
    site: Site, page: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, listings, read = list[str](), site.listener._app[WEB].listings, getattr(site.store, verb)

    async def noted(*args: Any, **more: Any) -> Any:
        began.append(verb)
        return await read(*args, **more)

    async def waits() -> bool:
        return listings._tenants["acme"].users == 2

    async with visitor(site, "acme") as acme:
        assert (await acme.get(f"/ui/t/acme/{page}")).status == 200, "its frame is known from now on"
        monkeypatch.setattr(site.store, verb, noted)
        async with listings.of("acme"):
            asked = asyncio.ensure_future(acme.get(f"/ui/t/acme/{page}"))
            await until(waits)
            assert not began
        assert (await asked).status == 200
    assert began == [verb]


@pytest.mark.parametrize("what", ["results", "children", "failures", "scoreboard"])
async def test_all_who_wait_while_the_store_is_away_are_told_after_one_timeout(
    site: Site, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, time_out = list[str](), asyncio.Event()

    async def held(tenant: str, *_: Any, **__: Any) -> Any:
        began.append(tenant)
        await time_out.wait()
        raise StoreUnavailable("the store is away")

    async def all_wait() -> bool:
        state = site.listener._app[WEB]
        own = (state.looks._turns if what == "scoreboard" else state.listings)._tenants.get("acme")
        return own is not None and own.users == 5

    (job_id,) = await site.add("a")
    await site.intake.flush()
    paths = {
        "results": ("list_jobs", ["/acme/results?state=waiting"] * 5),
        "children": ("list_children", [f"/acme/job/{job_id}/children"] * 5),
        "failures": ("list_failure_groups", ["/acme/failures"] * 5),
        "scoreboard": ("get_counters", [f"/acme/scoreboard?window_s={60 * n}" for n in range(1, 6)]),
    }
    verb, asked_for = paths[what]
    with monkeypatch.context() as away:
        away.setattr(site.store, verb, held)
        asked = [asyncio.ensure_future(site.get(path)) for path in asked_for]
        await until(all_wait)
        time_out.set()
        answers = [await one for one in asked]
        assert [(answer.status, answer.code) for answer in answers] == [(503, "store_unavailable")] * 5
        assert began == ["acme"]
    assert [(await site.get(path)).status for path in asked_for] == [200] * 5
    assert not site.listener._app[WEB].looks._waiting


async def test_a_page_is_not_read_for_a_client_that_has_gone(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    began, listings = list[str](), site.listener._app[WEB].listings
    list_jobs = site.store.list_jobs

    async def noted(tenant: str, *args: Any, **more: Any) -> JobPage:
        began.append(tenant)
        return await list_jobs(tenant, *args, **more)

    async def users(count: int) -> bool:
        own = listings._tenants.get("acme")
        return (0 if own is None else own.users) == count

    monkeypatch.setattr(site.store, "list_jobs", noted)
    async with listings.of("acme"):
        writer = await site.send("GET /acme/results?state=waiting HTTP/1.1")
        await until(lambda: users(2))
        await site.leave(writer)
    await until(lambda: users(0))
    assert not began
    assert (await site.get("/acme/results?state=waiting")).status == 200
    assert began == ["acme"]
