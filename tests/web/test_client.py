"""The client against a running service: the same verbs, the same values, errors as one exception."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from functory.client import Client, ServiceError
from store.base import Code
from tests.support.web import Site


@pytest.fixture
async def client(site: Site) -> AsyncIterator[Client]:
    async with Client(site.url, site.keys["acme"], "acme") as found:
        yield found


@pytest.fixture
async def operator(site: Site) -> AsyncIterator[Client]:
    async with Client(site.url, site.keys["operator"]) as found:
        yield found


async def test_jobs_from_add_to_result(site: Site, client: Client) -> None:
    added = await client.add("thumb", [b"one", b"two"], priority=1000, indexed=True)
    assert added.count == 2
    assert isinstance(added.ids, list)
    first, second = added.ids
    assert (await client.get_job(first)).priority == 1000
    assert (await client.why(first)).reason == "no_handler"
    waiting = asyncio.ensure_future(client.wait(second, wait_s=30))
    await site.endings.waiting.wait()
    await site.run()
    site.endings.tell(second)
    assert (await waiting).code == "ok"
    assert await client.get_result(first) == b"done"
    assert [job.id async for job in client.results(limit=1)] == [second, first]
    (row,) = (await client.scoreboard()).types
    assert row.ok == 2


@pytest.mark.parametrize("payload", [b"#not a comment", b"two\nlines", b"\xff\x00", b""])
async def test_every_payload_arrives_as_it_was_given(site: Site, client: Client, payload: bytes) -> None:
    added = await client.add("thumb", [payload, b"x"], dt=site.clock.wall_ms)
    assert isinstance(added.ids, list)
    await site.intake.flush()
    record = await site.store.get_job("acme", added.ids[0], now_ms=site.clock.wall_ms)
    assert record is not None
    assert record.job.data == payload


async def test_repeating_an_add_with_its_key_adds_nothing(client: Client) -> None:
    first = await client.add("thumb", [b"x"], idempotency_key="k")
    assert await client.add("thumb", [b"x"], idempotency_key="k") == first
    jobs: list[dict[str, object]] = [{"payload": "a"}, {"payload": "b", "delay_s": 5}]
    once = await client.add_jobs("thumb", jobs, idempotency_key="j")
    assert await client.add_jobs("thumb", jobs, idempotency_key="j") == once


async def test_cancel_retry_and_replay(site: Site, client: Client) -> None:
    added = await client.add("thumb", [b"x", b"y"], ack="store")
    assert isinstance(added.ids, list)
    await client.cancel(added.ids[0])
    await client.retry(added.ids[0], delay_s=60)
    assert (await client.get_job(added.ids[0])).state == "deferred"
    await site.run(code=Code.FAILED, fingerprint="f", message="m")
    assert (await client.replay(dry_run=True)).matched == 1
    assert (await client.replay()).replayed == 1
    assert [it.runs for it in (await client.failures()).failures] == [1]


async def test_handlers(client: Client) -> None:
    one = await client.put_handler("up", {"lang": "python", "body": "1"})
    await client.put_handler("up", {"lang": "python", "body": "2"})
    assert (await client.get_handler("up")).version == 2
    assert (await client.get_handler("up", 1)).handler == one.handler
    assert [row.version for row in await client.list_versions("up")] == [2, 1]
    assert (await client.roll_back("up", 1)).restored_from == 1
    assert [row.type for row in await client.list_handlers()] == ["up"]
    assert (await client.invoke("up", b"x")).result == "echo x"
    await client.pause_type("up")
    await client.resume_type("up")
    await client.delete_handler("up")
    assert await client.list_handlers() == []


async def test_the_operators_verbs(site: Site, operator: Client) -> None:
    await operator.create_tenant("fresh", weight=2)
    assert (await operator.update_tenant("fresh", weight=5)).weight == 5
    made = await operator.create_key("fresh", label="l")
    rotated = await operator.rotate_key(made.id, "fresh")
    async with Client(site.url, rotated.key, "fresh") as fresh:
        assert (await fresh.add("a", [b"x"])).count == 1
    assert len(await operator.list_keys("fresh")) == 2
    await operator.revoke_key(made.id, "fresh")
    assert await operator.delete_tenant("fresh") > 0
    assert [it.name for it in await operator.list_tenants()] == ["acme", "other"]
    daemon = await site.store.reserve_sysid(info="", lease_ms=1000, now_ms=site.clock.wall_ms)
    await operator.pause_daemon(daemon.sysid)
    assert [it.paused for it in await operator.list_daemons()] == [True]
    await operator.resume_daemon(daemon.sysid)
    assert (await operator.health()).sysid == "a7"
    assert (await operator.audit(limit=1)).events[0].action == "daemon.resume"
    assert len(await operator.list_keys()) == 1


async def test_a_refusal_is_one_exception_with_all_that_was_said(site: Site, client: Client) -> None:
    with pytest.raises(ServiceError) as caught:
        await client.get_job("20270115T080000000Z-a7-0000ff")
    assert (caught.value.status, caught.value.code, caught.value.exit_code) == (404, "missing", 4)
    with pytest.raises(ServiceError) as caught:
        await client.get_job("../../admin/tenants")
    assert caught.value.status == 404, "an id is one part of the path, whatever is in it"
    site.intake.is_down = True
    with pytest.raises(ServiceError) as caught:
        await client.add("thumb", [b"x"], ack="store")
    assert caught.value.retry_after_s == 1
    assert caught.value.detail["accepted"] is True


async def test_a_client_that_is_not_open_says_so(site: Site) -> None:
    with pytest.raises(RuntimeError, match="async with"):
        await Client(site.url, "k").health()
