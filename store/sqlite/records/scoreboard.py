"""Reading counters and buckets, and removing old ones. Nothing here looks at jobs, but for those just come due."""

from collections.abc import Iterator, Sequence
from typing import Final

import apsw

from store.names import FORGOTTEN_AFTER_MS, PRIORITIES
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import QUEUED, State
from store.sqlite.file.totals import expire_totals
from store.sqlite.file.writer import Tx
from store.sqlite.queue.deleted import expire_ids
from store.sqlite.records.contents import content_bytes
from store.sqlite.records.daemons import FORGOTTEN
from store.values.histogram import Histogram
from store.values.jobs import WaitingType
from store.values.scoreboard import (
    DUE_CAP,
    FAILURES_KEPT_MS,
    RESOLUTIONS,
    Bucket,
    FailureGroup,
    TypeCounters,
    Usage,
)

_DUE: Final = (
    f"SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = {State.DEFERRED} AND lane = ? AND due <= ? LIMIT ?)"
)
_DUE_BY_TYPE: Final = (
    f"SELECT l.type, count(*) FROM (SELECT lane FROM jobs WHERE state = {State.DEFERRED} AND due <= ? ORDER BY due"
    " LIMIT ?) d JOIN lanes l ON l.lane = d.lane GROUP BY l.type"
)
"""By their time: expire_locks leaves few, and a tenant may have very many lanes of jobs that are due later."""

_DUE_OF_TYPE: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM lanes l CROSS JOIN jobs j ON j.lane = l.lane WHERE l.type = ?"
    f" AND l.deferred > 0 AND j.state = {State.DEFERRED} AND j.due <= ? LIMIT ?)"
)

_COUNTERS: Final = """
SELECT type, jobtype, waiting, deferred, running, blocked, ok, failed, retry, error, abandoned, cancelled, paused
FROM types WHERE {} AND waiting + deferred + running + paused + blocked + ok + failed + retry + error + abandoned
    + cancelled > 0
ORDER BY jobtype
"""
_WITH_HEAD: Final = (
    f" LEFT JOIN jobs h ON h.n = (SELECT n FROM jobs WHERE state {QUEUED} AND lane = l.lane ORDER BY due LIMIT 1)"
)
_SINCE: Final = "max(h.due, h.created, h.done)"
"""When the first job of a lane could first run: not before it entered the queue."""
_OF_TYPES: Final = " FROM lanes l JOIN types t ON t.type = l.type LEFT JOIN tenants o ON o.name = t.tenant"
_WITH_JOBS: Final = (
    " WHERE l.waiting + l.deferred > 0 AND t.handler >= ? AND NOT t.paused AND NOT coalesce(o.suspended, 0)"
)
_QUEUES: Final = (
    f"SELECT t.jobtype, t.handler, ifnull(o.created, 0), l.waiting, l.deferred, l.lane, l.priority, h.due, {_SINCE}"
    f"{_OF_TYPES}{_WITH_HEAD}{_WITH_JOBS}"
)
MOST_LANES: Final = 1000
"""With a domain, in the whole file, that are looked at one by one."""
_MANY: Final = "SELECT 1 FROM lanes WHERE ready IS NOT NULL LIMIT 1 OFFSET ?"
_DOMAINS: Final = (
    "SELECT t.type, t.jobtype, t.handler, ifnull(o.created, 0), t.waiting FROM types t"
    " LEFT JOIN tenants o ON o.name = t.tenant"
    " WHERE t.waiting + t.deferred > 0 AND t.handler >= ? AND NOT t.paused AND NOT coalesce(o.suspended, 0)"
)
_HEADS: Final = (
    f"SELECT {_SINCE} FROM lanes l{_WITH_HEAD} WHERE l.type = ?1 AND l.priority = ?2 AND l.ready IS NOT NULL"
    " AND (l.waiting > 0 OR l.ready <= ?3) AND h.due <= ?3 ORDER BY l.ready LIMIT 50"
)
"""Only of lanes with something due: any number of lanes whose jobs are due later may be ready before them."""
_NEXT_DUE: Final = (
    f"SELECT count(*), min((SELECT min(due) FROM jobs WHERE state = {State.DEFERRED} AND lane = d.lane AND due > ?1))"
    f" FROM (SELECT l.lane{_OF_TYPES} WHERE l.deferred > 0 AND t.handler > 0 AND NOT t.paused"
    " AND NOT coalesce(o.suspended, 0) {} LIMIT ?2) d"
)
_UNORDERED: Final = "AND l.ready IS NULL"
"""Lanes without a domain, and those with keys: no index has them by time, and a look at what waits sees each, too."""
_NO_LIMIT: Final = -1
_NEXT_READY: Final = (
    "SELECT min((SELECT min(ready) FROM lanes WHERE type = t.type AND priority = ?2 AND ready > ?1))"
    " FROM types t LEFT JOIN tenants o ON o.name = t.tenant"
    " WHERE t.handler > 0 AND NOT t.paused AND NOT coalesce(o.suspended, 0)"
)
"""Of lanes with a domain: the index has them in this order."""
_PAUSED: Final = (True,)
_NOT_PAUSED: Final = (False,)


