"""Who may: one tenant without a key on loopback, anybody else with a key in every request, within its scopes."""

from pathlib import Path

import pytest

from functory.bedrock.settings import BedrockSettings
from functory.config import load_config
from functory.errors import InvalidConfig
from functory.operations.tenants import create_tenant, delete_tenant, update_tenant
from functory.tenant_limits import TenantLimits
from tests.support.bedrock import Bedrock, key_of, open_bedrock
from tests.support.clocks import FakeClock

KEYED = BedrockSettings()


async def test_without_a_tenant_of_its_own_every_request_needs_a_key(tmp_path: Path) -> None:
    async with open_bedrock(tmp_path, settings=KEYED) as bedrock, bedrock.session() as session:
        assert (await session.ask("CreateJob", name="x")).status == 401
        assert (await session.ask("CreateJob", name="x", Authorization="Bearer fk_no_good")).status == 401
        key = await key_of(bedrock)
        assert (await session.ask("CreateJob", name="x", authorization=key)).json == {"jobID": 1}
        assert (await session.ask("QueryJob", jobID=1)).status == 401, "of every request"


async def test_a_key_acts_for_its_own_tenant_with_numbers_of_its_own(bedrock: Bedrock) -> None:
    await create_tenant(bedrock.shop.service, "test", "other", 1, TenantLimits())
    key = await key_of(bedrock, "other")
    async with bedrock.session() as session:
        assert (await session.ask("CreateJob", name="mine")).json == {"jobID": 1}
        assert (await session.ask("CreateJob", name="theirs", Authorization=key)).json == {"jobID": 1}
        assert (await session.ask("GetJob", name="mine", Authorization=key)).status == 404
        assert (await session.ask("QueryJob", jobID=1, Authorization=key)).json["name"] == "theirs"
        assert (await session.ask("QueryJob", jobID=1)).json["name"] == "mine"


async def test_without_a_key_it_is_whoever_has_the_name(bedrock: Bedrock, clock: FakeClock) -> None:
    service = bedrock.shop.service
    async with bedrock.session() as session:
        await session.ask("CreateJob", name="old")
        while (await delete_tenant(service, "test", "acme")).more:
            pass
        clock.advance(1)
        await create_tenant(service, "test", "acme", 1, TenantLimits())
        await session.ask("CreateJob", name="new")
        assert (await session.ask("GetJob", name="*")).json["name"] == "new"


async def test_without_a_key_a_suspension_holds_at_once(bedrock: Bedrock) -> None:
    service = bedrock.shop.service
    async with bedrock.session() as session:
        assert (await session.ask("CreateJob", name="x")).status == 200
        for suspended, status in ((True, 403), (False, 200)):
            await update_tenant(service, "test", "acme", suspended=suspended)
            assert (await session.ask("CreateJob", name="x")).status == status


async def test_without_a_key_nothing_is_taken_from_a_tenant_that_is_being_deleted(bedrock: Bedrock) -> None:
    service = bedrock.shop.service
    async with bedrock.session() as session:
        await session.ask("CreateJob", name="x")
        while (await delete_tenant(service, "test", "acme")).more:
            pass
        assert (await session.ask("GetJob", name="x")).status == 401
        assert (await session.ask("CreateJob", name="x")).status == 401
        await create_tenant(service, "test", "acme", 1, TenantLimits(max_running=1))
        assert (await session.ask("CreateJob", name="x")).json == {"jobID": 1}
        assert (await session.ask("GetJob", name="x")).status == 200, "nothing of its predecessor is in the way"


@pytest.mark.parametrize(
    ("scope", "command"),
    [
        ("submit", "CreateJob"),
        ("submit", "CreateJobs"),
        ("work", "GetJob"),
        ("work", "GetJobs"),
        ("work", "FinishJob"),
        ("work", "FailJob"),
        ("work", "RetryJob"),
        ("work", "UpdateJob"),
        ("read", "QueryJob"),
        ("read", "Query"),
        ("manage", "CancelJob"),
        ("manage", "DeleteJob"),
    ],
)
async def test_a_key_needs_the_scope(bedrock: Bedrock, scope: str, command: str) -> None:
    others = {"submit", "work", "read", "manage", "handlers"} - {scope}
    async with bedrock.session() as session:
        reply = await session.ask(command, name="x", Authorization=await key_of(bedrock, "acme", *others))
        assert (reply.status, f"the scope {scope!r}" in reply.reason) == (403, True)
        reply = await session.ask(command, name="x", Authorization=await key_of(bedrock, "acme", scope))
        assert reply.status != 403


async def test_a_worker_changes_no_job_that_it_does_not_hold(bedrock: Bedrock) -> None:
    async with bedrock.session() as session:
        await session.ask("CreateJob", name="x")
        key = await key_of(bedrock, "acme", "work")
        assert (await session.ask("UpdateJob", jobID=1, data="{}", Authorization=key)).status == 403
        assert (await session.ask("RetryJob", jobID=1, Authorization=key)).status == 403
        await session.ask("GetJob", name="x", Authorization=key)
        reply = await session.ask("RetryJob", jobID=1, name="y", Authorization=key)
        assert (reply.status, "'submit'" in reply.reason) == (403, True)
        assert (await session.ask("RetryJob", jobID=1, name="x", delay=60, Authorization=key)).status == 200


