"""Handlers: register, look at, list, roll back, delete, and run once without a job."""

from functory.errors import Forbidden, InvalidInput, Missing, QuotaExceeded
from functory.handlerdocument import decode_handler, encode_handler
from functory.operations.audit import audit
from functory.operations.principal import Principal
from functory.operations.service import Service
from handlers.model import Handler
from handlers.validation import parse_handler
from runner.outcome import Stopped
from store.base import Handler as StoredHandler
from store.base import HandlerSummary


async def put_handler(service: Service, who: Principal, type_name: str, data: object) -> StoredHandler:
    """Check it, in the sandbox too where this daemon can run the language, and put it in force.

    Raises InvalidHandlerError, HandlerSyntaxError, Forbidden, QuotaExceeded. The same handler again makes no new
    version.
    """
    handler = parse_handler(data)
    if handler.network and not who.limits.network:
        raise Forbidden("the tenant's handlers may not use the network: ask the operator", detail={"field": "network"})
    jobtype = f"{who.tenant}-{type_name}"
    if handler.lang in service.control.languages():
        await service.bench.check(jobtype, handler)
    before = await service.store.get_handler(who.tenant, jobtype)
    if before is None:
        await _check_quota(service, who)
    stored = await service.store.set_handler(
        who.tenant,
        jobtype,
        lang=handler.lang,
        data=encode_handler(handler),
        now_ms=service.now_ms(),
        author=who.key_id,
    )
    if before is None or stored.version != before.version:
        await audit(service, who.key_id, "handler.put", who.tenant, type=type_name, version=stored.version)
        await _replaced(service, before)
    return stored


async def get_handler(service: Service, tenant: str, type_name: str, version: int | None = None) -> StoredHandler:
    stored = await service.store.get_handler(tenant, f"{tenant}-{type_name}", version)
    if stored is None:
        which = "" if version is None else f" with version {version}"
        raise Missing(f"type {type_name} has no handler{which}")
    return stored


async def list_handlers(service: Service, tenant: str) -> list[HandlerSummary]:
    return await service.store.list_handlers(tenant)


async def list_versions(service: Service, tenant: str, type_name: str) -> list[HandlerSummary]:
    versions = await service.store.list_handler_versions(tenant, f"{tenant}-{type_name}")
    if not versions:
        raise Missing(f"type {type_name} has never had a handler")
    return versions


async def roll_back(service: Service, who: Principal, type_name: str, version: int) -> StoredHandler:
    """Put a copy of an older version in force. Raises NotFound."""
    jobtype = f"{who.tenant}-{type_name}"
    before = await service.store.get_handler(who.tenant, jobtype)
    if before is None:
        await _check_quota(service, who)
    stored = await service.store.roll_back_handler(
        who.tenant, jobtype, version, now_ms=service.now_ms(), author=who.key_id
    )
    await audit(service, who.key_id, "handler.rollback", who.tenant, type=type_name, to=version, version=stored.version)
    await _replaced(service, before)
    return stored


async def delete_handler(service: Service, who: Principal, type_name: str) -> None:
    """Jobs of the type wait from then on. Its versions stay, and can be rolled back to."""
    jobtype = f"{who.tenant}-{type_name}"
    before = await service.store.get_handler(who.tenant, jobtype)
    if not await service.store.delete_handler(who.tenant, jobtype):
        raise Missing(f"type {type_name} has no handler")
    await audit(service, who.key_id, "handler.delete", who.tenant, type=type_name)
    await _replaced(service, before)


async def invoke(
    service: Service, who: Principal, type_name: str, payload: bytes, data: object | None = None
) -> Stopped:
    """Run the handler in force, or the one in `data` without storing it, once and now."""
    handler = _decode(await get_handler(service, who.tenant, type_name)) if data is None else parse_handler(data)
    if handler.lang not in service.control.languages():
        raise InvalidInput(f"this daemon does not run {handler.lang}: ask one that does", detail={"lang": handler.lang})
    return await service.bench.invoke(f"{who.tenant}-{type_name}", handler, payload)


async def _replaced(service: Service, before: StoredHandler | None) -> None:
    if before is not None:
        await service.bench.retire(before.jobtype, _decode(before))
    service.control.wake()


async def _check_quota(service: Service, who: Principal) -> None:
    limit = who.limits.max_handlers
    if limit is None:
        return
    usage = await service.store.get_usage(who.tenant)
    if usage.handlers >= limit:
        raise QuotaExceeded(
            f"the tenant has {usage.handlers} handlers, and may have {limit}: delete one, or ask the operator for more",
            detail={"quota": "max_handlers", "limit": limit},
        )


def _decode(stored: StoredHandler) -> Handler:
    return decode_handler(stored.data)