def get_waiting_jobtypes(conn: apsw.Connection, now_ms: int, *, runnable: bool) -> list[WaitingType]:
    is_many = conn.execute(_MANY, (MOST_LANES,)).get is not None
    types = {each.jobtype: each for each in _of_domains(conn, now_ms, runnable=runnable)} if is_many else {}
    sql = f"{_QUEUES} AND l.ready IS NULL" if is_many else _QUEUES
    for jobtype, handler, owner, waiting, deferred, lane, priority, due, oldest in fetch(conn, sql, (int(runnable),)):
        if due is None or due > now_ms:
            continue
        counted = waiting
        if deferred:
            waiting += conn.execute(_DUE, (lane, now_ms, DUE_CAP)).get  # noqa: PLW2901 - the true count
        known, priority = types.get(jobtype), max(priority, 500)  # noqa: PLW2901
        if known is not None:
            oldest = min(oldest, known.oldest_due_ms)  # noqa: PLW2901
            waiting = known.waiting + (waiting - counted if is_many else waiting)  # noqa: PLW2901
            priority = max(priority, known.priority)  # noqa: PLW2901
        types[jobtype] = WaitingType(jobtype, waiting, oldest, handler, priority, owner)
    return [types[jobtype] for jobtype in sorted(types)]


def get_next_due(conn: apsw.Connection, after_ms: int) -> int | None:
    due_ms: int | None
    ((lanes, due_ms),) = fetch(conn, _NEXT_DUE.format(""), (after_ms, MOST_LANES + 1))
    if lanes <= MOST_LANES:
        return due_ms
    found = fetch(conn, _NEXT_DUE.format(_UNORDERED), (after_ms, _NO_LIMIT))
    times: list[int | None] = [found[0][1], *(fetch(conn, _NEXT_READY, (after_ms, p))[0][0] for p in PRIORITIES)]
    return min((time_ms for time_ms in times if time_ms is not None), default=None)


def _of_domains(conn: apsw.Connection, now_ms: int, *, runnable: bool) -> Iterator[WaitingType]:
    """Types of which something waits in lanes with a domain, where there are very many: without a look at each. All
    that waits of such a type is counted. The oldest job is that of the lanes that may run first, and deferred jobs that
    came due count when expire_locks has moved them."""
    for number, jobtype, handler, owner, waiting in fetch(conn, _DOMAINS, (int(runnable),)):
        heads = [(p, since) for p in PRIORITIES for (since,) in fetch(conn, _HEADS, (number, p, now_ms))]
        if heads:
            oldest = min(since for _, since in heads)
            yield WaitingType(jobtype, max(waiting, 1), oldest, handler, max(heads[0][0], 500), owner)


def get_counters(conn: apsw.Connection, tenant: str | None, now_ms: int) -> list[TypeCounters]:
    rows = fetch(conn, _COUNTERS.format("TRUE" if tenant is None else "tenant = ?"), [tenant] if tenant else [])
    found = [TypeCounters._make(row[1:12] + (_PAUSED if row[12] else _NOT_PAUSED)) for row in rows]
    by_type = _due_by_type(conn, now_ms) if any(counters.deferred for counters in found) else {}
    for place, counters in enumerate(found):
        if counters.deferred:
            number = rows[place][0]
            due = _count_due(conn, number, now_ms) if by_type is None else by_type.get(number, 0)
            found[place] = counters._replace(waiting=counters.waiting + due, deferred=counters.deferred - due)
    return found


