"""Tenants, keys and audit events."""

import json
from typing import Any, Final

import apsw

from store.errors import Conflict, NotFound
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import PAUSED, QUEUED, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.row_changes import delete_rows
from store.values.records import ApiKey, AuditEvent, AuditPage, DeleteReport, Tenant

TENANT: Final = "name, created, weight, limits, suspended, deleting"
KEY: Final = "key_id, tenant, hash, scopes, created, expires, label"


def create_tenant(tx: Tx, tenant: Tenant) -> None:
    if get_tenant(tx.conn, tenant.name) is not None:
        raise Conflict(f"the name {tenant.name} is already taken")
    tx.conn.execute("INSERT INTO tenants VALUES (?, ?, ?, ?, ?, ?)", tenant)


def get_tenant(conn: apsw.Connection, name: str) -> Tenant | None:
    row = conn.execute(f"SELECT {TENANT} FROM tenants WHERE name = ?", (name,)).get
    return None if row is None else tenant_from(row)


def list_tenants(conn: apsw.Connection) -> list[Tenant]:
    return [tenant_from(row) for row in conn.execute(f"SELECT {TENANT} FROM tenants ORDER BY name")]


def update_tenant(tx: Tx, name: str, weight: int | None, limits: str | None, suspended: bool | None) -> Tenant:
    row = tx.conn.execute(
        "UPDATE tenants SET weight = coalesce(?, weight), limits = coalesce(?, limits),"
        f" suspended = coalesce(?, suspended) OR deleting WHERE name = ? RETURNING {TENANT}",
        (weight, limits, suspended, name),
    ).get
    if row is None:
        raise NotFound(f"there is no tenant {name}")
    return tenant_from(row)


def tenant_from(row: tuple[Any, ...]) -> Tenant:
    return Tenant._make((*row[:4], bool(row[4]), bool(row[5])))


_JOBS_OF: Final = (
    f"SELECT n FROM jobs WHERE state {QUEUED} AND lane IN (SELECT lane FROM lanes WHERE type = ?1) LIMIT ?2",
    f"SELECT n FROM jobs WHERE state = {State.RUNNING} AND type = ?1 LIMIT ?2",
    f"SELECT n FROM jobs WHERE state {PAUSED} AND type = ?1 LIMIT ?2",
    f"SELECT n FROM jobs WHERE state = {State.ARCHIVED} AND type = ?1 LIMIT ?2",
)
_BUCKETS_OF: Final = (
    "DELETE FROM buckets WHERE (width, start, type) IN (SELECT width, start, ?1 FROM totals"
    " WHERE tenant = (SELECT tenant FROM types WHERE type = ?1))"
)
"""By the totals of the tenant, which are where it has buckets: there is no index by type, and a scan would pass those
of everybody. One whose total is past its age already goes by its own."""
_RECORDS_OF_TYPE: Final = ("handlers", "failures", "lanes", "turns", "token_waits", "types")
_RECORDS_OF_TENANT: Final = (
    "rates", "rate_buckets", "once", "totals", "consumers", "numbers", "secrets", "alerts", "webhooks", "contents"
)  # fmt: skip


def delete_tenant(tx: Tx, name: str, limit: int, only_leftovers: bool, only_deleting: bool) -> DeleteReport:
    """One step. Types go when their jobs are gone, the record of the tenant when its types are."""
    tenant = get_tenant(tx.conn, name)
    if tenant is not None and (only_leftovers or (only_deleting and not tenant.deleting)):
        return DeleteReport(0, more=False)
    sql = "UPDATE tenants SET suspended = 1, deleting = 1 WHERE name = ?"
    tx.conn.execute(sql, (name,))
    tx.conn.execute("DELETE FROM keys WHERE tenant = ?", (name,))
    removed = 0
    types = fetch(tx.conn, "SELECT type FROM types WHERE tenant = ?", (name,))
    for (number,) in types:
        removed += _delete_type(tx, number, limit - removed)
        if removed >= limit:
            return DeleteReport(removed, more=True)
    removed += tx.conn.execute("SELECT count(*) FROM tenants WHERE name = ?", (name,)).get
    for table in _RECORDS_OF_TENANT:
        tx.conn.execute(f"DELETE FROM {table} WHERE tenant = ?", (name,))
    tx.conn.execute("DELETE FROM tenants WHERE name = ?", (name,))
    return DeleteReport(removed, more=False)


