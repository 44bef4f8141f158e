"""Reading jobs: one by one, and in pages that follow an index, whatever the number of jobs.

A page of a tenant comes from many index ranges (one per type and code, or per lane). One statement looks at the first
place of each; only ranges that begin within the page are read, lazily, in chunks that grow, and merged: the cost is a
seek per range and the rows of the page.
"""

import heapq
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import apsw

from store.errors import InvalidValue
from store.sqlite.file.buckets import CODES
from store.sqlite.file.bulk import numbers
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import INLINE_BYTES, QUEUED, State
from store.sqlite.queue.listing_ranges import LEASED_STATES, QUEUED_STATES, Ranges, chosen, leased, ranges_of
from store.sqlite.queue.rows import RECORD, data_key, disposition, read_blob, record_from_row, result_key
from store.values.jobs import JobFilter, JobPage, JobRecord, state_of, time_window
from store.values.repeating import RepeatingPlace, place_of
from store.values.schedules import LISTED_ROUNDS
from vocabulary.states import Code, JobState

_REPEATS: Final = (
    f"repeat IS NOT NULL AND state < {State.ARCHIVED} AND (repeat <> '' OR state = {State.HELD})"  # '': it did
)
_REPEATING_TYPES: Final = (
    "SELECT type, jobtype FROM types t WHERE tenant = ? AND jobtype >= ?"
    f" AND EXISTS (SELECT 1 FROM jobs WHERE type = t.type AND {_REPEATS}) ORDER BY jobtype LIMIT ?"
)
_REPEATING: Final = f"SELECT n FROM jobs WHERE type = ? AND id > ? AND {_REPEATS} ORDER BY id LIMIT ?"
_CHILDREN: Final = "WHERE j.parent = ? AND j.parent IS NOT NULL AND t.tenant = ? AND j.id > ? ORDER BY j.id LIMIT ?"


_AHEAD: Final = (
    "SELECT count(*) FROM (SELECT 1 FROM lanes l CROSS JOIN jobs j ON j.lane = l.lane WHERE l.type = ?1"
    " AND l.priority {} ?2 AND l.waiting + l.deferred > 0 AND (l.ready IS NULL OR l.ready <= ?3 OR l.until > ?3)"
    f" AND j.state {QUEUED} AND (j.due, j.id) < (?3, ?4) LIMIT ?5)"
)
"""In one statement, which ends at the limit, for a tenant may have very many lanes. Most that have nothing so early are
known by the time at which they may run; one that waited for a token may have had jobs before that."""


class _Place(NamedTuple):
    """Where a job stands in a listing: its time, what orders those of one time (number or id), its number."""

    time_ms: int
    tie: Any
    n: int


def get_job(
    conn: apsw.Connection, tenant: str, job_id: str, now_ms: int, max_bytes: int | None = None
) -> JobRecord | None:
    row = conn.execute(RECORD + "WHERE j.id = ? AND t.tenant = ?", (job_id, tenant)).get
    return None if row is None else record_from_row(conn, row, now_ms, whole=True, max_bytes=max_bytes)


def read_result(conn: apsw.Connection, tenant: str, job_id: str, done_ms: int, start: int, length: int) -> bytes | None:
    sql = (
        "SELECT j.n, j.result_bytes, j.result FROM jobs j JOIN types t ON t.type = j.type"
        " WHERE j.id = ? AND t.tenant = ? AND j.done = ?"
    )
    row = conn.execute(sql, (job_id, tenant, done_ms)).get
    if row is None:
        return None
    n, size_bytes, result = row
    if size_bytes > INLINE_BYTES:
        return read_blob(conn, result_key(n), start, length)
    return bytes(result or b"")[start : start + length]


def get_job_at(conn: apsw.Connection, jobtype: str, seq: int, now_ms: int, max_bytes: int | None) -> JobRecord | None:
    row = conn.execute(RECORD + "WHERE t.jobtype = ? AND j.seq = ? AND j.seq IS NOT NULL", (jobtype, seq)).get
    return None if row is None else record_from_row(conn, row, now_ms, whole=True, max_bytes=max_bytes)


