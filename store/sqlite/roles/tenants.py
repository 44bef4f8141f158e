"""The tenants' verbs on SQLite."""

from store.checks import (
    MAX_ONCE_BYTES,
    check_page_limit,
    check_range,
    check_tenant_record,
    check_text,
)
from store.errors import InvalidValue
from store.names import MAX_BATCH, check_label, check_tenant
from store.protocol.tenants import TenantRegister
from store.sqlite import tenants
from store.sqlite.core import SqliteCore
from store.values.records import ApiKey, AuditEvent, AuditPage, DeleteReport, Tenant


class SqliteTenants(SqliteCore, TenantRegister):
    async def create_tenant(self, tenant: Tenant) -> None:
        check_tenant_record(tenant)
        await self._write(lambda tx: tenants.create_tenant(tx, tenant))

    async def get_tenant(self, name: str) -> Tenant | None:
        check_tenant(name)
        return await self._read(lambda conn: tenants.get_tenant(conn, name))

    async def list_tenants(self) -> list[Tenant]:
        return await self._read(tenants.list_tenants)

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
            check_range("weight", weight, 1, 1000)
        if limits is not None:
            check_text("limits", limits)
        return await self._write(
            lambda tx: tenants.update_tenant(tx, name, weight=weight, limits=limits, suspended=suspended)
        )

    async def delete_tenant(self, name: str, *, limit: int = 1000) -> DeleteReport:
        check_tenant(name)
        check_range("limit", limit, 1, MAX_BATCH)
        return await self._write(lambda tx: tenants.delete_tenant(tx, name, limit), bulk=True)

    async def add_key(self, key: ApiKey) -> None:
        check_label("key id", key.key_id)
        check_text("label", key.label, 255)
        for scope in key.scopes:
            check_label("scope", scope)
        if key.tenant:
            check_tenant(key.tenant)
        await self._write(lambda tx: tenants.add_key(tx, key))

    async def get_key(self, key_id: str) -> ApiKey | None:
        check_label("key id", key_id)
        return await self._read(lambda conn: tenants.get_key(conn, key_id))

    async def list_keys(self, tenant: str) -> list[ApiKey]:
        return await self._read(lambda conn: tenants.list_keys(conn, tenant))

    async def set_key_expiry(self, tenant: str, key_id: str, expires_ms: int | None) -> ApiKey:
        return await self._write(lambda tx: tenants.set_key_expiry(tx, tenant, key_id, expires_ms))

    async def delete_key(self, tenant: str, key_id: str) -> bool:
        return await self._write(lambda tx: tenants.delete_key(tx, tenant, key_id))

    async def append_audit(self, event: AuditEvent) -> None:
        check_text("actor", event.actor)
        check_text("action", event.action)
        check_text("detail", event.detail)
        if event.tenant:
            check_tenant(event.tenant)
        await self._write(lambda tx: tenants.append_audit(tx, event))

    async def list_audit(self, *, tenant: str | None = None, cursor: str | None = None, limit: int = 100) -> AuditPage:
        check_page_limit(limit)
        return await self._read(lambda conn: tenants.list_audit(conn, tenant, cursor, limit))

    async def put_once(self, tenant: str, key: str, value: bytes, *, expires_ms: int, now_ms: int) -> bytes:
        check_tenant(tenant)
        check_label("key", key)
        if len(value) > MAX_ONCE_BYTES:
            raise InvalidValue(f"value of {len(value)} bytes, at most {MAX_ONCE_BYTES}")
        return await self._write(lambda tx: tenants.put_once(tx, tenant, key, value, expires_ms, now_ms))
