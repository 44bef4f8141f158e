"""The operator's routes: tenants, keys, pauses, daemons, the audit log."""

from typing import Any

import msgspec

from functory.operations import audit, daemons, keys, tenants, type_controls, unasked
from functory.operations.consumers import leader_of, list_all_consumers
from functory.operations.figures import usage_of
from functory.operations.principal import OPERATOR
from functory.tenant_limits import limits_from
from functory.web.http.endpoint import Call
from functory.web.http.routes import Routes
from functory.wire.admin import (
    AuditPage,
    AuditQuery,
    AuditRow,
    ConsumerLeader,
    Daemon,
    DaemonList,
    Deleted,
    DeleteQuery,
    HealthDetail,
    Key,
    KeyList,
    KeyWithSecret,
    NewKey,
    NewTenant,
    RotateBody,
    Tenant,
    TenantChange,
    TenantList,
    TenantWithUsage,
    UnaskedType,
)
from functory.wire.base import Done
from functory.wire.scoreboard import UsageRow
from functory.workers.unasked import Unasked
from store.base import ApiKey, ConsumerRecord
from store.base import Tenant as StoredTenant
from vocabulary.names import tenant_of, type_of

routes = Routes()


@routes.add("GET", "/admin/tenants", scope="operator", summary="All tenants")
async def list_tenants(call: Call) -> TenantList:
    return TenantList([_show_tenant(it) for it in await tenants.list_tenants(call.service)])


@routes.add("POST", "/admin/tenants", scope="operator", summary="Create a tenant", status=201)
async def create_tenant(call: Call, body: NewTenant) -> Tenant:
    actor = call.principal.key_id
    return _show_tenant(await tenants.create_tenant(call.service, actor, body.name, body.weight, body.limits))


@routes.add("GET", "/admin/tenants/{name}", scope="operator", summary="One tenant, with what it has stored")
async def get_tenant(call: Call) -> TenantWithUsage:
    tenant = await tenants.get_tenant(call.service, call.param("name"))
    usage = await usage_of(call.service, tenant.name)
    return TenantWithUsage(**msgspec.structs.asdict(_show_tenant(tenant)), usage=UsageRow(*usage))


@routes.add("PATCH", "/admin/tenants/{name}", scope="operator", summary="Change weight, limits or suspension")
async def update_tenant(call: Call, body: TenantChange) -> Tenant:
    return await _update(call, weight=body.weight, limits=body.limits, suspended=body.suspended)


@routes.add("POST", "/admin/tenants/{name}/pause", scope="operator", summary="Suspend a tenant")
async def pause_tenant(call: Call) -> Tenant:
    return await _update(call, suspended=True)


@routes.add("POST", "/admin/tenants/{name}/resume", scope="operator", summary="End the suspension of a tenant")
async def resume_tenant(call: Call) -> Tenant:
    return await _update(call, suspended=False)


async def _update(call: Call, **changes: Any) -> Tenant:
    changed = await tenants.update_tenant(call.service, call.principal.key_id, call.param("name"), **changes)
    return _show_tenant(changed)


@routes.add("DELETE", "/admin/tenants/{name}", scope="operator", summary="Delete a tenant with all its data")
async def delete_tenant(call: Call, query: DeleteQuery) -> Deleted:
    name = call.param("name")
    if query.only_deleting:
        report = await tenants.go_on_deleting(call.service, name)
    else:
        await tenants.get_tenant(call.service, name)
        report = await tenants.delete_tenant(call.service, call.principal.key_id, name)
    return Deleted(report.removed, report.more)


@routes.add("POST", "/admin/tenants/{name}/types/{type}/pause", scope="operator", summary="Pause a type of a tenant")
async def pause_type(call: Call) -> Done:
    await _pause_type(call, paused=True)
    return Done()


@routes.add("POST", "/admin/tenants/{name}/types/{type}/resume", scope="operator", summary="Resume a type of a tenant")
async def resume_type(call: Call) -> Done:
    await _pause_type(call, paused=False)
    return Done()


async def _pause_type(call: Call, *, paused: bool) -> None:
    tenant = await _owner(call)
    await type_controls.pause_type(call.service, call.principal, tenant, call.type_name, paused=paused)


@routes.add("GET", "/admin/keys", scope="operator", summary="The operator's keys, without their secrets")
@routes.add("GET", "/admin/tenants/{name}/keys", scope="operator", summary="A tenant's keys, without their secrets")
async def list_keys(call: Call) -> KeyList:
    return KeyList([_show_key(key) for key in await keys.list_keys(call.service, await _owner(call))])