def _delete_type(tx: Tx, number: int, limit: int) -> int:
    removed = 0
    for sql in _JOBS_OF:
        numbers = [int(row[0]) for row in tx.conn.execute(sql, (number, limit - removed))]
        delete_rows(tx, numbers)
        removed += len(numbers)
        if removed >= limit:
            return removed
    tx.conn.execute(_BUCKETS_OF, (number,))
    for table in _RECORDS_OF_TYPE:
        tx.conn.execute(f"DELETE FROM {table} WHERE type = ?", (number,))
    tx.catalog.clear()
    return removed + 1


def add_key(tx: Tx, key: ApiKey) -> None:
    if key.tenant and get_tenant(tx.conn, key.tenant) is None:
        raise NotFound(f"there is no tenant {key.tenant} to give a key to")
    if get_key(tx.conn, key.key_id) is not None:
        raise Conflict(f"the key id {key.key_id} is already taken")
    values = (*key[:3], json.dumps(key.scopes), *key[4:])
    tx.conn.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)", values)


def get_key(conn: apsw.Connection, key_id: str) -> ApiKey | None:
    row = conn.execute(f"SELECT {KEY} FROM keys WHERE key_id = ?", (key_id,)).get
    return None if row is None else key_from(row)


def list_keys(conn: apsw.Connection, tenant: str) -> list[ApiKey]:
    sql = f"SELECT {KEY} FROM keys WHERE tenant = ? ORDER BY created, key_id"
    return [key_from(row) for row in conn.execute(sql, (tenant,))]


def set_key_expiry(tx: Tx, tenant: str, key_id: str, expires_ms: int | None) -> ApiKey:
    sql = f"UPDATE keys SET expires = ? WHERE key_id = ? AND tenant = ? RETURNING {KEY}"
    row = tx.conn.execute(sql, (expires_ms, key_id, tenant)).get
    if row is None:
        raise NotFound(f"there is no key {key_id} of that tenant")
    return key_from(row)


def delete_key(tx: Tx, tenant: str, key_id: str) -> bool:
    sql = "DELETE FROM keys WHERE key_id = ? AND tenant = ? RETURNING 1"
    return tx.conn.execute(sql, (key_id, tenant)).get is not None


def key_from(row: tuple[Any, ...]) -> ApiKey:
    return ApiKey._make((*row[:3], tuple(json.loads(row[3])), *row[4:]))


def append_audit(tx: Tx, event: AuditEvent) -> None:
    tx.conn.execute("INSERT INTO audit (at, actor, action, tenant, detail) VALUES (?, ?, ?, ?, ?)", event)


def list_audit(conn: apsw.Connection, tenant: str | None, cursor: str | None, limit: int) -> AuditPage:
    before = 1 << 62 if cursor is None else int(cursor)
    columns = "SELECT at, actor, action, tenant, detail, n FROM audit WHERE n < ?"
    if tenant is None:
        rows = fetch(conn, columns + " ORDER BY n DESC LIMIT ?", (before, limit + 1))
    else:
        sql = columns + " AND tenant = ? ORDER BY n DESC LIMIT ?"
        rows = fetch(conn, sql, (before, tenant, limit + 1))
    events = tuple(AuditEvent(*row[:-1]) for row in rows[:limit])
    return AuditPage(events, str(rows[limit - 1][-1]) if len(rows) > limit else None)
