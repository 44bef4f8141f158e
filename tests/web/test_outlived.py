"""A request that takes long may outlive its key and its tenant: what it does then is nothing, and least of all for the
next tenant of the name."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from functory.operations.keys import revoke_key
from functory.operations.service import Service
from functory.operations.sessions import Session, Sessions
from functory.operations.tenants import create_tenant, delete_tenant, update_tenant
from functory.tenant_limits import TenantLimits
from handlers.model import Handler
from tests.support.pages import visitor
from tests.support.service import until
from tests.support.web import Answer, Site

JSON = {"Content-Type": "application/json"}
CHOSEN = {"replay": {"codes": ["failed"]}}


async def replace(site: Site) -> None:
    site.clock.advance(1)
    assert not (await delete_tenant(site.service, "test", "acme")).more
    await create_tenant(site.service, "test", "acme", 1, TenantLimits())


async def revoke(site: Site) -> None:
    for key in await site.store.list_keys("acme"):
        await revoke_key(site.service, "test", "acme", key.key_id)


async def suspend(site: Site) -> None:
    await update_tenant(site.service, "test", "acme", suspended=True)


async def slowly(site: Site, method: str, path: str, text: bytes, meanwhile: Any, headers: dict[str, str]) -> Answer:
    """A request of whose body the end comes when something else is over."""

    async def is_admitted() -> bool:
        return bool(site.service.verified_keys.by_digest)

    async def pieces() -> AsyncIterator[bytes]:
        yield text[:1]
        await until(is_admitted)
        await meanwhile(site)
        yield text[1:]

    return await site.call(method, path, data=pieces(), headers=headers)


@pytest.mark.parametrize(("meanwhile", "status"), [(replace, 401), (revoke, 401), (suspend, 403)])
@pytest.mark.parametrize(
    ("method", "path", "text", "headers"),
    [
        ("POST", "/acme/job/thumb/add", b"a\nb", {}),
        ("POST", "/acme/jobs", b'{"jobs":[{"type":"thumb","payload":"x"}]}', JSON),
        ("PUT", "/acme/handler/thumb?lang=sh", b"true", {}),
        ("PUT", "/acme/webhook/open", b'{"type":"thumb","verify":"none"}', JSON),
    ],
)
async def test_a_body_that_comes_slowly(
    site: Site, meanwhile: Any, status: int, method: str, path: str, text: bytes, headers: dict[str, str]
) -> None:
    answer = await slowly(site, method, path, text, meanwhile, headers)
    assert answer.status == status, answer.body
    await site.intake.flush()
    usage = await site.store.get_usage("acme")
    assert (usage.jobs, usage.handlers, await site.store.list_webhooks("acme")) == (0, 0, [])


@pytest.mark.parametrize(("meanwhile", "status"), [(replace, 401), (revoke, 401), (suspend, 403)])
async def test_a_form_that_comes_slowly(site: Site, meanwhile: Any, status: int) -> None:
    async with visitor(site, "acme") as acme:
        before, begun = site.service.verified_keys.changes, asyncio.Event()
        find = Sessions.find

        async def pieces() -> AsyncIterator[bytes]:
            yield b"token="
            await begun.wait()
            await meanwhile(site)
            yield f"{acme.token}&name=KEY&value=x".encode()

        async def find_then(sessions: Sessions, cookie: str | None) -> Session:
            found = await find(sessions, cookie)
            begun.set()
            return found

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Sessions, "find", find_then)
            url, headers = f"{site.url}/ui/t/acme/secrets", {"Content-Type": "application/x-www-form-urlencoded"}
            async with acme.session.post(url, data=pieces(), headers=headers, allow_redirects=False) as answer:
                assert answer.status == status, await answer.text()
        assert site.service.verified_keys.changes > before
        assert await site.service.vault.list_set("acme") == []


@pytest.mark.parametrize("verb", ["delete", "cancel", "replay"])
async def test_many_jobs_that_wait_for_their_turn(site: Site, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    turns, has_come = site.service.bulk_turns.of, asyncio.Event()

    def of(tenant: str) -> AbstractAsyncContextManager[None]:
        has_come.set()
        return turns(tenant)

    async with turns("acme"):
        monkeypatch.setattr(site.service.bulk_turns, "of", of)
        asking = asyncio.create_task(site.post(f"/acme/{verb}", json={"type": "*"} | CHOSEN.get(verb, {})))
        await has_come.wait()
        await replace(site)
    answer = await asking
    assert answer.status == 401, answer.body


async def test_a_handler_that_takes_long_to_check(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(*_: object) -> None:
        await replace(site)

    monkeypatch.setattr(site.trial_runs, "check", check)
    answer = await site.call("PUT", "/acme/handler/thumb?lang=sh", data=b"true")
    assert answer.status == 401, answer.body
    assert (await site.store.get_usage("acme")).handlers == 0
    assert await asyncio.wait_for(site.store.get_handler("acme", "acme-thumb"), 5) is None


async def test_a_try_of_a_handler_that_waits_for_its_packages(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def install(_service: Service, _jobtype: str, handler: Handler, *_: object, **__: object) -> Handler:
        await replace(site)
        return handler

    ran: list[object] = []

    async def run(*given: object, **_: object) -> None:
        ran.append(given)

    monkeypatch.setattr("functory.operations.handlers.with_packages", install)
    monkeypatch.setattr(site.trial_runs, "invoke", run)
    handler = {"lang": "sh", "body": "echo $KEY", "secrets": ["KEY"]}
    answer = await site.post("/acme/handler/thumb/invoke", json={"payload": "x", "handler": handler})
    assert (answer.status, ran) == (401, []), "it would have the secrets of the next tenant"
