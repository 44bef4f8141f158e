"""Verbs on tenants, keys, the audit log and values that are written once."""

import abc

from store.values.records import ApiKey, AuditEvent, AuditPage, DeleteReport, Tenant


class TenantRegister(abc.ABC):
    """Who may use the service. A tenant without a record can have jobs; it has the default weight and no limits."""

    @abc.abstractmethod
    async def create_tenant(self, tenant: Tenant) -> None:
        """Raises Conflict when the name is taken (also while it is being deleted), InvalidValue. Atomic."""

    @abc.abstractmethod
    async def get_tenant(self, name: str) -> Tenant | None: ...

    @abc.abstractmethod
    async def list_tenants(self) -> list[Tenant]:
        """All, in order of name."""

    @abc.abstractmethod
    async def update_tenant(
        self,
        name: str,
        *,
        weight: int | None = None,
        limits: str | None = None,
        suspended: bool | None = None,
    ) -> Tenant:
        """Change what is given, and return the tenant. Atomic, idempotent. Raises NotFound, InvalidValue
        (weight not in 1..1000)."""

    @abc.abstractmethod
    async def delete_tenant(
        self, name: str, *, limit: int = 1000, only_leftovers: bool = False, only_deleting: bool = False
    ) -> DeleteReport:
        """Remove a tenant and all its data, at most limit rows in one step; call again while more is True.

        The first step suspends it, marks it as deleting and removes its keys; the last removes the record.
        Running jobs are removed too: their release is stale. Idempotent; deleting a name without record or
        data returns (0, False). only_leftovers: as long as there is no record; a tenant that exists is not touched.
        only_deleting: nor is a tenant that nobody has begun to delete. Of a name without a tenant there may be a record
        that is being deleted until its leftovers are gone.
        """

    @abc.abstractmethod
    async def add_key(self, key: ApiKey) -> None:
        """Raises Conflict when the key id is taken, NotFound when the tenant ("" excepted) has no record."""

    @abc.abstractmethod
    async def get_key(self, key_id: str) -> ApiKey | None:
        """By its public id, expired or not: the caller decides with its own clock."""

    @abc.abstractmethod
    async def list_keys(self, tenant: str) -> list[ApiKey]:
        """In order of creation, then key id. Tenant "" lists the operator's."""

    @abc.abstractmethod
    async def set_key_expiry(self, tenant: str, key_id: str, expires_ms: int | None) -> ApiKey:
        """Rotate with an overlap: let a key end at a time, or never. Idempotent. Raises NotFound."""

    @abc.abstractmethod
    async def delete_key(self, tenant: str, key_id: str) -> bool:
        """Revoke at once; False if there was none."""

    @abc.abstractmethod
    async def append_audit(self, event: AuditEvent) -> None:
        """Events are never changed; only expire_records removes old ones."""

    @abc.abstractmethod
    async def list_audit(self, *, tenant: str | None = None, cursor: str | None = None, limit: int = 100) -> AuditPage:
        """Newest appended first (None: of all). The cursor is opaque and stable. Raises InvalidValue."""

    @abc.abstractmethod
    async def get_once(self, tenant: str, key: str, *, now_ms: int) -> bytes | None:
        """What put_once would answer because it stands there already, or None. Changes nothing."""

    @abc.abstractmethod
    async def put_once(self, tenant: str, key: str, value: bytes, *, expires_ms: int, now_ms: int) -> bytes:
        """Write value under key unless a value that has not expired at now_ms is there; return what stands there.

        Atomic: of several callers with one key, all get the value of one of them. For idempotency keys. Raises
        InvalidValue: value over 1 MiB.
        """

    @abc.abstractmethod
    async def delete_once(self, tenant: str, key: str, value: bytes) -> None:
        """Remove what put_once wrote, if it is this value: who wrote another keeps it. Idempotent."""
