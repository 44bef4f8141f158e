"""What may come between two looks: a job that ends, the same request again, a key that ends."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from aiohttp import ServerDisconnectedError

from functory.client import Client
from functory.errors import ClientError, Unauthorized
from functory.execution.waiters import Waiters
from functory.operations.jobs import wait_for_job
from functory.operations.keyring import KeyRing
from functory.operations.keys import create_key, revoke_key
from store.base import ApiKey, Archive, Code, Job, JobRecord, JobState, Outcome
from store.errors import StoreClosed, StoreUnavailable
from tests.support.pages import visitor
from tests.support.service import until
from tests.support.web import SYSID, Site

PATIENCE_S = 20.0


async def second_key(site: Site) -> None:
    key, site.keys["second"] = await create_key(site.service, "test", "acme", expires_s=60)
    site.keys["second id"] = key.key_id


async def revoke(site: Site) -> None:
    await revoke_key(site.service, "test", "acme", site.keys["second id"])


async def revoke_elsewhere(site: Site) -> None:
    """On a daemon that cannot tell this one: it is known when the key has not been asked for in a while."""
    await site.store.delete_key("acme", site.keys["second id"])
    site.clock.advance(5)


async def expire(site: Site) -> None:
    site.clock.advance(60)


EndKey = Callable[[Site], Awaitable[None]]
every_end = pytest.mark.parametrize("end_key", [revoke, revoke_elsewhere, expire])


async def test_an_end_right_after_the_look_is_heard(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    waiters = Waiters(look_again_s=1000.0)  # it is told, or not at all
    service = replace(site.service, waiters=waiters)
    (job_id,) = await site.add("x")
    await site.intake.flush()
    (job,) = await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=30_000, now_ms=site.clock.now_ms())
    real = site.store.get_job

    async def look_and_then_it_ends(*args: Any, **more: Any) -> JobRecord | None:
        record = await real(*args, **more)
        monkeypatch.setattr(site.store, "get_job", real)
        await end(site, waiters, job)
        return record

    monkeypatch.setattr(site.store, "get_job", look_and_then_it_ends)
    async with asyncio.timeout(PATIENCE_S):
        found = await wait_for_job(service, "acme", job_id, 900.0)
    assert isinstance(found, JobRecord)
    assert found.state == JobState.ARCHIVED


async def end(site: Site, waiters: Waiters, job: Job) -> None:
    ended = Archive(job.id, job.token, Outcome(Code.OK, 200, 0))
    await site.store.release_jobs(SYSID, [ended], now_ms=site.clock.now_ms())
    waiters.released([(job, ended, ())])


async def test_a_repeated_child_is_one_child_of_its_parent(site: Site) -> None:
    (parent,) = await site.add("p")
    await site.intake.flush()
    await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=30_000, now_ms=site.clock.now_ms())
    path = f"/acme/job/child/add?idempotency_key=k&parent={parent}"
    (child,) = await site.add("c", path=path)
    assert await site.add("c", path=path) == [child]
    record = await site.store.get_job("acme", parent, now_ms=site.clock.now_ms())
    assert record is not None
    assert (record.children, record.pending_children) == (1, 1)
    assert (await site.get(f"/acme/job/{child}")).json["parent"] == parent


@pytest.mark.parametrize("path", ["/acme/job/thumb/add?idempotency_key=k", "/acme/jobs"])
async def test_a_request_that_is_refused_leaves_its_key_free(site: Site, path: str) -> None:
    def body(**more: str) -> Any:
        jobs = [{"payload": "x"}, {"payload": "y", **more}]
        named = [{"type": "thumb", **job} for job in jobs]
        return jobs if "?" in path else {"jobs": named, "idempotency_key": "k"}

    refused = await site.post(path, json=body(parent="20270115T080000000Z-a7-0000ff"))
    assert refused.status == 404
    added = await site.post(path, json=body())
    assert (added.status, added.json["count"]) == (200, 2), added.json
    assert (await site.post(path, json=body())).json == added.json, "it is bound now"
    assert (await site.store.get_usage("acme")).jobs == 2
    other = await site.post(path, json=body(parent=added.json["ids"][0]))
    assert (other.status, other.code) == (422, "idempotency_mismatch")


async def test_a_session_ends_with_its_key(site: Site) -> None:
    _, site.keys["short"] = await create_key(site.service, "test", "acme", expires_s=60)
    async with visitor(site, "short") as short:
        assert (await short.get("/ui/t/acme")).status == 200
        site.clock.advance(61)
        assert (await short.get("/ui/t/acme")).status == 303, "to the sign-in"


@pytest.mark.parametrize("query", ["?wait_s=30", "?wait_s=30&ids=yes"])  # on the short way and on the ordinary one
@every_end
async def test_who_adds_and_waits_gets_ids_and_no_result_after_its_key_has_ended(
    site: Site, query: str, end_key: EndKey
) -> None:
    await second_key(site)
    await site.add("the key is verified", key="second")
    await site.run()
    posting = asyncio.ensure_future(site.post(f"/acme/job/thumb/add{query}", data=b"x", key="second"))
    await site.waiters.waiting.wait()
    await end_key(site)
    (job_id,) = await until(partial(site.run, result=b"a secret"))
    site.waiters.tell(job_id)
    answer = await posting
    assert (answer.status, answer.json) == (200, {"count": 1, "ids": [job_id]}), "it was accepted"


@every_end
async def test_who_waits_for_a_job_gets_no_result_after_its_key_has_ended(site: Site, end_key: EndKey) -> None:
    await second_key(site)
    (job_id,) = await site.add("x")
    waiting = asyncio.ensure_future(site.get(f"/acme/job/{job_id}?wait_s=30", key="second"))
    await site.waiters.waiting.wait()
    await end_key(site)
    await site.run(result=b"a secret")
    site.waiters.tell(job_id)
    answer = await waiting
    assert (answer.status, b"a secret" in answer.body) == (401, False)


@every_end
async def test_a_worker_that_waits_gets_no_jobs_after_its_key_has_ended(site: Site, end_key: EndKey) -> None:
    await second_key(site)
    await site.call("PUT", "/acme/handler/thumb", json={"lang": "worker"})
    body = {"types": ["thumb"], "wait_s": 30}
    taking = asyncio.ensure_future(site.post("/acme/work/take", json=body, key="second"))
    await until(partial(has_takers, site))
    await end_key(site)
    await site.add("a secret")
    await site.intake.flush()
    site.workers.wake()
    answer = await taking
    assert (answer.status, b"a secret" in answer.body) == (401, False)
    again = await site.post("/acme/work/take", json=body)
    assert [job["payload"] for job in again.json["jobs"]] == ["a secret"], "it was given back"
    assert again.json["jobs"][0]["attempts"] == 1


@pytest.mark.parametrize("error", [StoreClosed("closed"), asyncio.CancelledError()], ids=["store", "stop"])
@pytest.mark.parametrize("way", ["take", "report"])
async def test_jobs_whose_taker_cannot_be_confirmed_are_given_back(
    site: Site, monkeypatch: pytest.MonkeyPatch, way: str, error: BaseException
) -> None:
    await second_key(site)
    await site.call("PUT", "/acme/handler/thumb", json={"lang": "worker"})
    order: dict[str, Any] = {"types": ["thumb"], "wait_s": 30}
    body = order if way == "take" else {"reports": [], "take": order}
    taking = asyncio.ensure_future(site.post(f"/acme/work/{way}", json=body, key="second"))
    await until(partial(has_takers, site))
    site.clock.advance(5)
    await site.add("x")
    await site.intake.flush()
    real = site.store.get_key

    async def fail(_: str) -> None:
        monkeypatch.setattr(site.store, "get_key", real)
        raise error

    monkeypatch.setattr(site.store, "get_key", fail)
    site.workers.wake()
    with suppress(ServerDisconnectedError):
        assert (await taking).status >= 500
    again = await site.post("/acme/work/take", json=order)
    assert [(job["payload"], job["attempts"]) for job in again.json["jobs"]] == [("x", 1)]


@pytest.mark.parametrize(("waited_s", "status"), [(59, 200), (60, 401)])
async def test_with_the_store_away_a_key_is_good_for_who_waits_until_it_expires(
    site: Site, monkeypatch: pytest.MonkeyPatch, waited_s: int, status: int
) -> None:
    await second_key(site)
    (job_id,) = await site.add("x")
    waiting = asyncio.ensure_future(site.get(f"/acme/job/{job_id}?wait_s=30", key="second"))
    await site.waiters.waiting.wait()
    await site.run()
    monkeypatch.setattr(site.store, "get_key", away)
    site.service.verified_keys.forget()
    site.clock.advance(waited_s)
    site.waiters.tell(job_id)
    assert (await waiting).status == status


async def away(*_: object) -> None:
    raise StoreUnavailable("no answer")


def keys_asked_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Ids of the keys for which the store is asked from now on."""
    asked: list[str] = []
    real = site.store.get_key

    async def ask(key_id: str) -> ApiKey | None:
        asked.append(key_id)
        return await real(key_id)

    monkeypatch.setattr(site.store, "get_key", ask)
    return asked


