"""What a tenant controls in its own queue: the pause of a type and its rate domains. Running jobs go on."""

from functory.operations.audit import audit
from functory.operations.principal import Principal
from functory.operations.service import Service
from store.base import IndexState, RateDomain, RateState
from store.errors import NotFound
from vocabulary.names import jobtype_of


async def pause_type(service: Service, who: Principal, tenant: str, type_name: str, *, paused: bool) -> None:
    """Raises QuotaExceeded: a type that a tenant pauses counts as one of its types."""
    jobtype = jobtype_of(tenant, type_name)
    if paused and who.tenant == tenant:
        await service.admission.take_type(tenant, who.limits, jobtype)
    is_changed = await service.store.set_type_paused(tenant, jobtype, paused=paused)
    service.control.types_changed(tenant)
    if is_changed:
        await audit(service, who.key_id, "type.pause" if paused else "type.resume", tenant, type=type_name)


async def list_rates(service: Service, tenant: str) -> list[RateState]:
    return await service.store.list_rate_domains(tenant, now_ms=service.now_ms())


async def get_rate(service: Service, tenant: str, domain: str) -> RateState:
    """The limit that holds for a domain, on its name or on a pattern, and the tokens that the domain has. Raises
    NotFound if there is none."""
    found = await service.store.find_rate(tenant, domain, now_ms=service.now_ms())
    if found is None:
        raise NotFound(f"rate domain {domain!r:.80} has no limit: neither its name nor a pattern that it matches")
    return found


async def set_rate(service: Service, actor: str, tenant: str, domain: str, *, rate_per_s: float, burst: int) -> None:
    limit = RateDomain(tenant, domain, rate_per_s, burst)
    is_changed = await service.store.set_rate_domain(limit, now_ms=service.now_ms())
    service.control.types_changed(tenant)
    if is_changed:
        await audit(service, actor, "rate.set", tenant, domain=domain, rate_per_s=rate_per_s, burst=burst)


async def delete_rate(service: Service, actor: str, tenant: str, domain: str) -> None:
    """Raises NotFound."""
    if not await service.store.delete_rate_domain(tenant, domain, now_ms=service.now_ms()):
        raise NotFound(f"there is no limit on rate domain {domain!r:.80}")
    service.control.types_changed(tenant)
    await audit(service, actor, "rate.delete", tenant, domain=domain)


async def get_index_state(service: Service, tenant: str, type_name: str) -> IndexState:
    """How far an indexed queue has come."""
    return await service.store.get_index_state(tenant, jobtype_of(tenant, type_name))
