"""Reading jobs: one by one, and in pages that follow an index, whatever the number of jobs.

A page of a tenant comes from many index ranges (one per type and code, or per lane), each read lazily in
chunks that grow, and merged: the cost is one seek per range and the rows of the page.
"""

import contextlib
import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import apsw

from store.errors import InvalidValue
from store.sqlite.buckets import CODE_NUMBER
from store.sqlite.connection import fetch
from store.sqlite.rows import RECORD, disposition, record_from_row
from store.values.jobs import FINAL_CODES, Code, JobFilter, JobPage, JobRecord, JobState, state_of

_END_OF_TIME: Final = 1 << 62

_ARCHIVED: Final = (
    "SELECT done, n, n FROM jobs WHERE state = 5 AND type = ? AND code = ? AND done >= ?"
    " AND (done, n) < (?, ?) ORDER BY done DESC, n DESC LIMIT ?"
)
_QUEUED: Final = (
    "SELECT due, id, n FROM jobs WHERE state <= 1 AND lane = ? AND due < ? AND (due, id) > (?, ?)"
    " ORDER BY due, id LIMIT ?"
)
_PAUSED: Final = (
    "SELECT due, n, n FROM jobs WHERE state IN (3, 4) AND type = ? AND due < ? AND (due, n) > (?, ?)"
    " ORDER BY due, n LIMIT ?"
)
_LEASED: Final = (
    "SELECT lease, j.n, j.n FROM jobs j JOIN types t ON t.type = j.type WHERE j.state = 2 AND t.tenant = ?1"
    " AND (?2 IS NULL OR t.jobtype = ?2) AND lease < ?3 AND (lease, j.n) > (?4, ?5)"
    " ORDER BY lease, j.n LIMIT ?6"
)
"""Running jobs have one index for all tenants: there are never more of them than daemons have places for."""

_CHILDREN: Final = "WHERE j.parent = ? AND j.parent IS NOT NULL AND t.tenant = ? AND j.id > ? ORDER BY j.id LIMIT ?"


class _Place(NamedTuple):
    """Where a job stands in a listing: its time, what orders those of one time (number or id), its number."""

    time_ms: int
    tie: Any
    n: int


class _Range(NamedTuple):
    sql: str
    values: tuple[Any, ...]


def get_job(conn: apsw.Connection, tenant: str, job_id: str, now_ms: int) -> JobRecord | None:
    row = conn.execute(RECORD + "WHERE j.id = ? AND t.tenant = ?", (job_id, tenant)).get
    return None if row is None else record_from_row(conn, row, now_ms, whole=True)


def get_job_at(conn: apsw.Connection, jobtype: str, seq: int, now_ms: int) -> JobRecord | None:
    row = conn.execute(RECORD + "WHERE t.jobtype = ? AND j.seq = ? AND j.seq IS NOT NULL", (jobtype, seq)).get
    return None if row is None else record_from_row(conn, row, now_ms, whole=True)


def get_states(conn: apsw.Connection, tenant: str, job_ids: Sequence[str], now_ms: int) -> dict[str, JobState]:
    sql = (
        "SELECT j.state, j.due, j.lease, j.done, j.lock FROM jobs j JOIN types t ON t.type = j.type"
        " WHERE j.id = ? AND t.tenant = ?"
    )
    found = {job_id: conn.execute(sql, (job_id, tenant)).get for job_id in job_ids}
    return {job_id: state_of(*disposition(*row), now_ms) for job_id, row in found.items() if row is not None}


def list_jobs(
    conn: apsw.Connection, tenant: str, where: JobFilter, now_ms: int, cursor: str | None, limit: int
) -> JobPage:
    newest_first = where.state == JobState.ARCHIVED
    since, until = _window(where, now_ms)
    start: tuple[int, Any] = (until, -1)
    stop = since
    if not newest_first:
        start, stop = (since, "" if where.state in _QUEUED_STATES else -1), until
    if cursor is not None:
        place = _decode(cursor, where.state)
        start = min(start, place) if newest_first else max(start, place)
    scans = [_scan(conn, index_range, stop, start) for index_range in _ranges(conn, tenant, where)]
    places = list(itertools.islice(heapq.merge(*scans, reverse=newest_first), limit + 1))
    records = tuple(_record(conn, place.n, now_ms) for place in places[:limit])
    return JobPage(records, _encode(places[limit - 1], where.state) if len(places) > limit else None)


_QUEUED_STATES: Final = frozenset({JobState.WAITING, JobState.DEFERRED})


