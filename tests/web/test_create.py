"""Jobs of several types in one request: all of them, or none."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from functory.client import Client
from functory.operations.service import OperationSettings
from functory.operations.tenants import update_tenant
from functory.tenant_limits import TenantLimits
from functory.web.app import WEB
from functory.web.http import endpoint
from functory.web.http.body import read_body
from functory.web.http.settings import WebSettings
from store.base import CreateReport, Creation, JobState
from tests.support.service import until
from tests.support.web import T0, Answer, Site, open_site

JOBS = "/acme/jobs"


async def create(site: Site, *jobs: dict[str, Any], **more: Any) -> Answer:
    body = json.dumps({"jobs": list(jobs), **more}).encode()
    return await site.post(JOBS, data=body, headers={"Content-Type": "application/json"})


async def stored(site: Site) -> int:
    await site.intake.flush()
    return (await site.store.get_usage("acme")).jobs


async def test_jobs_of_several_types_have_their_own_options(site: Site) -> None:
    answer = await create(
        site,
        {"type": "mail", "payload": {"to": "bob"}},
        {"type": "audit", "payload": "sent", "delay_s": 60, "priority": 1000},
        {"type": "mail", "payload_base64": "AP8="},
    )
    assert (answer.status, answer.json["count"]) == (200, 3)
    mail, audit, raw = [await site.store.get_job("acme", one, now_ms=T0) for one in answer.json["ids"]]
    assert mail is not None
    assert audit is not None
    assert raw is not None
    assert (mail.job.jobtype, mail.job.data) == ("acme-mail", b'{"to":"bob"}')
    assert (audit.job.jobtype, audit.job.priority, audit.state) == ("acme-audit", 1000, JobState.DEFERRED)
    assert raw.job.data == b"\x00\xff"
    assert site.control.wakes == 1


@pytest.mark.parametrize(
    ("wrong", "status", "field"),
    [
        ({"type": "a|b", "payload": "x"}, 422, "jobs[1].type"),
        ({"payload": "x"}, 422, "jobs[1].type"),
        ({"type": "mail"}, 422, "jobs[1].payload"),
        ({"type": "mail", "payload": "x", "colour": "red"}, 422, "jobs[1].colour"),
        ({"type": "mail", "payload": "x", "repeat": "never"}, 422, "jobs[1].repeat"),
        ({"type": "mail", "payload": "x" * ((1 << 20) + 1)}, 413, None),
        ({"type": "mail", "payload": "x", "parent": "20270115T080000000Z-a7-ffffff"}, 404, None),
        ({"type": "mail", "payload": "x", "unique": "busy"}, 409, None),
    ],
)
async def test_one_that_is_wrong_keeps_all_from_being_created(
    site: Site, wrong: dict[str, Any], status: int, field: str | None
) -> None:
    await create(site, {"type": "mail", "payload": "running", "unique": "busy"})
    await site.store.claim_jobs("acme-mail", 1, owner="a7", lease_ms=1000, now_ms=T0)
    answer = await create(site, {"type": "audit", "payload": "first"}, wrong)
    assert answer.status == status
    assert answer.json["error"]["detail"].get("field") == field
    assert await stored(site) == 1


async def test_the_quota_is_that_of_all_of_them(site: Site) -> None:
    await update_tenant(site.service, "test", "acme", limits=TenantLimits(max_jobs=1))
    for more in ({}, {"idempotency_key": "k"}):
        answer = await create(site, {"type": "mail", "payload": "x"}, {"type": "audit", "payload": "x"}, **more)
        assert (answer.status, answer.code) == (429, "quota_exceeded")
    assert await stored(site) == 0
    await update_tenant(site.service, "test", "acme", limits=TenantLimits(max_jobs=10, max_types=1))
    answer = await create(site, {"type": "mail", "payload": "x"}, {"type": "audit", "payload": "x"})
    assert (answer.status, answer.json["error"]["detail"]["quota"]) == (429, "max_types")
    assert await stored(site) == 0


async def test_unique_names_and_parents_are_those_of_each_job(site: Site) -> None:
    first = await create(site, {"type": "mail", "payload": "old", "unique": "daily"})
    second = await create(
        site, {"type": "audit", "payload": "x"}, {"type": "mail", "payload": "new", "unique": "daily"}
    )
    assert second.json["ids"][1] == first.json["ids"][0]
    found = await site.store.get_job("acme", first.json["ids"][0], now_ms=T0)
    assert found is not None
    assert found.job.data == b"new"
    (parent,) = await site.store.claim_jobs("acme-audit", 1, owner="a7", lease_ms=1000, now_ms=T0)
    child = await create(site, {"type": "piece", "payload": "x", "parent": parent.id})
    found = await site.store.get_job("acme", child.json["ids"][0], now_ms=T0)
    assert found is not None
    assert (found.job.parent, found.state) == (parent.id, JobState.PAUSED)


async def test_a_repeated_request_with_a_key_creates_nothing_twice(site: Site) -> None:
    jobs = ({"type": "mail", "payload": "x"}, {"type": "audit", "payload": "y"})
    first = await create(site, *jobs, idempotency_key="k")
    again = await create(site, *jobs, idempotency_key="k")
    assert again.json == first.json
    assert await stored(site) == 2
    other = await create(site, jobs[0], idempotency_key="k")
    assert (other.status, other.code) == (422, "idempotency_mismatch")
    named = await create(site, {"type": "mail", "payload": "x", "unique": "u"}, idempotency_key="other")
    assert (named.status, named.json["error"]["detail"]["field"]) == (422, "idempotency_key")


async def test_there_is_a_most(tmp_path: Path) -> None:
    async with open_site(tmp_path, operations=OperationSettings(max_created=2)) as site:
        answer = await create(site, *({"type": f"t{n}", "payload": "x"} for n in range(3)))
        assert answer.status == 413
        assert (await create(site)).status == 422
        assert await stored(site) == 0


@pytest.mark.parametrize("number", [1001, 10_001])
async def test_too_many_are_told_the_same_however_many_there_are(site: Site, number: int) -> None:
    answer = await create(site, *[{"type": "t", "payload": "x" * 100}] * number)
    assert (answer.status, answer.json["error"]["detail"]) == (413, {"limit": "max_created"})
    assert f"created together is {number}, over the limit max_created=1000" in answer.json["error"]["message"]


async def test_all_of_them_may_have_long_options(site: Site) -> None:
    options = {"note": "y" * 900, "big": 10**29}
    answer = await create(
        site, *({"type": "mail", "payload": "x", "options": {**options, "n": n}} for n in range(1000))
    )
    assert (answer.status, answer.json["count"]) == (200, 1000)
    found = await site.get(f"/acme/job/{answer.json['ids'][7]}")
    assert found.json["options"] == {**options, "n": 7}


async def test_the_client_creates_them_too(site: Site) -> None:
    async with Client(site.url, site.keys["acme"], "acme") as client:
        added = await client.create_jobs([{"type": "mail", "payload": "x"}, {"type": "audit", "payload": 1}])
        assert [(await client.get_job(one)).type for one in added.ids or ()] == ["mail", "audit"]


def many(count: int) -> list[dict[str, Any]]:
    return [{"type": "mail", "payload": "x"}] * count


async def test_a_tenant_has_only_a_few_long_creates_before_those_of_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, under_way, store_jobs = asyncio.Event(), list[str](), site.store.create_jobs

    async def held(creations: Sequence[Creation], *, now_ms: int) -> list[CreateReport]:
        under_way.append(creations[0].job.jobtype)
        await let_go.wait()
        return await store_jobs(creations, now_ms=now_ms)

    async def all_wait() -> bool:
        return site.service.create_turns._tenants["acme"].users == 5

    async def is_there(what: str) -> bool:
        return what in under_way

    monkeypatch.setattr(site.store, "create_jobs", held)
    asked = [asyncio.ensure_future(create(site, *many(21))) for _ in range(5)]
    await until(lambda: is_there("acme-mail"))
    await until(all_wait)
    other = {"json": {"jobs": [{"type": "post", "payload": "x"}] * 21}, "key": "other"}
    asked.append(asyncio.ensure_future(site.post("/other/jobs", **other)))
    few = asyncio.ensure_future(create(site, {"type": "few", "payload": "x"}))
    await until(lambda: is_there("other-post"))
    await until(lambda: is_there("acme-few"))
    assert sorted(under_way) == ["acme-few", "acme-mail", "acme-mail", "other-post"]
    let_go.set()
    assert {answer.status for answer in await asyncio.gather(few, *asked)} == {200}
    assert await stored(site) == 5 * 21 + 1


@pytest.mark.parametrize(
    ("path", "body", "count"),
    [
        (JOBS, json.dumps({"jobs": many(1000)}), 1000),
        (JOBS, json.dumps({"jobs": many(21)}), 21),
        (JOBS, json.dumps({"jobs": [{**many(1)[0], "options": {"o": [[]] * 500}}] * 9}), 9),
        (JOBS, json.dumps({"jobs": [{"type": "mail", "payload": "x" * 150_000}]}), 1),
        ("/acme/job/mail/add", json.dumps([{"payload": "x", "unique": f"u{n}"} for n in range(1000)]), 1000),
        ("/acme/job/mail/add", json.dumps([{"payload": "x", "unique": f"u{n}"} for n in range(21)]), 21),
    ],
    ids=["many", "some", "long options", "a long payload", "many with names", "some with names"],
)
async def test_jobs_that_take_memory_wait_for_room_and_are_not_created_for_a_client_that_has_gone(
    site: Site, path: str, body: str, count: int
) -> None:
    room = site.listener._app[WEB].job_room

    async def waits() -> bool:
        return bool(room._waiting)

    async def nobody_waits() -> bool:
        return not room._waiting and not room._taken

    async with room.of("acme", 24 << 20):
        writer = await site.send(f"POST {path} HTTP/1.1\r\nContent-Type: application/json", body)
        await until(waits)
        await site.leave(writer)
    await until(nobody_waits)
    assert await stored(site) == 0
    assert (await site.post(path, data=body.encode(), headers={"Content-Type": "application/json"})).status == 200
    assert await stored(site) == count


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (JOBS, json.dumps({"jobs": many(10)})),
        (JOBS, json.dumps({"jobs": many(10), "idempotency_key": "k"})),
        ("/acme/job/mail/add", json.dumps([{"payload": "x"}] * 10)),
        ("/acme/job/mail/add", json.dumps([{"payload": "x", "unique": f"u{n}"} for n in range(10)])),
        ("/acme/job/mail/add?idempotency_key=k", json.dumps([{"payload": "x"}] * 10)),
    ],
)
async def test_jobs_that_need_no_room_are_created_for_a_client_that_did_not_wait_for_the_answer(
    site: Site, path: str, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, has_left = asyncio.Event(), asyncio.Event()

    async def held(request: web.Request, settings: WebSettings) -> bytes:
        text = await read_body(request, settings)
        read.set()
        await has_left.wait()
        return text

    async def are_there() -> bool:
        return await stored(site) == 10

    monkeypatch.setattr(endpoint, "read_body", held)
    writer = await site.send(f"POST {path} HTTP/1.1\r\nContent-Type: application/json", body)
    await read.wait()
    await site.leave(writer)
    has_left.set()
    await until(are_there)
