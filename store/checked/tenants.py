"""The verbs on tenants, keys, the audit log, values written once and notes, checked."""

from store.checked.core import CheckedCore
from store.checks import (
    check_audit_cursor,
    check_audit_event,
    check_key,
    check_note,
    check_page_limit,
    check_range,
    check_tenant_record,
    check_text,
    check_time,
    check_weight,
)
from store.names import MAX_BATCH, check_label, check_tenant
from store.protocol.notes import NoteBoard
from store.protocol.tenants import TenantRegister
from store.values.records import ApiKey, AuditEvent, AuditPage, DeleteReport, Tenant


class CheckedTenants(CheckedCore, TenantRegister):
    async def create_tenant(self, tenant: Tenant) -> None:
        check_tenant_record(tenant)
        await self._back.create_tenant(tenant)

    async def get_tenant(self, name: str) -> Tenant | None:
        check_tenant(name)
        return await self._back.get_tenant(name)

    async def list_tenants(self) -> list[Tenant]:
        return await self._back.list_tenants()

    async def update_tenant(
        self,
        name: str,
        *,
        weight: int | None = None,
        limits: str | None = None,
        suspended: bool | None = None,
    ) -> Tenant:
        check_tenant(name)
        if weight is not None:
            check_weight(weight)
        if limits is not None:
            check_text("limits", limits)
        return await self._back.update_tenant(name, weight=weight, limits=limits, suspended=suspended)

    async def delete_tenant(
        self, name: str, *, limit: int = 1000, only_leftovers: bool = False, only_deleting: bool = False
    ) -> DeleteReport:
        check_tenant(name)
        check_range("limit", limit, 1, MAX_BATCH)
        return await self._back.delete_tenant(
            name, limit=limit, only_leftovers=only_leftovers, only_deleting=only_deleting
        )

    async def add_key(self, key: ApiKey) -> None:
        check_key(key)
        await self._back.add_key(key)

    async def get_key(self, key_id: str) -> ApiKey | None:
        check_label("key id", key_id)
        return await self._back.get_key(key_id)

    async def list_keys(self, tenant: str) -> list[ApiKey]:
        _check_owner_of_keys(tenant)
        return await self._back.list_keys(tenant)

    async def set_key_expiry(self, tenant: str, key_id: str, expires_ms: int | None) -> ApiKey:
        _check_owner_of_keys(tenant)
        check_label("key id", key_id)
        return await self._back.set_key_expiry(tenant, key_id, expires_ms)

    async def delete_key(self, tenant: str, key_id: str) -> bool:
        _check_owner_of_keys(tenant)
        check_label("key id", key_id)
        return await self._back.delete_key(tenant, key_id)

    async def append_audit(self, event: AuditEvent) -> None:
        check_audit_event(event)
        await self._back.append_audit(event)

    async def list_audit(self, *, tenant: str | None = None, cursor: str | None = None, limit: int = 100) -> AuditPage:
        check_page_limit(limit)
        if tenant:
            check_tenant(tenant)
        if cursor is not None:
            check_audit_cursor(cursor)
        return await self._back.list_audit(tenant=tenant, cursor=cursor, limit=limit)

    async def get_once(self, tenant: str, key: str, *, now_ms: int) -> bytes | None:
        check_tenant(tenant)
        check_note(key)
        check_time("now_ms", now_ms)
        return await self._back.get_once(tenant, key, now_ms=now_ms)

    async def put_once(self, tenant: str, key: str, value: bytes, *, expires_ms: int, now_ms: int) -> bytes:
        check_tenant(tenant)
        check_note(key, value)
        check_time("now_ms", now_ms)
        return await self._back.put_once(tenant, key, value, expires_ms=expires_ms, now_ms=now_ms)

    async def delete_once(self, tenant: str, key: str, value: bytes) -> None:
        check_tenant(tenant)
        check_note(key, value)
        await self._back.delete_once(tenant, key, value)


class CheckedNotes(CheckedCore, NoteBoard):
    async def put_note(self, key: str, value: bytes, *, expires_ms: int) -> None:
        check_note(key, value)
        await self._back.put_note(key, value, expires_ms=expires_ms)

    async def get_note(self, key: str, *, now_ms: int) -> bytes | None:
        check_note(key)
        check_time("now_ms", now_ms)
        return await self._back.get_note(key, now_ms=now_ms)

    async def drop_note(self, key: str) -> bool:
        check_note(key)
        return await self._back.drop_note(key)


def _check_owner_of_keys(tenant: str) -> None:
    if tenant:  # the operator's keys have none
        check_tenant(tenant)