@routes.add("POST", "/admin/keys", scope="operator", summary="Make an operator's key", status=201)
@routes.add("POST", "/admin/tenants/{name}/keys", scope="operator", summary="Make a key for a tenant", status=201)
async def create_key(call: Call, body: NewKey) -> KeyWithSecret:
    key, text = await keys.create_key(
        call.service,
        call.principal.key_id,
        await _owner(call),
        scopes=body.scopes,
        label=body.label,
        expires_s=body.expires_s,
    )
    return _show_secret(key, text)


@routes.add("POST", "/admin/keys/{key_id}/rotate", scope="operator", summary="Replace an operator's key", status=201)
@routes.add(
    "POST",
    "/admin/tenants/{name}/keys/{key_id}/rotate",
    scope="operator",
    summary="Replace a key; the old one works on for a while",
    status=201,
)
async def rotate_key(call: Call, body: RotateBody) -> KeyWithSecret:
    actor, owner = call.principal.key_id, await _owner(call)
    key, text = await keys.rotate_key(call.service, actor, owner, call.param("key_id"), body.overlap_s, body.expires_s)
    return _show_secret(key, text)


@routes.add("DELETE", "/admin/keys/{key_id}", scope="operator", summary="Revoke an operator's key")
@routes.add("DELETE", "/admin/tenants/{name}/keys/{key_id}", scope="operator", summary="Revoke a key")
async def revoke_key(call: Call) -> Done:
    await keys.revoke_key(call.service, call.principal.key_id, await _owner(call), call.param("key_id"))
    return Done()


@routes.add("GET", "/admin/daemons", scope="operator", summary="The daemons that are alive")
async def list_daemons(call: Call) -> DaemonList:
    found = await daemons.list_daemons(call.service)
    return DaemonList(
        [Daemon(it.sysid, it.reserved_ms, it.until_ms, it.paused, daemons.shown_info_of(it)) for it in found]
    )


@routes.add("POST", "/admin/daemons/{sysid}/pause", scope="operator", summary="Start no more jobs on a daemon")
async def pause_daemon(call: Call) -> Done:
    await daemons.pause_daemon(call.service, call.principal.key_id, call.param("sysid"), paused=True)
    return Done()


@routes.add("POST", "/admin/daemons/{sysid}/resume", scope="operator", summary="Start jobs on a daemon again")
async def resume_daemon(call: Call) -> Done:
    await daemons.pause_daemon(call.service, call.principal.key_id, call.param("sysid"), paused=False)
    return Done()


@routes.add("GET", "/admin/audit", scope="operator", summary="What operators and keys did, newest first")
async def list_audit(call: Call, query: AuditQuery) -> AuditPage:
    page = await audit.list_audit(call.service, tenant=query.tenant, cursor=query.cursor, limit=query.limit)
    return AuditPage([AuditRow(*event) for event in page.events], page.cursor)


@routes.add("GET", "/admin/health", scope="operator", summary="How this daemon is, in words and numbers")
async def get_health(call: Call) -> HealthDetail:
    control = call.service.control
    health = control.health()
    return HealthDetail(
        is_live=health.is_live,
        is_ready=health.is_ready,
        is_paused=control.is_paused,
        sysid=control.sysid,
        isolation=health.isolation,
        problems=health.problems,
        languages=sorted(control.languages()),
        gauges=control.gauges(),
        consumers=[_show_leader(it, call.service.now_ms()) for it in await list_all_consumers(call.service)],
        unasked=[_show_unasked(each) for each in await unasked.long_unasked(call.service)],
    )


def _show_leader(record: ConsumerRecord, now_ms: int) -> ConsumerLeader:
    leader = leader_of(record, now_ms)
    return ConsumerLeader(record.tenant, record.name, leader or None, record.until_ms if leader else None)


def _show_unasked(each: Unasked) -> UnaskedType:
    tenant, type_name = tenant_of(each.jobtype), type_of(each.jobtype)
    return UnaskedType(tenant, type_name, each.waiting, each.seconds, unasked.in_words(each))


async def _owner(call: Call) -> str:
    """The tenant in the path, which must exist; the operator on the paths without one."""
    name = call.params.get("name")
    if name is None:
        return OPERATOR
    return (await tenants.get_tenant(call.service, name)).name


def _show_tenant(tenant: StoredTenant) -> Tenant:
    return Tenant(
        name=tenant.name,
        created_ms=tenant.created_ms,
        weight=tenant.weight,
        limits=limits_from(tenant.limits),
        suspended=tenant.suspended,
        deleting=tenant.deleting,
    )


def _show_key(key: ApiKey) -> Key:
    return Key(key.key_id, key.tenant, list(key.scopes), key.created_ms, key.expires_ms, key.label)


def _show_secret(key: ApiKey, text: str) -> KeyWithSecret:
    return KeyWithSecret(key.key_id, key.tenant, list(key.scopes), key.created_ms, key.expires_ms, key.label, text)
