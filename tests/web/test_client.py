"""The client against a running service: the same verbs, the same values, errors as one exception."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import functory.operations.tenants
from functory.client import Client, ClientError, ServerUnreachable
from functory.errors import InvalidInput
from functory.wire.admin import Deleted
from store.base import Code, Tenant
from tests.support.egress import certificate
from tests.support.service import until
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
    added = await client.add_jobs("thumb", [b"one", b"two"], priority=1000, indexed=True)
    assert added.count == 2
    assert isinstance(added.ids, list)
    first, second = added.ids
    assert (await client.get_job(first)).priority == 1000
    assert (await client.why(first)).reason == "no_handler"
    waiting = asyncio.ensure_future(client.get_job(second, wait_s=30))
    await site.waiters.waiting.wait()
    await site.run()
    site.waiters.tell(second)
    assert (await waiting).code == "ok"
    assert await client.get_result(first) == b"done"
    page = await client.results(limit=1)
    rest = await client.results(limit=1, cursor=page.cursor)
    assert [job.id for job in page.jobs + rest.jobs] == [second, first]
    (row,) = (await client.scoreboard()).types
    assert row.ok == 2


async def test_payloads_are_text_bytes_or_json(site: Site, client: Client) -> None:
    given = ["7", b"7", bytearray(b"7"), 7, {"n": [1, None]}, None, "ä"]
    added = await client.add_jobs("thumb", given)
    assert isinstance(added.ids, list)
    await client.update_job(added.ids[0], {"n": 2})
    await site.intake.flush()
    records = [await site.store.get_job("acme", job_id, now_ms=site.clock.wall_ms) for job_id in added.ids]
    assert [record and record.job.data for record in records] == [
        *(b'{"n":2}', b"7", b"7", b"7", b'{"n":[1,null]}', b"", "ä".encode())
    ]
    with pytest.raises(InvalidInput, match="the payload cannot be written as JSON"):
        await client.add_jobs("thumb", [{1, 2}])


@pytest.mark.parametrize("payloads", ["abc", b"abc", {"n": 1}])
async def test_one_payload_is_not_taken_for_several(site: Site, client: Client, payloads: Any) -> None:
    with pytest.raises(TypeError, match=r"must be a list of payloads, not (str|bytes|dict): write \[payload\]"):
        await client.add_jobs("thumb", payloads)
    assert not (await client.results()).jobs


@pytest.mark.parametrize("payload", [b"#not a comment", b"two\nlines", b"\xff\x00", b""])
async def test_every_payload_arrives_as_it_was_given(site: Site, client: Client, payload: bytes) -> None:
    added = await client.add_jobs("thumb", [payload, b"x"], dt=site.clock.wall_ms)
    assert isinstance(added.ids, list)
    await site.intake.flush()
    record = await site.store.get_job("acme", added.ids[0], now_ms=site.clock.wall_ms)
    assert record is not None
    assert record.job.data == payload


async def test_repeating_an_add_with_its_key_adds_nothing(client: Client) -> None:
    first = await client.add_jobs("thumb", [b"x"], idempotency_key="k")
    assert await client.add_jobs("thumb", [b"x"], idempotency_key="k") == first
    once = await client.add_jobs("thumb", [b"a\nb"], idempotency_key="j", delay_s=5)
    assert await client.add_jobs("thumb", [b"a\nb"], idempotency_key="j", delay_s=5) == once


@pytest.mark.parametrize("payload", [b"a\nb", b"", b"#x"])
async def test_jobs_that_travel_as_json_are_waited_for(site: Site, client: Client, payload: bytes) -> None:
    adding = asyncio.ensure_future(client.add_jobs("thumb", [payload], wait_s=30))
    (job_id,) = await until(partial(site.run, result=b"done"))
    site.waiters.tell(job_id)
    added = await adding
    assert isinstance(added.jobs, list)
    assert [(job.id, job.result) for job in added.jobs] == [(job_id, "done")]


async def test_cancel_retry_and_replay(site: Site, client: Client) -> None:
    added = await client.add_jobs("thumb", [b"x", b"y"], ack="store")
    assert isinstance(added.ids, list)
    await client.cancel_job(added.ids[0])
    await client.retry_job(added.ids[0], delay_s=60)
    assert (await client.get_job(added.ids[0])).state == "deferred"
    await site.run(code=Code.FAILED, fingerprint="f", message="m")
    assert (await client.replay(dry_run=True)).matched == 1
    assert (await client.replay()).replayed == 1
    assert [it.runs for it in (await client.failures()).failures] == [1]


async def test_handlers(client: Client) -> None:
    one = await client.put_handler("up", "python", "1")
    await client.put_handler("up", "python", "2")
    assert (await client.get_handler("up")).version == 2
    assert (await client.get_handler("up", version=1)).handler == one.handler
    assert [row.version for row in (await client.list_versions("up")).handlers] == [2, 1]
    assert (await client.roll_back("up", 1)).restored_from == 1
    assert [row.type for row in (await client.list_handlers()).handlers] == ["up"]
    assert (await client.invoke("up", "x")).result == "echo x"
    await client.pause_type("up")
    await client.resume_type("up")
    await client.delete_handler("up")
    assert (await client.list_handlers()).handlers == []


async def test_the_operators_verbs(site: Site, operator: Client) -> None:
    await operator.create_tenant("fresh", weight=2)
    assert (await operator.change_tenant("fresh", weight=5)).weight == 5
    made = await operator.create_key("fresh", label="l")
    rotated = await operator.rotate_key("fresh", made.id, overlap_s=60)
    async with Client(site.url, rotated.key, "fresh") as fresh:
        assert (await fresh.add_jobs("a", [b"x"])).count == 1
    assert len((await operator.list_keys("fresh")).keys) == 2
    await operator.revoke_key("fresh", made.id)
    assert await operator.delete_tenant("fresh") > 0
    assert [it.name for it in (await operator.list_tenants()).tenants] == ["acme", "other"]
    daemon = await site.store.reserve_sysid(info="", lease_ms=1000, now_ms=site.clock.wall_ms)
    await operator.pause_daemon(daemon.sysid)
    assert [it.paused for it in (await operator.list_daemons()).daemons] == [True]
    await operator.resume_daemon(daemon.sysid)
    assert (await operator.audit(limit=1)).events[0].action == "daemon.resume"


async def test_a_deletion_does_not_reach_the_next_tenant_of_the_name(
    site: Site, operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functory.operations.tenants, "_STEPS_PER_CALL", 1)
    monkeypatch.setattr(functory.operations.tenants, "_ROWS_PER_STEP", 1)
    call, answers = operator._call, list[Deleted]()

    async def call_and_replace(*given: Any, **named: Any) -> Any:
        answers.append(await call(*given, **named))
        if len(answers) == 2:  # another daemon does the rest, and somebody creates a tenant
            while (await site.store.delete_tenant("acme")).more:
                pass
            await site.store.create_tenant(Tenant("acme", 7))
        return answers[-1]

    async with Client(site.url, site.keys["acme"], "acme") as acme:
        await acme.add_jobs("a", [b"x"] * 5, ack="store")
    monkeypatch.setattr(operator, "_call", call_and_replace)
    await operator.delete_tenant("acme")
    assert [answer.more for answer in answers] == [True, True, False]
    assert await site.store.get_tenant("acme") == Tenant("acme", 7)


async def test_a_refusal_is_one_exception_with_all_that_was_said(site: Site, client: Client) -> None:
    with pytest.raises(ClientError) as caught:
        await client.get_job("20270115T080000000Z-a7-0000ff")
    assert (caught.value.status, caught.value.error_code) == (404, "missing")
    with pytest.raises(ClientError) as caught:
        await client.get_job("../../admin/tenants")
    assert caught.value.status == 404, "an id is one part of the path, whatever is in it"
    site.intake.is_down = True
    with pytest.raises(ClientError) as caught:
        await client.add_jobs("thumb", [b"x"], ack="store")
    assert caught.value.retry_after_s == 1
    assert caught.value.detail["accepted"] is True


async def test_a_server_that_is_not_there_is_said_so() -> None:
    for url, reason in (("http://127.0.0.1:9", "Connection refused"), ("http://a.invalid", "[Nn]ame")):
        async with Client(url, "k", "acme") as client:
            with pytest.raises(
                ServerUnreachable, match=f"^{url} cannot be reached, does a daemon listen there\\? {reason}"
            ):
                await client.scoreboard()


@pytest.mark.parametrize("body", [b"<html>hello</html>", b'{"a": 1}', b""])
async def test_a_server_that_is_another_program_is_said_to_be(body: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1")
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, Client(url, "k", "acme") as client:
        with pytest.raises(ClientError, match="answered 200 with something else than its own JSON"):
            await client.get_job("x")


async def test_a_server_with_tls_must_be_trusted(tmp_path: Path) -> None:
    _, context = await asyncio.to_thread(certificate, "localhost", tmp_path)
    server = await asyncio.start_server(lambda *_: None, "localhost", ssl=context)
    url = f"https://localhost:{server.sockets[0].getsockname()[1]}"
    async with server, Client(url, "k", "acme") as client:
        with pytest.raises(ServerUnreachable, match=f"^{url}: its certificate is not trusted: .*self.signed"):
            await client.scoreboard()


@pytest.mark.parametrize("name", ["nobody/../other", "other/keys/..", "other?", "%6fther/.", "other#", ".."])
async def test_a_name_is_one_part_of_a_path_whatever_is_in_it(operator: Client, name: str) -> None:
    (key,) = (await operator.list_keys("other")).keys
    for call in (
        operator.get_tenant(name),
        operator.pause_tenant(name),
        operator.delete_tenant(name),
        operator.revoke_key("other", f"{name}/../{key.id}"),
        operator.list_keys(name),
        operator.pause_daemon(name),
    ):
        with pytest.raises((ClientError, InvalidInput)):
            await call
    assert not (await operator.get_tenant("other")).suspended
    assert (await operator.list_keys("other")).keys == [key]
