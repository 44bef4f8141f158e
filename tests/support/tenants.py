"""A tenant that comes and goes, and a store that is away at times."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.operations.tenants import create_tenant, delete_tenant
from functory.tenant_limits import TenantLimits
from store.errors import StoreUnavailable


class AwayAtTimes:
    """Some verbs of a store, which do not work while it `is_away`."""

    def __init__(self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, *verbs: str) -> None:
        self.is_away = False
        for verb in verbs:
            monkeypatch.setattr(daemon.store, verb, self._unless_away(getattr(daemon.store, verb)))

    def _unless_away(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def answer(*given: Any, **named: Any) -> Any:
            if self.is_away:
                raise StoreUnavailable("away")
            return await call(*given, **named)

        return answer


async def create(daemon: Daemon, limits: TenantLimits | None = None) -> None:
    await create_tenant(service_of(daemon), "test", "acme", 1, limits or TenantLimits())


async def delete(daemon: Daemon) -> None:
    while (await delete_tenant(service_of(daemon), "test", "acme")).more:
        pass


async def count_jobs(daemon: Daemon) -> int:
    await daemon.intake.flush()
    return (await daemon.store.get_usage("acme")).jobs
