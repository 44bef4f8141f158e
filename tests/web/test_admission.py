"""One place decides what may come in: the same limits and quotas, whichever way a job comes."""

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from functory.operations.service import OperationSettings
from functory.operations.tenants import update_tenant
from functory.tenant_limits import TenantLimits
from store.base import Code, CreateReport, Creation, JobState
from tests.support.half_bound import crash_after_the_key
from tests.support.service import until
from tests.support.web import Answer, Site, open_site

MIB = 1 << 20
JSON = {"Content-Type": "application/json"}


async def limit(site: Site, **limits: Any) -> None:
    await update_tenant(site.service, "test", "acme", limits=TenantLimits(**limits))


def jobs(count: int, field: str = "", value: str = "") -> dict[str, Any]:
    """A request with jobs in JSON, each with a value of its own in that field."""
    found = [{"payload": "x"} | ({field: f"{value}{number}"} if field else {}) for number in range(count)]
    return {"data": json.dumps(found).encode(), "headers": JSON}


WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "lines": ("", {"data": b"x\n" * 11}),
    "lines with a key": ("?idempotency_key=k", {"data": b"x\n" * 11}),
    "json": ("", jobs(11)),
    "json with a key": ("?idempotency_key=k", jobs(11)),
    "json with options": (
        "",
        {"data": json.dumps([{"payload": "x", "delay_s": n} for n in range(11)]).encode(), "headers": JSON},
    ),
    "unique": (
        "",
        {"data": json.dumps([{"payload": "x", "unique": f"u{n}"} for n in range(11)]).encode(), "headers": JSON},
    ),
}


async def stored(site: Site) -> int:
    await site.intake.flush()
    return (await site.store.get_usage("acme")).jobs


