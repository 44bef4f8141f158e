"""Tenants: create, list, change, delete with all their data. The operator's, and every change is audited."""

import msgspec

from functory.operations.audit import audit
from functory.operations.service import Service
from functory.wire.admin import TenantLimits
from store.base import DeleteReport, Tenant
from store.errors import NotFound

_STEPS_PER_CALL = 50
_ROWS_PER_STEP = 1000


async def create_tenant(service: Service, actor: str, name: str, weight: int, limits: TenantLimits) -> Tenant:
    tenant = Tenant(name, service.now_ms(), weight, encode_limits(limits))
    await service.store.create_tenant(tenant)
    await audit(service, actor, "tenant.create", name, weight=weight)
    return tenant


async def list_tenants(service: Service) -> list[Tenant]:
    return await service.store.list_tenants()


async def get_tenant(service: Service, name: str) -> Tenant:
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
    text = None if limits is None else encode_limits(limits)
    tenant = await service.store.update_tenant(name, weight=weight, limits=text, suspended=suspended)
    changes = {"weight": weight, "limits": text, "suspended": suspended}
    await audit(service, actor, "tenant.update", name, **{key: it for key, it in changes.items() if it is not None})
    service.control.wake()
    return tenant


async def delete_tenant(service: Service, actor: str, name: str) -> DeleteReport:
    """Remove the tenant and its data, as far as one request should go: call again while `more`.

    Lines of it that this daemon has accepted reach the store first, so that they are removed, too.
    """
    await service.intake.flush(name)
    await audit(service, actor, "tenant.delete", name)
    removed = 0
    for _ in range(_STEPS_PER_CALL):
        step = await service.store.delete_tenant(name, limit=_ROWS_PER_STEP)
        removed += step.removed
        if not step.more:
            return DeleteReport(removed, more=False)
    return DeleteReport(removed, more=True)


def encode_limits(limits: TenantLimits) -> str:
    given = {name: value for name, value in msgspec.structs.asdict(limits).items() if value is not None}
    return msgspec.json.encode(given).decode() if given else ""