async def test_limits_and_suspension_hold_here_too(bedrock: Bedrock) -> None:
    service = bedrock.shop.service
    await update_tenant(
        service, "test", "acme", limits=TenantLimits(max_jobs=1, requests_per_s=0.001, requests_burst=4)
    )
    async with bedrock.session() as session:
        assert (await session.ask("CreateJob", name="x")).status == 200
        assert (await session.ask("CreateJob", name="x")).status == 429
        await session.ask("GetJob", name="x")
        await session.ask("GetJob", name="x")
        reply = await session.ask("GetJob", name="x")
        assert (reply.status, "requests a second" in reply.reason) == (429, True)


async def test_a_page_of_another_site_is_refused_without_a_key(bedrock: Bedrock) -> None:
    async with bedrock.session() as session:
        body = b"name=x"
        head = b"POST /CreateJob HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 6\r\n"
        session.send_bytes(head + b"Origin: https://evil.example\r\n\r\n" + body)
        assert (await session.reply()).status == 403
        session.send_bytes(b"GET /CreateJob?name=x HTTP/1.1\r\n\r\n")
        assert (await session.reply()).status == 405
        session.send_bytes(head + b"\r\n" + body)
        assert (await session.reply()).json == {"jobID": 1}


async def test_commands_as_http(bedrock: Bedrock) -> None:
    async with bedrock.session() as session:
        session.send_bytes(b"POST /CreateJob?priority=1000 HTTP/1.1\r\nname: foo\r\ndata: {}\r\n\r\n")
        reply = await session.reply()
        assert reply.raw == (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Content-Type-Options: nosniff\r\n"
            b"Cache-Control: no-store\r\nContent-Length: 11\r\n\r\n"
            b'{"jobID":1}'
        )
        body = b'{"name": "foo", "data": {"a": 1}, "unique": true}'
        session.send_bytes(b"POST /createjob HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        assert (await session.reply()).json == {"jobID": 2}
        session.send_bytes(b"POST /QueryJob HTTP/1.0\r\njobID: 2\r\n\r\n")
        last = await session.rest()
        assert last.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"Connection: close\r\n" in last
        assert last.endswith(b'{"data":{"a": 1},"jobID":2,"name":"foo","state":"QUEUED"}')


async def test_headers_that_are_none_of_ours_do_no_harm(bedrock: Bedrock) -> None:
    async with bedrock.session() as session:
        headers = b"Accept: a\r\nAccept: b\r\nPriority: u=1, i\r\n"
        session.send_bytes(b"POST /CreateJob HTTP/1.1\r\n" + headers + b"name: foo\r\n\r\n")
        assert (await session.reply()).json == {"jobID": 1}
        session.send_bytes(b"POST /CreateJob HTTP/1.1\r\n" + headers + b"name: foo\r\njobPriority: 1000\r\n\r\n")
        assert (await session.reply()).json == {"jobID": 2}
        session.send_bytes(b"GetJob\nname: foo\nConnection: Close\n\n")
        assert b'"jobID":2' in await session.rest(), "and the connection is closed"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"bedrock": "0.0.0.0:8888", "bedrock_tenant": "acme"}, "anybody who reaches the port"),
        ({"bedrock": "[::]:8888", "bedrock_tenant": "acme"}, "anybody who reaches the port"),
        ({"bedrock": "jobs.example.com:8888", "bedrock_tenant": "acme"}, "anybody who reaches the port"),
        ({"bedrock_tenant": "acme"}, "needs bedrock"),
        ({"bedrock": "127.0.0.1:8888", "bedrock_tenant": "A"}, "not the name of a tenant"),
        ({"bedrock": "8888"}, "not an address"),
        ({"bedrock": "127.0.0.1:99999"}, "not an address"),
    ],
)
def test_what_would_be_open_to_everybody_is_refused_at_start(given: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidConfig, match=text):
        load_config(given, {})


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "localhost", "127.1.2.3"])
def test_loopback_may_serve_a_tenant_without_a_key(host: str) -> None:
    settings = load_config({"bedrock": f"{host}:1", "bedrock_tenant": "acme"}, {}).settings
    assert settings.bedrock
    assert settings.bedrock.port == 1
    assert load_config({"bedrock": "0.0.0.0:8888"}, {}).settings.bedrock_tenant == ""


async def test_a_tenant_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = BedrockSettings(tenant="nobody")
    async with open_bedrock(tmp_path, settings=settings) as bedrock, bedrock.session() as session:
        reply = await session.ask("GetJob", name="x")
        assert (reply.status, "functory tenant create nobody" in reply.reason) == (401, True)
