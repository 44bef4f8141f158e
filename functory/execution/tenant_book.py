"""What the daemon must know about tenants while it runs jobs: weights, caps, permissions. Upkeep refreshes it, so it is
never older than upkeep's interval."""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, NamedTuple

from functory.tenant_limits import UNREADABLE, TenantLimits, limits_from
from handlers.hosts import HostPattern, is_covered, parse_pattern, parse_patterns
from handlers.model import Handler
from scheduler import TenantTerms
from store.base import Store, Tenant
from vocabulary.names import tenant_of

log = logging.getLogger("functory.tenants")

_UNKNOWN_WEIGHT: Final = 1
_NOWHERE: Final = "nowhere.invalid"
"""There is no such host. A handler whose hosts were all taken away still has the proxy, which tells it so."""


class Allowance(NamedTuple):
    weight: int = _UNKNOWN_WEIGHT
    max_running: int | None = None
    """How many batches of the tenant may run at once on this daemon."""
    max_per_type: int | None = None
    """The same, for each of its types."""
    network: bool = False
    hosts: tuple[HostPattern, ...] | None = None
    """What its handlers may list, of what is allowed to all; None: all of that."""
    incarnation: int = 0
    """Tells it from others that had its name: when it was created."""
    is_closed: bool = False
    """Suspended, or being deleted: nothing of it runs."""
    limits: TenantLimits = TenantLimits()
    """Its quotas, for what its jobs leave behind."""


_DEFAULT: Final = Allowance()


class TenantBook:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._allowances: dict[str, Allowance] = {}
        self._ended: set[str] = set()
        self._when_gone: list[Callable[[str], None]] = []
        self._asked = self._answered = 0
        """Numbers of the questions to the store: the last one, and the last that was answered."""

    def when_gone(self, listener: Callable[[str], None]) -> None:
        """The listener is told of tenants that were deleted, also if there is one of that name again."""
        self._when_gone.append(listener)

    async def refresh(self) -> dict[str, TenantTerms]:
        """Read all tenants. Returns what the scheduler needs to know about them."""
        self._asked += 1
        number = self._asked
        tenants = await self._store.list_tenants()
        if number > self._answered:  # or a younger answer has come before this one
            self._answered = number
            self._note({tenant.name: _allowance(tenant) for tenant in tenants})
        return {name: TenantTerms(one.weight, one.max_running) for name, one in self._allowances.items()}

    def _note(self, allowances: dict[str, Allowance]) -> None:
        before, self._allowances = self._allowances, allowances
        for name, one in allowances.items():
            if one.limits is UNREADABLE and before.get(name, _DEFAULT).limits is not UNREADABLE:
                log.warning("tenant.limits_unreadable", extra={"tenant": name})
        for name, one in before.items():
            now = allowances.get(name)
            if now is None or now.incarnation != one.incarnation:
                self._ended.add(name)  # if it was suspended, too: its handlers may have been looked at since
                for listener in self._when_gone:
                    listener(name)
            elif now.is_closed and not one.is_closed:
                self._ended.add(name)

    def take_ended(self) -> dict[str, int | None]:
        """Tenants that were suspended or deleted since the last call, even if there is one of that name again: with the
        incarnation that may run by the name now, or None."""
        ended, self._ended = self._ended, set()
        now = {name: self._allowances.get(name) for name in ended}
        return {name: None if one is None or one.is_closed else one.incarnation for name, one in now.items()}

    def limits_of(self, tenant: str) -> TenantLimits:
        return self._allowances.get(tenant, _DEFAULT).limits

    def incarnation_of(self, tenant: str) -> int:
        return self._allowances.get(tenant, _DEFAULT).incarnation

    def of(self, jobtype: str) -> Allowance:
        return self._allowances.get(tenant_of(jobtype), _DEFAULT)


def permitted(handler: Handler, allowance: Allowance) -> Handler:
    """The handler, without the permissions that its tenant does not have."""
    if handler.network and not allowance.network:
        handler = replace(handler, network=False)
    if handler.hosts and allowance.hosts is not None:
        kept = tuple(each for each in handler.hosts if is_covered(parse_pattern(each), allowance.hosts))
        if kept != handler.hosts:
            handler = replace(handler, hosts=kept or (_NOWHERE,))
    return handler


def _allowance(tenant: Tenant) -> Allowance:
    limits = limits_from(tenant.limits)
    return Allowance(
        weight=tenant.weight,
        max_running=limits.max_running,
        max_per_type=limits.max_running_per_type,
        network=bool(limits.network),
        hosts=None if limits.hosts is None else parse_patterns(limits.hosts),
        incarnation=tenant.created_ms,
        is_closed=tenant.suspended or tenant.deleting,
        limits=limits,
    )
