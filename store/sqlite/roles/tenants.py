"""The tenants' verbs on SQLite."""

from store.protocol.tenants import TenantRegister
from store.sqlite.file.core import SqliteCore
from store.sqlite.records import once, tenants
from store.values.records import ApiKey, AuditEvent, AuditPage, DeleteReport, Tenant


class SqliteTenants(SqliteCore, TenantRegister):
    async def create_tenant(self, tenant: Tenant) -> None:
        await self._write(lambda tx: tenants.create_tenant(tx, tenant))

    async def get_tenant(self, name: str) -> Tenant | None:
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
        return await self._write(
            lambda tx: tenants.update_tenant(tx, name, weight=weight, limits=limits, suspended=suspended)
        )

    async def delete_tenant(
        self, name: str, *, limit: int = 1000, only_leftovers: bool = False, only_deleting: bool = False
    ) -> DeleteReport:
        return await self._write(
            lambda tx: tenants.delete_tenant(tx, name, limit, only_leftovers, only_deleting), bulk=True
        )

    async def add_key(self, key: ApiKey) -> None:
        await self._write(lambda tx: tenants.add_key(tx, key))

    async def get_key(self, key_id: str) -> ApiKey | None:
        return await self._read(lambda conn: tenants.get_key(conn, key_id))

    async def list_keys(self, tenant: str) -> list[ApiKey]:
        return await self._read(lambda conn: tenants.list_keys(conn, tenant))

    async def set_key_expiry(self, tenant: str, key_id: str, expires_ms: int | None) -> ApiKey:
        return await self._write(lambda tx: tenants.set_key_expiry(tx, tenant, key_id, expires_ms))

    async def delete_key(self, tenant: str, key_id: str) -> bool:
        return await self._write(lambda tx: tenants.delete_key(tx, tenant, key_id))

    async def append_audit(self, event: AuditEvent) -> None:
        await self._write(lambda tx: tenants.append_audit(tx, event))

    async def list_audit(self, *, tenant: str | None = None, cursor: str | None = None, limit: int = 100) -> AuditPage:
        return await self._read(lambda conn: tenants.list_audit(conn, tenant, cursor, limit))

    async def get_once(self, tenant: str, key: str, *, now_ms: int) -> bytes | None:
        return await self._read(lambda conn: once.get_once(conn, tenant, key, now_ms))

    async def put_once(self, tenant: str, key: str, value: bytes, *, expires_ms: int, now_ms: int) -> bytes:
        return await self._write(lambda tx: once.put_once(tx, tenant, key, value, expires_ms, now_ms))

    async def delete_once(self, tenant: str, key: str, value: bytes) -> None:
        await self._write(lambda tx: once.delete_once(tx, tenant, key, value))
