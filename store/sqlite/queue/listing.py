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
from store.sqlite.file.buckets import CODE_NUMBER, CODES
from store.sqlite.file.bulk import numbers
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import INLINE_BYTES, PAUSED, QUEUED, State
from store.sqlite.queue.rows import RECORD, disposition, read_blob, record_from_row, result_key
from store.values.jobs import JobFilter, JobPage, JobRecord, state_of, time_window
from store.values.repeating import RepeatingPlace, place_of
from store.values.schedules import LISTED_ROUNDS
from vocabulary.states import FINAL_CODES, Code, JobState


class _Index(NamedTuple):
    """An index in the order of a listing: the columns of a place in it, and a query that has {key} and {count} open.

    stop, time and tie are where the listing ends and what it continues after.
    """

    time: str
    tie: str
    direction: str
    query: str

    @property
    def rows(self) -> str:
        """The next places of one range."""
        return f"SELECT {self.time}, {self.tie}, n {self.query.format(key=':key', count=':count')}"

    @property
    def heads(self) -> str:
        """The next place of each of many ranges, the first :count of them; ranges without any have none at the end."""
        head = self.query.format(key="k.value", count=1)
        return (
            f"SELECT (SELECT {self.time} {head}) AS time, (SELECT {self.tie} {head}) AS tie, k.value"
            f" FROM carray(:keys) k ORDER BY 1 {self.direction} NULLS LAST, 2 {self.direction} LIMIT :count"
        )


_ARCHIVED: Final = _Index(
    "done",
    "n",
    "DESC",
    f"FROM jobs WHERE state = {State.ARCHIVED} AND type = {{key}} AND code = :code"
    " AND done >= :stop AND (done, n) < (:time, :tie) ORDER BY done DESC, n DESC LIMIT {count}",
)
_QUEUED: Final = _Index(
    "due",
    "id",
    "ASC",
    f"FROM jobs WHERE state {QUEUED} AND lane = {{key}} AND due < :stop AND (due, id) > (:time, :tie)"
    " ORDER BY due, id LIMIT {count}",
)
_PAUSED: Final = _Index(
    "due",
    "n",
    "ASC",
    f"FROM jobs WHERE state {PAUSED} AND type = {{key}} AND due < :stop AND (due, n) > (:time, :tie)"
    " ORDER BY due, n LIMIT {count}",
)
_LEASED: Final = (
    f"SELECT lease, j.n, j.n FROM jobs j JOIN types t ON t.type = j.type WHERE j.state = {State.RUNNING}"
    " AND t.tenant = :tenant AND (:all OR t.jobtype IN (SELECT value FROM carray(:names)))"
    " AND lease < :stop AND (lease, j.n) > (:time, :tie) ORDER BY lease, j.n LIMIT :count"
)
"""Running jobs have one index for all tenants: there are never more of them than daemons have places for."""

_REPEATS: Final = f"repeat IS NOT NULL AND state < {State.ARCHIVED}"
_REPEATING_TYPES: Final = (
    "SELECT type, jobtype FROM types t WHERE tenant = ? AND jobtype >= ?"
    f" AND EXISTS (SELECT 1 FROM jobs WHERE type = t.type AND {_REPEATS}) ORDER BY jobtype LIMIT ?"
)
_REPEATING: Final = f"SELECT n FROM jobs WHERE type = ? AND id > ? AND {_REPEATS} ORDER BY id LIMIT ?"
_CHILDREN: Final = "WHERE j.parent = ? AND j.parent IS NOT NULL AND t.tenant = ? AND j.id > ? ORDER BY j.id LIMIT ?"


class _Place(NamedTuple):
    """Where a job stands in a listing: its time, what orders those of one time (number or id), its number."""

    time_ms: int
    tie: Any
    n: int