def _window(where: JobFilter, now_ms: int) -> tuple[int, int]:
    """The half-open range of times: what was asked for, and what the state itself says."""
    since = where.since_ms or 0
    until = _END_OF_TIME if where.until_ms is None else where.until_ms
    if where.state in {JobState.WAITING, JobState.LAPSED}:
        until = min(until, now_ms + 1)
    elif where.state in {JobState.DEFERRED, JobState.RUNNING}:
        since = max(since, now_ms + 1)
    return since, until


def _ranges(conn: apsw.Connection, tenant: str, where: JobFilter) -> list[_Range]:
    if where.state in {JobState.RUNNING, JobState.LAPSED}:
        return [_Range(_LEASED, (tenant, where.jobtype))]
    chosen = "t.tenant = ?1 AND (?2 IS NULL OR t.jobtype = ?2)"
    if where.state in _QUEUED_STATES:
        sql = f"SELECT l.lane FROM lanes l JOIN types t ON t.type = l.type WHERE {chosen}"
        return [_Range(_QUEUED, row) for row in conn.execute(sql, (tenant, where.jobtype))]
    types = fetch(conn, f"SELECT t.type, {ENDED} FROM types t WHERE {chosen}", (tenant, where.jobtype))
    if where.state == JobState.PAUSED:
        return [_Range(_PAUSED, (number,)) for number, *_ in types]
    codes = FINAL_CODES if where.codes is None else where.codes & FINAL_CODES
    return [_Range(_ARCHIVED, pair) for pair in archived_pairs(types, codes)]


ENDED: Final = "t.ok, t.failed, t.abandoned, t.cancelled"
_ENDED_CODES: Final = (Code.OK, Code.FAILED, Code.ABANDONED, Code.CANCELLED)


def archived_pairs(types: list[tuple[Any, ...]], codes: frozenset[Code]) -> Iterator[tuple[int, int]]:
    """The (type, code) that can have archived jobs, because that type has counted that code, from rows of
    (type, ENDED). A tenant with a thousand types is spared most of four thousand seeks."""
    for number, *counts in types:
        for code, count in zip(_ENDED_CODES, counts, strict=True):
            if count and code in codes:
                yield number, CODE_NUMBER[code]


def _scan(conn: apsw.Connection, index_range: _Range, stop: int, after: tuple[int, Any]) -> Iterator[_Place]:
    """The places of one range after a place. The first chunk is one row, because most ranges give no more."""
    chunk = 1
    while True:
        rows = fetch(conn, index_range.sql, (*index_range.values, stop, *after, chunk))
        yield from map(_Place._make, rows)
        if len(rows) < chunk:
            return
        after = (rows[-1][0], rows[-1][1])
        chunk = min(chunk * 8, 512)


def _record(conn: apsw.Connection, n: int, now_ms: int) -> JobRecord:
    return record_from_row(conn, conn.execute(RECORD + "WHERE j.n = ?", (n,)).get, now_ms, whole=False)


def _encode(place: _Place, state: JobState) -> str:
    return f"{state}.{place.time_ms}.{place.tie}"


def _decode(cursor: str, state: JobState) -> tuple[int, Any]:
    kind, _, rest = cursor.partition(".")
    time_text, _, tie = rest.partition(".")
    if kind == state:
        with contextlib.suppress(ValueError):
            return int(time_text), tie if state in _QUEUED_STATES else int(tie)
    raise InvalidValue(f"cursor {cursor!r:.80} is not one of a listing of {state} jobs")


def list_children(
    conn: apsw.Connection, tenant: str, parent: str, now_ms: int, cursor: str | None, limit: int
) -> JobPage:
    rows = conn.execute(RECORD + _CHILDREN, (parent, tenant, cursor or "", limit + 1)).fetchall()
    records = tuple(record_from_row(conn, row, now_ms, whole=False) for row in rows[:limit])
    return JobPage(records, records[-1].job.id if len(rows) > limit else None)


def get_position(conn: apsw.Connection, tenant: str, job_id: str, now_ms: int, cap: int) -> int | None:
    sql = (
        "SELECT j.type, l.priority, j.due FROM jobs j JOIN types t ON t.type = j.type"
        " JOIN lanes l USING (lane) WHERE j.id = ? AND t.tenant = ? AND j.state <= 1 AND j.due <= ?"
    )
    found = conn.execute(sql, (job_id, tenant, now_ms)).get
    if found is None:
        return None
    number, priority, due = found
    ahead = 0
    lanes = "SELECT lane, priority FROM lanes WHERE type = ? AND priority >= ?"
    counting = "SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state <= 1 AND lane = ? AND (due, id) < (?, ?) LIMIT ?)"
    for lane, its_priority in conn.execute(lanes, (number, priority)).fetchall():
        before = (due, job_id) if its_priority == priority else (now_ms + 1, "")
        ahead += conn.execute(counting, (lane, *before, cap - ahead)).get
    return ahead