def _due_by_type(conn: apsw.Connection, now_ms: int) -> dict[int, int] | None:
    """How many jobs of each type are counted as deferred and have come due; None if they are too many to look at."""
    found = dict(fetch(conn, _DUE_BY_TYPE, (now_ms, DUE_CAP + 1)))
    return found if sum(found.values()) <= DUE_CAP else None


def _count_due(conn: apsw.Connection, number: int, now_ms: int) -> int:
    """Jobs of a type that are counted as deferred and have come due, or as many as are looked at."""
    return int(conn.execute(_DUE_OF_TYPE, (number, now_ms, DUE_CAP)).get)


def get_buckets(
    conn: apsw.Connection,
    tenant: str | None,
    jobtype: str | None,
    width_ms: int,
    since_ms: int,
    until_ms: int,
) -> list[Bucket]:
    rows = fetch(
        conn,
        "SELECT t.jobtype, b.start, b.width, b.ok, b.failed, b.retry, b.error, b.abandoned, b.cancelled,"
        " b.runner, b.duration, b.wait FROM buckets b JOIN types t ON t.type = b.type"
        " WHERE b.width = ?1 AND b.start >= ?2 AND b.start < ?3 AND (?4 IS NULL OR t.tenant = ?4)"
        " AND (?5 IS NULL OR t.jobtype = ?5) ORDER BY b.start, t.jobtype",
        (width_ms, since_ms, until_ms, tenant, jobtype),
    )
    return [Bucket._make((*row[:10], Histogram.decode(row[10]), Histogram.decode(row[11]))) for row in rows]


def list_failure_groups(
    conn: apsw.Connection, tenant: str, jobtypes: Sequence[str] | None, since_ms: int, limit: int
) -> list[FailureGroup]:
    rows = fetch(
        conn,
        "SELECT t.jobtype, f.fingerprint, f.message, f.runs, f.first, f.last, f.example"
        " FROM types t JOIN failures f ON f.type = t.type WHERE t.tenant = ?1"
        " AND (?2 OR t.jobtype IN (SELECT value FROM carray(?3))) AND f.last >= ?4"
        " ORDER BY f.last DESC, t.jobtype, f.fingerprint LIMIT ?5",
        (tenant, jobtypes is None, apsw.carray(tuple(jobtypes or ("",))), since_ms, limit),
    )
    return [FailureGroup(*row) for row in rows]


def get_usage(conn: apsw.Connection, tenant: str) -> Usage:
    sql = (
        "SELECT coalesce(sum(stored), 0), coalesce(sum(size_bytes), 0), coalesce(sum(handler <> 0), 0) FROM types"
        " WHERE tenant = ?"
    )
    jobs, size_bytes, handlers = conn.execute(sql, (tenant,)).get
    sql = "SELECT coalesce(sum(length(h.data)), 0) FROM types t JOIN handlers h ON h.type = t.type WHERE t.tenant = ?"
    size_bytes += conn.execute(sql, (tenant,)).get + content_bytes(conn, tenant)
    return Usage(jobs, size_bytes, handlers)


def expire_records(tx: Tx, now_ms: int, audit_before_ms: int, limit: int) -> int:
    """Every table in turn, until the limit is used up."""
    removed = 0
    in_turn = [
        *(
            ("buckets", "width = ? AND start < ?", "width, start, type", (width, now_ms - age))
            for width, age in RESOLUTIONS.items()
        ),
        ("failures", "last < ?", "type, fingerprint", (now_ms - FAILURES_KEPT_MS,)),
        ("audit", "at < ?", "n", (audit_before_ms,)),
        ("once", "expires <= ?", "tenant, key", (now_ms,)),
        ("daemons", FORGOTTEN, "number", (now_ms - FORGOTTEN_AFTER_MS,)),
    ]
    for table, condition, key, values in in_turn:
        found = f"SELECT {key} FROM {table} WHERE {condition} LIMIT ?"
        sql = f"DELETE FROM {table} WHERE ({key}) IN ({found})"
        changes = tx.conn.total_changes()
        tx.conn.execute(sql, (*values, limit - removed))
        removed += tx.conn.total_changes() - changes
    removed += expire_ids(tx, now_ms, limit - removed)
    for width, age in RESOLUTIONS.items():
        expire_totals(tx.conn, width, now_ms - age, limit)
    if removed:
        tx.catalog.clear()  # a bucket that is remembered may be among them
    return removed