def get_states(conn: apsw.Connection, tenant: str, job_ids: Sequence[str], now_ms: int) -> dict[str, JobState]:
    sql = (
        "SELECT j.state, j.due, j.lease, j.done, j.lock FROM jobs j JOIN types t ON t.type = j.type"
        " WHERE j.id = ? AND t.tenant = ?"
    )
    found = {job_id: conn.execute(sql, (job_id, tenant)).get for job_id in job_ids}
    return {job_id: state_of(*disposition(*row), now_ms) for job_id, row in found.items() if row is not None}


def get_codes(conn: apsw.Connection, tenant: str, job_ids: Sequence[str]) -> dict[str, Code]:
    sql = (
        "SELECT j.code FROM jobs j JOIN types t ON t.type = j.type"
        f" WHERE j.id = ? AND t.tenant = ? AND j.state = {State.ARCHIVED}"
    )
    found = {job_id: conn.execute(sql, (job_id, tenant)).get for job_id in job_ids}
    return {job_id: CODES[number] for job_id, number in found.items() if number is not None}


def list_jobs(
    conn: apsw.Connection, tenant: str, where: JobFilter, now_ms: int, cursor: str | None, limit: int, max_bytes: int
) -> JobPage:
    newest_first = where.state == JobState.ARCHIVED
    since, until = time_window(where, now_ms)
    start: tuple[int, Any] = (until, -1)
    stop = since
    if not newest_first:
        start, stop = (since, "" if where.state in QUEUED_STATES else -1), until
    if cursor is not None:
        place = _decode(cursor, where.state)
        start = min(start, place) if newest_first else max(start, place)
    bounds = {"stop": stop, "time": start[0], "tie": start[1], **chosen(tenant, where)}
    if where.state in LEASED_STATES:
        scans = [_scan(conn, leased(where), bounds)]
    else:
        scans = _scans(conn, ranges_of(conn, tenant, where), bounds, limit + 1, newest_first=newest_first)
    places = list(itertools.islice(heapq.merge(*scans, reverse=newest_first), limit + 1))
    found = [place.n for place in places[:limit]]
    records = _with_data(conn, _records(conn, found, now_ms), found, max_bytes)
    return JobPage(records, _encode(places[limit - 1], where.state) if len(places) > limit else None)


def _scans(
    conn: apsw.Connection, ranges: Iterable[Ranges], bounds: dict[str, Any], count: int, *, newest_first: bool
) -> list[Iterator[_Place]]:
    """Scans of those ranges that can have one of the first `count` places: a range that begins after that many others
    has none. Of a thousand types most are out after this one look."""
    heads = []
    for part in ranges:
        if part.keys:
            values = {**bounds, "part": part.part, "keys": numbers(part.keys), "count": count}
            found = conn.execute(part.source.heads, values).fetchall()
            heads += [(time_ms, tie, part, key) for time_ms, tie, key in found if time_ms is not None]
    heads.sort(key=lambda head: head[:2], reverse=newest_first)
    return [_scan(conn, it.source.rows, {**bounds, "part": it.part, "key": key}) for _, _, it, key in heads[:count]]


def _scan(conn: apsw.Connection, sql: str, values: dict[str, Any]) -> Iterator[_Place]:
    """The places of one range. The first chunk is one row, because most ranges give no more."""
    values = {**values, "count": 1}
    while True:
        rows = conn.execute(sql, values).fetchall()
        yield from map(_Place._make, rows)
        if len(rows) < values["count"]:
            return
        values |= {"time": rows[-1][0], "tie": rows[-1][1], "count": min(values["count"] * 8, 512)}


def _records(conn: apsw.Connection, chosen: list[int], now_ms: int, rounds: int = 0) -> tuple[JobRecord, ...]:
    if not chosen:
        return ()
    rows = fetch(conn, RECORD + "WHERE j.n IN (SELECT value FROM carray(?))", (numbers(chosen),))
    by_number = {row[-1]: row for row in rows}
    return tuple(record_from_row(conn, by_number[n], now_ms, whole=False, rounds=rounds) for n in chosen)