async def test_who_waits_often_asks_the_store_for_its_key_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    await second_key(site)
    (job_id,) = await site.add("x")
    await site.run()
    asked = keys_asked_for(site, monkeypatch)
    for _ in range(3):
        assert (await site.get(f"/acme/job/{job_id}?wait_s=30", key="second")).status == 200
    assert asked == [site.keys["second id"]]


async def test_many_who_wait_with_one_key_ask_the_store_for_it_once(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await second_key(site)
    await site.call("PUT", "/acme/handler/thumb", json={"lang": "worker"})
    body = {"types": ["thumb"], "wait_s": 30}
    takings = [asyncio.ensure_future(site.post("/acme/work/take", json=body, key="second")) for _ in range(40)]
    await until(partial(has_takers, site, 40))
    site.clock.advance(6)
    await site.add(*(f"x{number}" for number in range(40)))
    await site.intake.flush()
    asked = keys_asked_for(site, monkeypatch)
    site.workers.wake()
    answers = await asyncio.gather(*takings)
    assert sum(len(answer.json["jobs"]) for answer in answers) == 40
    assert asked == [site.keys["second id"]]


async def test_who_waits_until_after_a_revocation_does_not_share_a_look_of_before(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await second_key(site)
    real, looking, go_on = site.store.get_key, asyncio.Event(), asyncio.Event()

    async def read_and_stay(key_id: str) -> ApiKey | None:
        found = await real(key_id)
        monkeypatch.setattr(site.store, "get_key", real)
        looking.set()
        await go_on.wait()
        return found

    keys = KeyRing(site.service)
    who = await keys.admit(site.keys["second"])
    site.clock.advance(5)
    monkeypatch.setattr(site.store, "get_key", read_and_stay)
    before = asyncio.ensure_future(keys.confirm(who))
    await looking.wait()
    await revoke(site)
    after = asyncio.ensure_future(keys.confirm(who))
    go_on.set()
    await before
    with pytest.raises(Unauthorized):
        await after


async def test_a_key_that_is_revoked_while_it_is_verified_is_not_kept(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    await second_key(site)
    real = site.store.get_key

    async def read_and_then_it_is_revoked(key_id: str) -> ApiKey | None:
        found = await real(key_id)
        monkeypatch.setattr(site.store, "get_key", real)
        await revoke(site)
        return found

    monkeypatch.setattr(site.store, "get_key", read_and_then_it_is_revoked)
    assert (await site.get("/acme/results", key="second")).status == 200, "it was asked for before"
    assert (await site.get("/acme/results", key="second")).status == 401


async def test_a_log_is_not_followed_after_the_key_was_revoked(site: Site) -> None:
    await second_key(site)
    (job_id,) = await site.add("x")
    await site.intake.flush()
    await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=30_000, now_ms=site.clock.now_ms())
    site.control.glimpses["acme", job_id] = (b"one\n", b"")
    async with Client(site.url, site.keys["second"], "acme") as client:
        parts = client.follow_log(job_id)
        assert await anext(parts) == "one\n"
        await revoke(site)
        site.control.glimpses["acme", job_id] = (b"one\na secret\n", b"")
        async with asyncio.timeout(PATIENCE_S):
            with suppress(ClientError):
                assert [part async for part in parts] == []


async def has_takers(site: Site, count: int = 1) -> bool:
    return site.workers.gauges()["workers_waiting"] >= count
