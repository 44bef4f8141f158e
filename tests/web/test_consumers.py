"""Consumers over HTTP: what can be asked for, what is answered, what is refused."""

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from functory.operations import consumers
from store.base import Code, ConsumerRecord, EndReport, Outcome, Retry, WindowMove
from store.errors import StoreUnavailable
from tests.support.jobs import archive
from tests.support.pages import visitor
from tests.support.service import until
from tests.support.terminal import Terminal
from tests.support.web import SYSID, T0, Site

PATH = "/acme/consumer/verify"


async def put(site: Site, **body: object) -> dict[str, object]:
    answer = await site.call("PUT", PATH, json={"source": "block", **body})
    assert answer.status == 200, answer.body
    found: dict[str, object] = answer.json
    return found


async def lead(site: Site, **changes: object) -> None:
    """What a leader would do."""
    (record,) = await site.store.lead_consumers(SYSID, lease_ms=30_000, now_ms=T0)
    move = WindowMove("acme", "verify", record.token, 0, 0, 0, skip_failed=False, note=record.note)
    await site.store.move_window(move._replace(**changes), now_ms=T0)  # type: ignore[arg-type]


async def end(site: Site, codes: dict[int, Code]) -> None:
    """End those jobs of what waits, by number; the others run on."""
    jobs = await site.store.claim_jobs("acme-block", 100, owner=SYSID, lease_ms=9000, now_ms=T0)
    for job in jobs:
        if job.seq in codes:
            await site.store.release_jobs(SYSID, [archive(job, codes[job.seq])], now_ms=T0)


async def test_a_consumer_is_created_changed_and_read(site: Site) -> None:
    assert await put(site, max_processing=5, max_search_ahead=10, start_index=2, on_progress="told") == {
        "created": True
    }
    assert await put(site, on_failed="skip") == {"created": False}
    found = (await site.get(PATH)).json
    assert found == {
        "name": "verify", "source": "block", "pull": None, "trouble": None,
        "state": "running", "max_processing": 100, "max_search_ahead": 1000,
        "start_index": 2, "on_failed": "skip", "on_progress": None, "next": None, "max_lag": 1000,
        "next_lag": None, "processed": 1, "head": 0, "lag": 0,
        "leader": None, "lease_until_ms": None, "skips": 0, "skipped": [], "in_work": 0, "done_ahead": 0, "failed": 0,
        "gap": None, "window": [],
    }  # fmt: skip
    (listed,) = (await site.get("/acme/consumer")).json["consumers"]
    assert listed == {name: value for name, value in found.items() if name in listed}
    assert (await site.get("/other/consumer", key="other")).json["consumers"] == []
    assert (await site.get("/other/consumer/verify", key="other")).status == 404


async def test_the_window_the_gap_and_the_lag(site: Site) -> None:
    await put(site)
    await site.add(*"abcdef", path="/acme/job/block/add")
    await site.intake.flush()
    (held, *_) = (await site.get("/acme/results?state=paused")).json["jobs"]
    why = (await site.get(f"/acme/job/{held['id']}/why")).json
    assert (why["reason"], why["detail"]["consumer"], why["detail"]["index"]) == ("waits_for_consumer", "verify", 1)
    await lead(site, released=5)
    await end(site, {2: Code.OK, 3: Code.FAILED, 4: Code.OK})
    found = (await site.get(PATH)).json
    assert [(it["first"], it["last"], it["state"]) for it in found["window"]] == [
        (1, 1, "in_work"),
        (2, 2, "done"),
        (3, 3, "failed"),
        (4, 4, "done"),
        (5, 5, "in_work"),
    ]
    assert (found["in_work"], found["done_ahead"], found["failed"]) == (2, 2, 1)
    assert (found["processed"], found["head"], found["lag"], found["leader"]) == (0, 6, 6, SYSID)
    assert (found["gap"]["index"], found["gap"]["state"], found["gap"]["code"]) == (1, "running", None)
    health = (await site.get("/admin/health", key="operator")).json["consumers"]
    assert health == [{"tenant": "acme", "name": "verify", "leader": SYSID, "until_ms": T0 + 30_000}]
    async with visitor(site, "acme") as acme:
        page = (await acme.get("/ui/t/acme/consumers/verify")).text
        assert all(f'class="{kind}"' in page for kind in ("c-ok", "c-running", "c-failed"))
        assert "Progress waits for index 1" in page


