"""A consumer that is deleted, and another that gets its name: whoever is late with the deletion leaves it alone."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from functory.consumers.terms import Terms
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.operations import consumers
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.tenant_limits import TenantLimits
from store.errors import NotFound
from tests.support.service import running_daemon

WHO = Principal("test", "acme", frozenset({"manage"}), TenantLimits())


async def put(service: Service) -> None:
    assert await consumers.put_consumer(service, WHO, "verify", "block", Terms(), None)


async def delete(service: Service) -> None:
    while (await consumers.delete_consumer(service, WHO, "verify"))[1]:
        pass


async def is_there(service: Service) -> bool:
    return not (await consumers.get_consumer(service, "acme", "verify")).record.is_ending


async def add(daemon: Daemon, count: int) -> None:
    await daemon.intake.write("acme-block", [b"x"] * count)
    await daemon.intake.flush()


async def test_a_deletion_that_another_has_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await put(service)
        await consumers.run_consumer(service, WHO, "verify", running=False)
        await add(daemon, 2)
        end = daemon.store.end_consumer

        async def end_slowly(*given: Any, **named: Any) -> Any:
            monkeypatch.setattr(daemon.store, "end_consumer", end)
            report = await end(*given, **named, limit=1)
            with suppress(NotFound):
                await delete(service)  # as on another daemon
            await put(service)
            return report

        monkeypatch.setattr(daemon.store, "end_consumer", end_slowly)
        assert await consumers.delete_consumer(service, WHO, "verify") == (1, False)
        assert await is_there(service)


async def test_a_leader_that_saw_the_one_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await put(service)
        seen = [record._replace(is_ending=True) for record in await daemon.store.list_consumers()]

        async def as_it_was() -> Any:
            return seen

        with monkeypatch.context() as late:
            late.setattr(daemon.store, "list_consumers", as_it_was)
            await daemon.consumers._finish_deleting()
        assert await is_there(service)
