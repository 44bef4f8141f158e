"""Values that are written once, and the jobs of a request that are added with one."""

from collections.abc import Sequence
from typing import Final

import apsw

from store.sqlite.file.writer import Tx
from store.sqlite.queue.add import insert_jobs
from store.values.again import Binding
from store.values.jobs import NewJob

_WRITE: Final = "INSERT OR REPLACE INTO once VALUES (?, ?, ?, ?)"


def get_once(conn: apsw.Connection, tenant: str, key: str, now_ms: int) -> bytes | None:
    sql = "SELECT value FROM once WHERE tenant = ? AND key = ? AND expires > ?"
    standing = conn.execute(sql, (tenant, key, now_ms)).get
    return None if standing is None else bytes(standing)


def put_once(tx: Tx, tenant: str, key: str, value: bytes, expires_ms: int, now_ms: int) -> bytes:
    standing = get_once(tx.conn, tenant, key, now_ms)
    if standing is not None:
        return standing
    tx.conn.execute(_WRITE, (tenant, key, value, expires_ms))
    return value


def delete_once(tx: Tx, tenant: str, key: str, value: bytes) -> None:
    tx.conn.execute("DELETE FROM once WHERE tenant = ? AND key = ? AND value = ?", (tenant, key, value))


def add_jobs_once(tx: Tx, binding: Binding, jobs: Sequence[NewJob], now_ms: int) -> bytes:
    standing = get_once(tx.conn, binding.tenant, binding.key, now_ms)
    if standing is not None:
        return standing
    insert_jobs(tx, jobs, now_ms)
    more = () if binding.more is None else (binding.more,)
    for key, value in (*more, (binding.key, binding.value)):
        tx.conn.execute(_WRITE, (binding.tenant, key, value, binding.expires_ms))
    tx.conn.execute(_WRITE, (binding.tenant, binding.done, b"", binding.done_until_ms))
    return binding.value