def _with_data(
    conn: apsw.Connection, records: tuple[JobRecord, ...], found: list[int], max_bytes: int
) -> tuple[JobRecord, ...]:
    """The records of a listing, with the beginnings of their payloads: of a large one no more is read."""
    if not records or not max_bytes:
        return records
    sql = "SELECT n, substr(data, 1, ?) FROM jobs WHERE n IN (SELECT value FROM carray(?))"
    begins = dict(conn.execute(sql, (max_bytes, numbers(found))))
    for n, record in zip(found, records, strict=True):
        if record.data_bytes > INLINE_BYTES:
            begins[n] = read_blob(conn, data_key(n), 0, max_bytes)
    with_data = [record.job._replace(data=begins[n] or b"") for n, record in zip(found, records, strict=True)]
    return tuple(record._replace(job=job) for record, job in zip(records, with_data, strict=True))


def _encode(place: _Place, state: JobState) -> str:
    return f"{state}.{place.time_ms}.{place.tie}"


def _decode(cursor: str, state: JobState) -> tuple[int, Any]:
    kind, _, rest = cursor.partition(".")
    time_text, _, tie = rest.partition(".")
    if kind == state and _is_number(time_text):
        if state in QUEUED_STATES:
            return int(time_text), tie
        if _is_number(tie):
            return int(time_text), int(tie)
    raise InvalidValue(f"cursor {cursor!r:.80} is not one of a listing of {state} jobs", field="cursor")


def _is_number(text: str) -> bool:
    """One that fits 64 bits: a larger one cannot be bound."""
    return text.isascii() and text.isdecimal() and len(text) <= 18


def list_repeating(conn: apsw.Connection, tenant: str, now_ms: int, cursor: str | None, limit: int) -> JobPage:
    place = place_of(cursor, tenant)
    chosen: list[int] = []
    for number, jobtype in fetch(conn, _REPEATING_TYPES, (tenant, place.jobtype, limit + 2)):
        after = place.id if jobtype == place.jobtype else ""
        chosen += [n for (n,) in conn.execute(_REPEATING, (number, after, limit + 1 - len(chosen)))]
        if len(chosen) > limit:
            break
    records = _records(conn, chosen[:limit], now_ms, LISTED_ROUNDS)
    last = records[-1].job if len(chosen) > limit else None
    return JobPage(records, RepeatingPlace(last.jobtype, last.id).cursor if last else None)


def list_children(
    conn: apsw.Connection, tenant: str, parent: str, now_ms: int, cursor: str | None, limit: int, max_bytes: int
) -> JobPage:
    rows = conn.execute(RECORD + _CHILDREN, (parent, tenant, cursor or "", limit + 1)).fetchall()
    records = tuple(
        _with_result(conn, record_from_row(conn, row, now_ms, whole=False), row[-1], max_bytes) for row in rows[:limit]
    )
    return JobPage(records, records[-1].job.id if len(rows) > limit else None)


def _with_result(conn: apsw.Connection, record: JobRecord, n: Any, max_bytes: int) -> JobRecord:
    """The record of a listing, with the beginning of its result."""
    if record.outcome is None or not record.result_bytes or not max_bytes:
        return record
    if record.result_bytes > INLINE_BYTES:
        result = read_blob(conn, result_key(n), 0, max_bytes)
    else:
        result = conn.execute("SELECT result FROM jobs WHERE n = ?", (n,)).get[:max_bytes]
    return record._replace(outcome=record.outcome._replace(result=result))


def get_position(conn: apsw.Connection, tenant: str, job_id: str, now_ms: int, cap: int) -> int | None:
    sql = (
        "SELECT j.type, l.priority, j.due FROM jobs j JOIN types t ON t.type = j.type"
        f" JOIN lanes l USING (lane) WHERE j.id = ? AND t.tenant = ? AND j.state {QUEUED} AND j.due <= ?"
    )
    found = conn.execute(sql, (job_id, tenant, now_ms)).get
    if found is None:
        return None
    number, priority, due = found
    ahead = 0
    for which, before_ms, before_id in ((">", now_ms + 1, ""), ("=", due, job_id)):
        values = (number, priority, before_ms, before_id, cap - ahead)
        ahead += conn.execute(_AHEAD.format(which), values).get if ahead < cap else 0
    return ahead
