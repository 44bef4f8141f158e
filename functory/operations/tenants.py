"""Tenants: create, list, change, delete with all their data. For the operator; every change is audited."""

from typing import Final

from functory.errors import InvalidInput
from functory.operations.audit import audit
from functory.operations.service import Service
from functory.tenant_limits import TenantLimits, encode_limits
from handlers.hosts import parse_patterns
from store.base import DeleteReport, Tenant
from store.errors import Conflict, NotFound

_STEPS_PER_CALL: Final = 50
_ROWS_PER_STEP: Final = 1000

RESERVED: Final = frozenset(
    [
        "admin",
        "jobber",
        "add",
        "start",
        "stop",
        "quit",
        "healthz",
        "readyz",
        "metrics",
        "docs",
        "static",
        "assets",
        "ui",
    ]
)
"""First parts of paths that are not tenants."""


async def create_tenant(service: Service, actor: str, name: str, weight: int, limits: TenantLimits) -> Tenant:
    """What is left of another tenant that had the name goes first. Raises InvalidInput for a reserved name, Conflict
    for one that is taken."""
    if name in RESERVED:
        raise InvalidInput(f"{name!r} begins paths of the service: choose another name", detail={"field": "name"})
    _check(limits)
    if (await _delete(service, name, only_leftovers=True)).more:
        raise Conflict(f"what another tenant of the name {name} left is still being removed: try again")
    tenant = Tenant(name, service.now_ms(), weight, encode_limits(limits))
    await service.store.create_tenant(tenant)
    await audit(service, actor, "tenant.create", name, weight=weight, limits=encode_limits(limits))
    await service.control.tenants_changed()
    return tenant


def _check(limits: TenantLimits) -> None:
    try:
        parse_patterns(limits.hosts or "")
    except ValueError as error:
        raise InvalidInput(f"limits.hosts: {error}", detail={"field": "limits.hosts"}) from None


async def list_tenants(service: Service) -> list[Tenant]:
    return await service.store.list_tenants()


async def find_tenant(service: Service, name: str) -> Tenant | None:
    return await service.store.get_tenant(name)


async def get_tenant(service: Service, name: str) -> Tenant:
    """Raises NotFound."""
    tenant = await service.store.get_tenant(name)
    if tenant is None:
        raise NotFound(f"there is no tenant {name}")
    return tenant


async def update_tenant(
    service: Service,
    actor: str,
    name: str,
    *,
    weight: int | None = None,
    limits: TenantLimits | None = None,
    suspended: bool | None = None,
) -> Tenant:
    """Raises InvalidInput, NotFound."""
    if limits is not None:
        _check(limits)
    text = None if limits is None else encode_limits(limits)
    tenant = await service.store.update_tenant(name, weight=weight, limits=text, suspended=suspended)
    changes = {"weight": weight, "limits": text, "suspended": suspended}
    await audit(service, actor, "tenant.update", name, **{key: it for key, it in changes.items() if it is not None})
    service.verified_keys.forget()
    await service.control.tenants_changed()
    return tenant


async def delete_tenant(service: Service, actor: str, name: str) -> DeleteReport:
    """Delete the tenant and its data, as far as one request should go: call `go_on_deleting` while `more`.

    Nothing new is accepted for it from the first step on. Lines that this daemon has accepted before reach the store,
    so they are deleted too.
    """
    await audit(service, actor, "tenant.delete", name)
    begun = await service.store.delete_tenant(name, limit=1)
    service.verified_keys.forget()
    await service.control.tenants_changed()
    report = await go_on_deleting(service, name)
    return DeleteReport(begun.removed + report.removed, more=report.more)


async def go_on_deleting(service: Service, name: str) -> DeleteReport:
    """The next steps of a deletion that has begun, on any daemon. If it is over by now there may be another tenant of
    the name, which is left alone."""
    await service.intake.flush(name)
    report = await _delete(service, name, only_deleting=True)
    await service.control.tenants_changed()
    return report


async def _delete(
    service: Service, name: str, *, only_leftovers: bool = False, only_deleting: bool = False
) -> DeleteReport:
    removed, more = 0, True
    for _ in range(_STEPS_PER_CALL):
        step = await service.store.delete_tenant(
            name, limit=_ROWS_PER_STEP, only_leftovers=only_leftovers, only_deleting=only_deleting
        )
        removed, more = removed + step.removed, step.more
        if not more:
            break
    return DeleteReport(removed, more=more)
