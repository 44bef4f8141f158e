"""Hosts that a handler lists: whether the operator allows them, and whether some daemon can let it call them."""

from functory.errors import Forbidden
from functory.operations.daemons import info_of
from functory.operations.service import Service
from functory.tenant_limits import TenantLimits
from handlers.errors import InvalidHandlerError
from handlers.hosts import parse_pattern, parse_patterns
from handlers.model import Handler
from runner.egress import LOWEST_LEVEL, needs_own_network
from runner.launch import Level
from runner.targets import Targets
from store.base import Daemon


async def require_hosts(service: Service, limits: TenantLimits, handler: Handler) -> None:
    """Raises Forbidden for a host that the operator does not allow, InvalidHandlerError if no daemon can run it."""
    allowed = [service.settings.targets]
    if limits.hosts is not None:
        allowed.append(Targets(parse_patterns(limits.hosts)))
    for text in handler.hosts:
        for targets in allowed:
            if not targets.covers(parse_pattern(text)):
                shown = ", ".join(map(str, targets.hosts)) or "none"
                raise Forbidden(
                    f"{text} is not among the hosts that handlers may call here ({shown[:500]}; without a port: 80 and"
                    " 443; private addresses only with `http_allowed`): ask the operator",
                    detail={"field": "hosts", "host": text},
                )
    if handler.hosts and not await can_call_hosts(service):
        raise InvalidHandlerError("hosts", needs_own_network(Level[service.control.health().isolation]))


async def can_call_hosts(service: Service) -> bool:
    """Whether the contexts of this daemon, or of another that is alive, have a network of their own."""
    if Level[service.control.health().isolation] >= LOWEST_LEVEL:
        return True
    return any(map(_has_own_network, await service.store.list_daemons(now_ms=service.now_ms())))


def _has_own_network(daemon: Daemon) -> bool:
    """A daemon that does not say may have it."""
    level = info_of(daemon).isolation
    return level not in Level.__members__ or Level[level] >= LOWEST_LEVEL
