"""Tenants, keys and audit events."""

import json
from typing import Any, Final, NamedTuple

import apsw

from store.errors import Conflict, NotFound
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import PAUSED, QUEUED, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.row_changes import count_fitting, count_removable, delete_rows
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


_MOST_TYPES: Final = 20
"""In one step: for each, all times are looked up at which its tenant has buckets."""
_RUNNING_OF: Final = (
    f"SELECT n FROM jobs WHERE state = {State.RUNNING} AND type IN (SELECT type FROM types WHERE tenant = ?) LIMIT ?"
)
"""Of all types in one look: no index has them by type."""
_JOBS_OF: Final = (
    f"SELECT j.n FROM lanes l CROSS JOIN jobs j ON j.lane = l.lane WHERE l.type = ? AND j.state {QUEUED} LIMIT ?",
    f"SELECT n FROM jobs WHERE state {PAUSED} AND type = ? LIMIT ?",
    f"SELECT n FROM jobs WHERE state = {State.ARCHIVED} AND type = ? LIMIT ?",
)


class _Rows(NamedTuple):
    """Rows that go, by their key in the table: the columns of `source`, for an owner. size: of what each has beside."""

    table: str
    key: str
    columns: str
    source: str
    size: str = "0"


def _rows_of(owner: str, table: str, key: str, size: str = "0") -> _Rows:
    return _Rows(table, key, key, f"{table} WHERE {owner} = ?1", size)


_BUCKETS_OF: Final = (
    "totals o CROSS JOIN buckets b ON b.width = o.width AND b.start = o.start AND b.type = ?1"
    " WHERE o.tenant = (SELECT tenant FROM types WHERE type = ?1)"
)
"""By the totals of the tenant, which are where it has buckets: there is no index by type, and a scan would pass those
of everybody. One whose total is past its age already goes by its own."""
_RECORDS_OF_TYPE: Final = (
    _Rows("buckets", "width, start, type", "b.width, b.start, b.type", _BUCKETS_OF),
    _rows_of("type", "handlers", "type, version", "length(data)"),
    _rows_of("type", "failures", "type, fingerprint"),
    _rows_of("type", "lanes", "lane"),
    _rows_of("type", "turns", "turn"),
    _rows_of("type", "token_waits", "type, domain"),
    _rows_of("type", "types", "type"),
)
_RECORDS_OF_TENANT: Final = (
    _rows_of("tenant", "rates", "tenant, domain"),
    _rows_of("tenant", "rate_buckets", "tenant, domain"),
    _rows_of("tenant", "once", "tenant, key", "length(value)"),
    _rows_of("tenant", "totals", "tenant, width, start"),
    _rows_of("tenant", "consumers", "tenant, name"),
    _rows_of("tenant", "numbers", "tenant"),
    _rows_of("tenant", "secrets", "tenant, name"),
    _rows_of("tenant", "alerts", "tenant, name"),
    _rows_of("tenant", "webhooks", "tenant, name"),
    _rows_of("tenant", "contents", "tenant, digest", "size"),
)


def delete_tenant(tx: Tx, name: str, limit: int, only_leftovers: bool, only_deleting: bool) -> DeleteReport:
    """One step. Types go when their jobs are gone, the record of the tenant when all else is."""
    tenant = get_tenant(tx.conn, name)
    if tenant is not None and (only_leftovers or (only_deleting and not tenant.deleting)):
        return DeleteReport(0, more=False)
    sql = "UPDATE tenants SET suspended = 1, deleting = 1 WHERE name = ?"
    tx.conn.execute(sql, (name,))
    tx.conn.execute("DELETE FROM keys WHERE tenant = ?", (name,))
    step = _Step(tx, limit)
    is_all = step.jobs(_RUNNING_OF, name) and step.types(name)
    is_all = is_all and all(step.rows(rows, name) for rows in _RECORDS_OF_TENANT)
    tx.catalog.clear()
    if not is_all:
        return DeleteReport(step.removed, more=True)
    gone = tx.conn.execute("DELETE FROM tenants WHERE name = ? RETURNING 1", (name,)).get
    return DeleteReport(step.removed + (gone or 0), more=False)


class _Step:
    """What one transaction removes: so many rows, and no more bytes than others can wait for. Each verb returns whether
    nothing is left of what it was to remove."""

    def __init__(self, tx: Tx, limit: int) -> None:
        self._tx = tx
        self._limit = limit
        self.removed = 0

    def jobs(self, sql: str, owner: str | int) -> bool:
        left = self._limit - self.removed
        found = [n for (n,) in fetch(self._tx.conn, sql, (owner, left))]
        taken = found[: count_removable(self._tx, found)]
        delete_rows(self._tx, taken)
        self.removed += len(taken)
        return len(taken) == len(found) < left

    def types(self, tenant: str) -> bool:
        sql = "SELECT type FROM types WHERE tenant = ? LIMIT ?"
        numbers = fetch(self._tx.conn, sql, (tenant, _MOST_TYPES + 1))
        return all(self._type(number) for (number,) in numbers[:_MOST_TYPES]) and len(numbers) <= _MOST_TYPES

    def _type(self, number: int) -> bool:
        are_gone = all(self.jobs(sql, number) for sql in _JOBS_OF)
        return are_gone and all(self.rows(rows, number) for rows in _RECORDS_OF_TYPE)

    def rows(self, rows: _Rows, owner: str | int) -> bool:
        table, key, columns, source, size = rows
        left = self._limit - self.removed
        sizes = [its for (its,) in fetch(self._tx.conn, f"SELECT {size} FROM {source} LIMIT ?2", (owner, left))]
        count = count_fitting(sizes)
        sql = f"DELETE FROM {table} WHERE ({key}) IN (SELECT {columns} FROM {source} LIMIT ?2)"
        self._tx.conn.execute(sql, (owner, count))
        self.removed += count
        return count == len(sizes) < left


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
