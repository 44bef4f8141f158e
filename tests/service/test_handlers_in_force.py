"""What `invoke` runs: the handler in force, which is not read from the store each time."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from functory.daemon.service import service_of
from functory.errors import Forbidden, Missing
from functory.operations import handlers as operations
from functory.operations.jobs import wait_for_job
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.submit import submit_lines
from functory.operations.tenants import create_tenant, delete_tenant, update_tenant
from functory.tenant_limits import TenantLimits
from functory.wire.scopes import TENANT_SCOPES
from store.base import JobRecord, NewHandler
from tests.support.clocks import FakeClock
from tests.support.service import running_daemon

ACME = Principal("key", "acme", frozenset(TENANT_SCOPES), TenantLimits())


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with running_daemon(tmp_path, poll="3600s") as daemon:
        service = service_of(daemon)
        await create_tenant(service, "test", "acme", 1, TenantLimits())
        yield service


async def put(service: Service, body: str) -> None:
    await operations.put_handler(service, ACME, "x", {"lang": "python", "body": body})


async def invoke(service: Service) -> str:
    return str(json.loads((await operations.invoke(service, ACME, "x", b"")).result))


async def test_a_handler_that_is_called_again_is_not_read_again(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(service, "return 'one'")
    assert await invoke(service) == "one"
    assert await invoke(service) == "one"  # by now it is known

    async def unexpected(*_given: Any, **_named: Any) -> None:
        raise AssertionError("the store was asked")

    for name in ("get_handler", "get_type_gates", "list_daemons"):
        monkeypatch.setattr(service.store, name, unexpected)
    assert await invoke(service) == "one"


async def test_what_was_changed_here_holds_at_once(service: Service) -> None:
    for body in ("one", "two", "three"):
        await put(service, f"return {body!r}")
        for _ in range(3):
            assert await invoke(service) == body
    await operations.roll_back(service, ACME, "x", 1)
    assert await invoke(service) == "one"
    await operations.delete_handler(service, ACME, "x")
    with pytest.raises(Missing, match="type x has no handler"):
        await invoke(service)


async def test_what_another_daemon_has_changed_holds_after_a_poll(tmp_path: Path) -> None:
    clock = FakeClock(1_800_000_000_000)
    async with running_daemon(tmp_path, clock, poll="1s") as daemon:
        service = service_of(daemon)
        await create_tenant(service, "test", "acme", 1, TenantLimits())
        await put(service, "return 'old'")
        for _ in range(2):
            assert await invoke(service) == "old"
        document = b'{"lang":"python","body":"return \'new\'","returns":"value"}'
        await service.store.set_handler("acme", NewHandler("acme-x", "python", document, clock.now_ms()))
        clock.advance(1.1)
        assert await invoke(service) == "new"


async def test_a_tenant_never_runs_the_code_of_one_that_had_its_name(service: Service) -> None:
    """A suspended tenant may still be asked for, by a consumer that pulls; then it is deleted and made again."""
    await put(service, "return 'old'")
    assert await invoke(service) == "old"
    await update_tenant(service, "test", "acme", suspended=True)
    assert await service.handlers.get("acme-x") is not None
    await delete_tenant(service, "test", "acme")
    await create_tenant(service, "test", "acme", 1, TenantLimits())
    await put(service, "return 'new'")
    assert await invoke(service) == "new"
    (job_id,) = await submit_lines(service, ACME, "x", [b""])
    job = await wait_for_job(service, "acme", job_id, 30.0, is_heard=lambda: True)
    assert isinstance(job, JobRecord)
    assert job.outcome is not None
    assert job.outcome.result == b'"new"'


async def test_nothing_of_a_suspended_tenant_runs(service: Service) -> None:
    """Not even what a consumer of it asks for."""
    await put(service, "return 'one'")
    await update_tenant(service, "test", "acme", suspended=True)
    with pytest.raises(Forbidden, match="suspended"):
        await invoke(service)
    await update_tenant(service, "test", "acme", suspended=False)
    assert await invoke(service) == "one"