async def test_a_failed_index_is_what_blocks(site: Site) -> None:
    await put(site)
    await site.add("a", "b", path="/acme/job/block/add")
    await site.intake.flush()
    await lead(site, released=2)
    await end(site, {1: Code.FAILED, 2: Code.OK})
    gap = (await site.get(PATH)).json["gap"]
    assert (gap["index"], gap["state"], gap["code"], gap["since_ms"]) == (1, "archived", "failed", T0)
    async with visitor(site, "acme") as acme:
        assert "Index 1 blocks progress." in (await acme.get("/ui/t/acme/consumers/verify")).text


async def test_an_index_that_is_retried_says_so_with_its_last_error(site: Site) -> None:
    await put(site)
    await site.add("a", path="/acme/job/block/add")
    await site.intake.flush()
    await lead(site, released=1)
    for attempt in range(2):
        (job,) = await site.store.claim_jobs("acme-block", 1, owner=SYSID, lease_ms=30_000, now_ms=T0 + attempt)
        failed = Outcome(Code.ERROR, 500, T0, message="<b>no disk</b>")
        await site.store.release_jobs(SYSID, [Retry(job.id, job.token, T0 + attempt + 1, failed)], now_ms=T0 + attempt)
    async with visitor(site, "acme") as acme:
        page = (await acme.get("/ui/t/acme/consumers/verify")).text
        assert "Index 1 holds up progress: retrying, attempt 3." in page
        assert "ended attempt 2 with error: <bdi>&lt;b&gt;no disk&lt;/b&gt;</bdi>" in page


async def test_stop_start_check_and_delete(site: Site) -> None:
    await put(site)
    assert (await site.post(f"{PATH}/stop")).status == 200
    assert (await site.get(PATH)).json["state"] == "stopped"
    assert (await site.post(f"{PATH}/start")).status == 200
    assert (await site.post(f"{PATH}/check")).json == {"leader": None}
    async with visitor(site, "acme") as acme:
        assert (await acme.post("/ui/t/acme/consumers/verify/stop")).status == 303
        assert "Start" in (await acme.get("/ui/t/acme/consumers/verify")).text
    await site.add("a", path="/acme/job/block/add")
    await site.intake.flush()
    assert (await site.call("DELETE", PATH)).json == {"freed": 1, "more": False}
    for method, path in (("GET", PATH), ("DELETE", PATH), ("POST", f"{PATH}/check"), ("POST", f"{PATH}/stop")):
        assert (await site.call(method, path)).status == 404


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({}, 422, "source"),
        ({"source": "a|b"}, 422, "source"),
        ({"source": "block", "max_processing": 0}, 422, "max_processing"),
        ({"source": "block", "max_search_ahead": 10_001}, 422, "max_search_ahead"),
        ({"source": "block", "start_index": 0}, 422, "start_index"),
        ({"source": "block", "on_failed": "ignore"}, 422, "on_failed"),
        ({"source": "block", "on_progress": "block"}, 422, "on_progress"),
        ({"source": "block", "next": "block"}, 422, "next"),
        ({"source": "block", "pull": "block"}, 422, "pull"),
        ({"source": "block", "max_lag": -1}, 422, "max_lag"),
        ({"source": "block", "window": 5}, 422, "window"),
    ],
)
async def test_values_that_cannot_be_are_refused_by_name(
    site: Site, body: dict[str, object], status: int, field: str
) -> None:
    answer = await site.call("PUT", PATH, json=body)
    assert (answer.status, answer.json["error"]["detail"]["field"]) == (status, field)


