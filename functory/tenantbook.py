"""What the daemon must know of tenants while it runs jobs: weights, caps, permissions. Refreshed by upkeep, never stale
for longer than its interval."""

import json
from dataclasses import replace
from typing import NamedTuple

from handlers.model import Handler
from scheduler import TenantTerms, tenant_of
from store.base import Store, Tenant

_UNKNOWN_WEIGHT = 1


class Allowance(NamedTuple):
    weight: int = _UNKNOWN_WEIGHT
    max_running: int | None = None
    """Handlers of the tenant that may run at once on this daemon."""
    max_per_type: int | None = None
    """The same for each of its types."""
    network: bool = False


_DEFAULT = Allowance()


class TenantBook:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._allowances: dict[str, Allowance] = {}

    async def refresh(self) -> dict[str, TenantTerms]:
        """Read all tenants; what the scheduler needs to know of them."""
        self._allowances = {tenant.name: _allowance(tenant) for tenant in await self._store.list_tenants()}
        return {name: TenantTerms(one.weight, one.max_running) for name, one in self._allowances.items()}

    def of(self, jobtype: str) -> Allowance:
        return self._allowances.get(tenant_of(jobtype), _DEFAULT)


def permitted(handler: Handler, allowance: Allowance) -> Handler:
    """The handler with no more than its tenant may have."""
    return replace(handler, network=False) if handler.network and not allowance.network else handler


def _allowance(tenant: Tenant) -> Allowance:
    limits = json.loads(tenant.limits) if tenant.limits else {}
    return Allowance(
        weight=tenant.weight,
        max_running=limits.get("max_running"),
        max_per_type=limits.get("max_running_per_type"),
        network=bool(limits.get("network", False)),
    )