async def test_jobs_that_are_refused_for_their_types_make_no_room(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await limit(site, max_jobs=10, max_types=1)
    get_counters = site.store.get_counters

    async def count_late(*given: Any, **named: Any) -> Any:
        found = await get_counters(*given, **named)
        site.clock.advance(2)  # what was counted before is too old by now
        return found

    monkeypatch.setattr(site.store, "get_counters", count_late)
    several = [{"type": f"t{number % 2}", "payload": "x"} for number in range(10)]
    assert (await site.post("/acme/jobs", json={"jobs": several})).code == "quota_exceeded"
    assert (await site.post("/acme/job/t0/add", data=b"x\n" * 11)).code == "quota_exceeded"
    assert (await site.post("/acme/job/t0/add", data=b"x\n" * 10)).status == 200


@pytest.mark.parametrize("how", ["replay", "retry"])
async def test_jobs_that_run_again_keep_to_max_types(site: Site, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functory.intake.admission._TYPES_LIFE_MS", 0)
    await limit(site, max_types=2)
    ids: list[str] = []
    for name in ("a", "b", "c"):
        ids += await site.add("x", path=f"/acme/job/{name}/add")
        await site.run(1, Code.FAILED, jobtype=f"acme-{name}")
    if how == "replay":
        answers = [await site.post("/acme/replay", json={"type": pattern}) for pattern in ("*", "a", "[ab]", "c")]
        assert [answer.status for answer in answers] == [429, 200, 200, 429]
    else:
        answers = [await site.post(f"/acme/job/{job_id}/retry", json={}) for job_id in ids]
        assert [answer.status for answer in answers] == [200, 200, 429]
    assert answers[-1].json["error"]["detail"]["quota"] == "max_types"
    states = await site.store.get_states("acme", ids, now_ms=site.clock.now_ms())
    assert [states[job_id] for job_id in ids] == [JobState.WAITING, JobState.WAITING, JobState.ARCHIVED]


@pytest.mark.parametrize("way", WAYS)
async def test_no_way_in_passes_a_quota(site: Site, way: str) -> None:
    """Also not the second time: a key that was refused is not bound to anything."""
    await limit(site, max_jobs=10)
    query, request = WAYS[way]
    for _ in range(3):
        answer = await site.post(f"/acme/job/thumb/add{query}", **request)
        assert (answer.status, answer.code) == (429, "quota_exceeded")
    assert await stored(site) == 0
    await limit(site, max_jobs=11)
    assert (await site.post(f"/acme/job/thumb/add{query}", **request)).status == 200
    assert await stored(site) == 11


async def test_a_key_that_was_refused_is_free_for_another_request(site: Site) -> None:
    await limit(site, max_jobs=1)
    path = "/acme/job/thumb/add?idempotency_key=k"
    assert (await site.post(path, data=b"a\nb")).status == 429
    assert (await site.post(path, data=b"a")).status == 200


async def test_a_request_that_was_taken_can_be_repeated_at_the_quota(site: Site) -> None:
    await limit(site, max_jobs=2)
    path = "/acme/job/thumb/add?idempotency_key=k"
    first = await site.post(path, data=b"a\nb")
    again = await site.post(path, data=b"a\nb")
    assert (first.status, again.status) == (200, 200)
    assert first.json == again.json
    assert await stored(site) == 2


async def test_jobs_of_a_repeated_request_that_are_not_there_are_new_ones(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon ended between the key and the jobs, and the quota was used up meanwhile."""
    await limit(site, max_jobs=2)
    path = "/acme/job/thumb/add?idempotency_key=k"
    with monkeypatch.context() as patch:
        patch.setattr(site.store, "add_jobs_once", crash_after_the_key(site.store))
        assert (await site.post(path, data=b"a\nb")).status == 500
    site.clock.advance(2)
    await site.add("c")
    await site.intake.flush()
    site.clock.advance(2)
    assert (await site.post(path, data=b"a\nb")).status == 429
    assert await stored(site) == 1


BIG = "x" * (MIB + 1)
LIMITS: dict[str, tuple[str, dict[str, Any]]] = {
    "line": ("", {"data": BIG.encode()}),
    "line with a key": ("?idempotency_key=k", {"data": BIG.encode()}),
    "unique line": ("?unique=u", {"data": BIG.encode()}),
    "json": ("", {"data": json.dumps({"payload": BIG}).encode(), "headers": JSON}),
    "json with a key": ("?idempotency_key=k", {"data": json.dumps({"payload": BIG}).encode(), "headers": JSON}),
    "unique": ("", {"data": json.dumps({"payload": BIG, "unique": "u"}).encode(), "headers": JSON}),
    "value": ("?idempotency_key=k", {"data": json.dumps({"payload": [BIG]}).encode(), "headers": JSON}),
}


@pytest.mark.parametrize("way", LIMITS)
async def test_no_way_in_passes_the_limit_of_a_payload(site: Site, way: str) -> None:
    query, request = LIMITS[way]
    answer = await site.post(f"/acme/job/thumb/add{query}", **request)
    assert (answer.status, answer.json["error"]["detail"]) == (413, {"limit": "max_payload_bytes"})
    assert await stored(site) == 0


LINES = b"x\n" * 100_001
MANY: dict[str, tuple[str, dict[str, Any]]] = {
    "lines": ("", {"data": LINES}),
    "lines with a key": ("?idempotency_key=k", {"data": LINES}),
    "unique lines": ("?unique=u", {"data": LINES}),
    "json": ("", jobs(100_001)),
    "ndjson": ("", {"data": b'{"payload":"x"}\n' * 100_001, "headers": {"Content-Type": "application/x-ndjson"}}),
}


@pytest.mark.parametrize("way", MANY)
async def test_no_way_in_passes_the_limit_of_jobs(site: Site, way: str) -> None:
    query, request = MANY[way]
    answer = await site.post(f"/acme/job/thumb/add{query}", **request)
    assert (answer.status, answer.json["error"]["detail"]) == (413, {"limit": "max_batch_lines"})


async def test_versions_of_handlers_count(site: Site) -> None:
    await limit(site, max_bytes=10_000)

    async def put(body: bytes, type_name: str = "thumb") -> int:
        return (await site.call("PUT", f"/acme/handler/{type_name}?lang=sh", data=body)).status

    assert await put(b"# %b" % (b"a" * 3000)) == 200
    assert await put(b"# %b" % (b"a" * 3000)) == 200, "the same again is no new version"
    assert await put(b"# %b" % (b"b" * 3000)) == 200
    assert (await site.call("DELETE", "/acme/handler/thumb")).status == 200
    assert await put(b"# %b" % (b"c" * 4000), "other") == 429
    answer = await site.post("/acme/job/thumb/add", data=b"x" * 5000)
    assert (answer.status, answer.code) == (429, "quota_exceeded")


async def test_going_back_and_forth_keeps_as_many_versions_as_ever(site: Site) -> None:
    for body in (b"true", b"false"):
        assert (await site.call("PUT", "/acme/handler/thumb?lang=sh", data=body)).status == 200
    version = 1
    for _ in range(60):
        answer = await site.post("/acme/handler/thumb/rollback", json={"version": version})
        assert answer.status == 200
        version = answer.json["version"] - 1
    assert len((await site.get("/acme/handler/thumb/versions")).json["handlers"]) == 50


async def test_jobs_that_change_the_store_one_by_one_are_few_in_a_request(tmp_path: Path) -> None:
    async with open_site(tmp_path, operations=OperationSettings(max_created=3)) as site:

        async def add(count: int) -> Answer:
            return await site.post("/acme/job/thumb/add", **jobs(count, "unique", "u"))

        assert (await add(3)).status == 200
        answer = await add(4)
        assert (answer.status, answer.json["error"]["detail"]) == (413, {"limit": "max_created"})


async def test_paused_types_keep_to_max_types_and_only_changes_are_audited(site: Site) -> None:
    await limit(site, max_types=2)
    statuses = [(await site.post(f"/acme/type/t{n}/pause")).status for n in (1, 2, 3, 1, 2)]
    assert statuses == [200, 200, 429, 200, 200]
    assert (await site.post("/acme/job/t3/add", data=b"x")).status == 429
    assert (await site.post("/acme/job/t1/add", data=b"x")).status == 200
    assert (await site.post("/admin/tenants/acme/types/t3/pause", key="operator")).status == 200
    for _ in range(2):
        assert (await site.post("/acme/type/t2/resume")).status == 200
        assert (await site.call("PUT", "/acme/rate/api", json={"rate_per_s": 1, "burst": 1})).status == 200
    assert [row["domain"] for row in (await site.get("/acme/rate")).json["domains"]] == ["api"]
    events = (await site.get("/admin/audit?tenant=acme", key="operator")).json["events"]
    kinds = Counter(event["action"] for event in events)
    assert (kinds["type.pause"], kinds["type.resume"], kinds["rate.set"]) == (3, 1, 1)


@pytest.mark.parametrize("way", ["together", "together with a key", "unique", "children with a key"])
async def test_jobs_count_while_they_wait_for_their_turn_to_be_created(
    site: Site, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, store_jobs = asyncio.Event(), site.store.create_jobs

    async def held(creations: Sequence[Creation], *, now_ms: int) -> list[CreateReport]:
        await let_go.wait()
        return await store_jobs(creations, now_ms=now_ms)

    async def all_wait() -> bool:
        own = site.service.create_turns._tenants.get("acme")
        return own is not None and own.users == 3

    (parent,) = await site.add("x")
    await site.intake.flush()
    await site.store.claim_jobs("acme-thumb", 1, owner="a7", lease_ms=60_000, now_ms=site.clock.now_ms())

    async def ask(number: int) -> Answer:
        if way.startswith("together"):
            key = {"idempotency_key": f"k{number}"} if "key" in way else {}
            return await site.post("/acme/jobs", json={"jobs": [{"type": "thumb", "payload": "x"}] * 21, **key})
        if way == "unique":
            return await site.post("/acme/job/thumb/add", **jobs(21, "unique", f"u{number}-"))
        query = f"?idempotency_key=k{number}&parent={parent}"
        return await site.post(f"/acme/job/thumb/add{query}", data=b"x\n" * 21)

    await limit(site, max_jobs=70)
    monkeypatch.setattr(site.store, "create_jobs", held)
    asked = [asyncio.ensure_future(ask(number)) for number in range(3)]
    await until(all_wait)
    for _ in range(2):
        site.clock.advance(2)
        answer = await site.post("/acme/job/thumb/add", data=b"x\n" * 10)
        assert (answer.status, answer.json["error"]["detail"].get("wanted")) == (429, 1 + 3 * 21 + 10)
    let_go.set()
    assert {(await one).status for one in asked} == {200}
    site.clock.advance(2)
    await site.add(*"xxxxxx")
    assert await stored(site) == 1 + 3 * 21 + 6