async def test_one_consumer_for_a_type_and_a_bound_for_a_tenant(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await put(site)
    assert (await site.call("PUT", "/acme/consumer/second", json={"source": "block"})).status == 409
    assert (await site.call("PUT", PATH, json={"source": "other"})).status == 409
    assert (await site.call("PUT", PATH, json={"source": "block", "start_index": 7})).status == 409
    assert (await site.call("PUT", "/acme/consumer/a%7Cb", json={"source": "x"})).status == 422
    monkeypatch.setattr("functory.operations.consumers.MAX_CONSUMERS", 1)
    assert (await site.call("PUT", "/acme/consumer/second", json={"source": "x"})).status == 429


async def test_consumers_that_are_made_at_the_same_time_keep_to_the_bound(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("functory.operations.consumers.MAX_CONSUMERS", 2)
    list_consumers, of_turns, come, counted = site.store.list_consumers, site.service.count_turns.of, 0, 0

    def of(tenant: str) -> AbstractAsyncContextManager[None]:
        nonlocal come
        come += 1
        return of_turns(tenant)

    async def have_come() -> bool:
        return 3 in {come, counted}

    async def count(*tenants: str) -> list[ConsumerRecord]:
        nonlocal counted
        found = await list_consumers(*tenants)
        counted += 1
        await until(have_come)
        return found

    monkeypatch.setattr(site.service.count_turns, "of", of)
    monkeypatch.setattr(site.store, "list_consumers", count)
    puts = [site.call("PUT", f"/acme/consumer/{name}", json={"source": name}) for name in "abc"]
    assert sorted(answer.status for answer in await asyncio.gather(*puts)) == [200, 200, 429]
    assert len(await list_consumers("acme")) == 2


async def test_health_tells_of_consumers_as_they_were_a_moment_ago_also_without_the_store(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(site)
    looks: list[str] = []
    list_consumers = site.store.list_consumers

    async def look(*tenants: str) -> list[ConsumerRecord]:
        looks.append("look")
        if len(looks) > 1:
            raise StoreUnavailable("it is away")
        return await list_consumers(*tenants)

    async def names() -> list[str]:
        answer = await site.get("/admin/health", key="operator")
        assert answer.status == 200
        return [it["name"] for it in answer.json["consumers"]]

    monkeypatch.setattr(site.store, "list_consumers", look)
    assert await names() == ["verify"]
    assert await names() == ["verify"]
    assert len(looks) == 1
    site.clock.advance(2)
    assert await names() == ["verify"]
    assert len(looks) == 2


async def test_a_deletion_that_a_daemon_has_finished_by_itself_is_done(
    site: Site, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(site)
    await site.add(*"ab", path="/acme/job/block/add")
    await site.intake.flush()
    end_consumer = site.store.end_consumer

    async def end_slowly(tenant: str, name: str, *, now_ms: int, only_ending: bool = False) -> EndReport:
        assert not only_ending
        monkeypatch.setattr(site.store, "end_consumer", end_consumer)
        report = await end_consumer(tenant, name, now_ms=now_ms, limit=1)
        assert not (await end_consumer(tenant, name, now_ms=now_ms, only_ending=True)).more
        return report

    monkeypatch.setattr(site.store, "end_consumer", end_slowly)
    monkeypatch.setattr(consumers, "_STEPS_PER_CALL", 1)
    await terminal.run("consumer", "rm", "verify")
    assert "verify" in await terminal.run("consumer", "rm", "verify", status=4)


async def test_a_deletion_leaves_the_next_consumer_of_the_name_alone(
    site: Site, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(site)
    await site.add(*"ab", path="/acme/job/block/add")
    await site.intake.flush()
    end_consumer = site.store.end_consumer

    async def end_slowly(tenant: str, name: str, *, now_ms: int, only_ending: bool = False) -> EndReport:
        monkeypatch.setattr(site.store, "end_consumer", end_consumer)
        report = await end_consumer(tenant, name, now_ms=now_ms, limit=1, only_ending=only_ending)
        await end_consumer(tenant, name, now_ms=now_ms, only_ending=True)  # a daemon does the rest by itself
        await put(site)
        return report

    monkeypatch.setattr(site.store, "end_consumer", end_slowly)
    monkeypatch.setattr(consumers, "_STEPS_PER_CALL", 1)
    await terminal.run("consumer", "rm", "verify")
    assert (await site.get(PATH)).status == 200
    answer = await site.call("DELETE", f"{PATH}?only_deleting=true")
    assert (answer.status, answer.json) == (200, {"freed": 0, "more": False})
    assert (await site.get(PATH)).status == 200


async def test_a_deletion_that_the_store_interrupts_is_in_the_audit_log(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(site)
    await site.add(*"ab", path="/acme/job/block/add")
    await site.intake.flush()
    end_consumer = site.store.end_consumer

    async def end_once(tenant: str, name: str, *, now_ms: int, only_ending: bool = False) -> EndReport:
        if only_ending:
            raise StoreUnavailable("away")
        return await end_consumer(tenant, name, now_ms=now_ms, limit=1)

    monkeypatch.setattr(site.store, "end_consumer", end_once)
    assert (await site.call("DELETE", PATH)).status == 503
    page = await site.store.list_audit(tenant="acme")
    assert "consumer.delete" in [event.action for event in page.events]