class _Ranges(NamedTuple):
    """Parts of an index that differ in their key."""

    source: _Index
    keys: list[int]
    code: int = 0


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
    conn: apsw.Connection, tenant: str, where: JobFilter, now_ms: int, cursor: str | None, limit: int
) -> JobPage:
    newest_first = where.state == JobState.ARCHIVED
    since, until = time_window(where, now_ms)
    start: tuple[int, Any] = (until, -1)
    stop = since
    if not newest_first:
        start, stop = (since, "" if where.state in _QUEUED_STATES else -1), until
    if cursor is not None:
        place = _decode(cursor, where.state)
        start = min(start, place) if newest_first else max(start, place)
    bounds = {"stop": stop, "time": start[0], "tie": start[1]}
    if where.state in {JobState.RUNNING, JobState.LAPSED}:
        scans = [_scan(conn, _LEASED, {"tenant": tenant, **_named(where), **bounds})]
    else:
        scans = _scans(conn, _ranges(conn, tenant, where), bounds, limit + 1, newest_first=newest_first)
    places = list(itertools.islice(heapq.merge(*scans, reverse=newest_first), limit + 1))
    records = _records(conn, [place.n for place in places[:limit]], now_ms)
    return JobPage(records, _encode(places[limit - 1], where.state) if len(places) > limit else None)


_QUEUED_STATES: Final = frozenset({JobState.WAITING, JobState.DEFERRED})


def _ranges(conn: apsw.Connection, tenant: str, where: JobFilter) -> list[_Ranges]:
    chosen = "t.tenant = :tenant AND (:all OR t.jobtype IN (SELECT value FROM carray(:names)))"
    values = {"tenant": tenant, **_named(where)}
    if where.state in _QUEUED_STATES:
        sql = f"SELECT l.lane FROM lanes l JOIN types t ON t.type = l.type WHERE {chosen}"
        return [_Ranges(_QUEUED, [lane for (lane,) in conn.execute(sql, values)])]
    types = fetch(conn, f"SELECT t.type, {ENDED} FROM types t WHERE {chosen}", values)
    if where.state == JobState.PAUSED:
        return [_Ranges(_PAUSED, [number for number, *_ in types])]
    codes = FINAL_CODES if where.codes is None else where.codes & FINAL_CODES
    by_code: dict[int, list[int]] = {}
    for number, code in archived_pairs(types, codes):
        by_code.setdefault(code, []).append(number)
    return [_Ranges(_ARCHIVED, keys, code) for code, keys in by_code.items()]


def _named(where: JobFilter) -> dict[str, Any]:
    return {"all": where.names is None, "names": apsw.carray(where.names or ("",))}


ENDED: Final = "t.ok, t.failed, t.abandoned, t.cancelled"
_ENDED_CODES: Final = (Code.OK, Code.FAILED, Code.ABANDONED, Code.CANCELLED)


def archived_pairs(types: list[tuple[Any, ...]], codes: frozenset[Code]) -> Iterator[tuple[int, int]]:
    """The (type, code) that can have archived jobs, because that type has counted that code, from rows of
    (type, ENDED). A tenant with a thousand types is spared most of four thousand seeks."""
    for number, *counts in types:
        for code, count in zip(_ENDED_CODES, counts, strict=True):
            if count and code in codes:
                yield number, CODE_NUMBER[code]


def _scans(
    conn: apsw.Connection, ranges: Iterable[_Ranges], bounds: dict[str, Any], count: int, *, newest_first: bool
) -> list[Iterator[_Place]]:
    """Scans of those ranges that can have one of the first `count` places: a range that begins after that many others
    has none. Of a thousand types most are out after this one look."""
    heads = []
    for part in ranges:
        if part.keys:
            values = {**bounds, "code": part.code, "keys": numbers(part.keys), "count": count}
            found = conn.execute(part.source.heads, values).fetchall()
            heads += [(time_ms, tie, part, key) for time_ms, tie, key in found if time_ms is not None]
    heads.sort(key=lambda head: head[:2], reverse=newest_first)
    return [_scan(conn, it.source.rows, {**bounds, "code": it.code, "key": key}) for _, _, it, key in heads[:count]]


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


def _encode(place: _Place, state: JobState) -> str:
    return f"{state}.{place.time_ms}.{place.tie}"


def _decode(cursor: str, state: JobState) -> tuple[int, Any]:
    kind, _, rest = cursor.partition(".")
    time_text, _, tie = rest.partition(".")
    if kind == state and _is_number(time_text):
        if state in _QUEUED_STATES:
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
    lanes = "SELECT lane, priority FROM lanes WHERE type = ? AND priority >= ?"
    counting = (
        f"SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state {QUEUED} AND lane = ? AND (due, id) < (?, ?) LIMIT ?)"
    )
    for lane, its_priority in conn.execute(lanes, (number, priority)).fetchall():
        before = (due, job_id) if its_priority == priority else (now_ms + 1, "")
        ahead += conn.execute(counting, (lane, *before, cap - ahead)).get
    return ahead
