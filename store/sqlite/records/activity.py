"""Buckets of chosen types, and sums over buckets: what pages show."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw

from store.sqlite.file.bulk import numbers
from store.sqlite.file.connection import fetch
from store.sqlite.file.totals import COUNTS
from store.values.histogram import Histogram
from store.values.scoreboard import Bucket, EndedSum, Span
from vocabulary.states import Code

_COLUMNS: Final = ", ".join(f"b.{name}" for name in COUNTS)
_SUMS: Final = ", ".join(f"sum({name})" for name in COUNTS)
_SEEK_SHARE: Final = 4
"""A seek to the bucket of one type costs as much as passing this many buckets in order."""


def get_type_buckets(
    conn: apsw.Connection, jobtypes: Sequence[str], width_ms: int, since_ms: int, until_ms: int
) -> list[Bucket]:
    names = _numbers(conn, jobtypes)
    rows = _of_types(conn, f"{_COLUMNS}, b.duration, b.wait", names, width_ms, since_ms, until_ms)
    found = [
        Bucket._make((names[row[0]], row[1], width_ms, *row[2:9], Histogram.decode(row[9]), Histogram.decode(row[10])))
        for row in rows
    ]
    return sorted(found, key=lambda bucket: (bucket.start_ms, bucket.jobtype))


def get_type_counts(
    conn: apsw.Connection, jobtypes: Sequence[str], width_ms: int, since_ms: int, until_ms: int
) -> dict[str, dict[int, EndedSum]]:
    names = _numbers(conn, jobtypes)
    found: dict[int, dict[int, EndedSum]] = {number: {} for number in names}
    new = tuple.__new__  # a page that is looked at first makes three thousand of them: half of what _make takes
    for row in _of_types(conn, _COLUMNS, names, width_ms, since_ms, until_ms):
        found[row[0]][row[1]] = new(EndedSum, row[2:])
    return {names[number]: counts for number, counts in found.items() if counts}


def _numbers(conn: apsw.Connection, jobtypes: Iterable[str]) -> dict[int, str]:
    """Those of the jobtypes that the store knows, by number."""
    sql = "SELECT type FROM types WHERE jobtype = ?"
    found = ((conn.execute(sql, (jobtype,)).get, jobtype) for jobtype in jobtypes)
    return {number: jobtype for number, jobtype in found if number is not None}


def _of_types(
    conn: apsw.Connection, columns: str, types: Iterable[int], width_ms: int, since_ms: int, until_ms: int
) -> list[tuple[Any, ...]]:
    """(type, start, columns) of each bucket. The key of the table is (width, start, type): each is one seek."""
    chosen, starts = list(types), _starts(width_ms, since_ms, until_ms)
    if not chosen or not starts:
        return []
    sql = (
        f"SELECT b.type, b.start, {columns} FROM buckets b WHERE b.width = ?"
        " AND b.start IN (SELECT value FROM carray(?)) AND b.type IN (SELECT value FROM carray(?))"
    )
    return fetch(conn, sql, (width_ms, numbers(starts), numbers(chosen)))


def _starts(width_ms: int, since_ms: int, until_ms: int) -> range:
    return range(-(-since_ms // width_ms) * width_ms, until_ms, width_ms)


def sum_by_start(
    conn: apsw.Connection, tenant: str | None, width_ms: int, since_ms: int, until_ms: int
) -> dict[int, EndedSum]:
    rows = fetch(
        conn,
        f"SELECT start, {_SUMS} FROM totals WHERE width = ?1 AND start >= ?2 AND start < ?3"
        f" {'' if tenant is None else 'AND tenant = ?4'} GROUP BY start",
        (width_ms, since_ms, until_ms, *([] if tenant is None else [tenant])),
    )
    return {start: EndedSum(*counts) for start, *counts in rows}


def sum_by_type(
    conn: apsw.Connection, tenant: str | None, width_ms: int, since_ms: int, until_ms: int
) -> dict[str, EndedSum]:
    rows = fetch(
        conn,
        f"SELECT (SELECT jobtype FROM types WHERE type = b.type), {_SUMS} FROM buckets b"
        " WHERE b.width = ?1 AND b.start >= ?2 AND b.start < ?3"
        " AND (?4 IS NULL OR b.type IN (SELECT type FROM types WHERE tenant = ?4)) GROUP BY b.type",
        (width_ms, since_ms, until_ms, tenant),
    )
    return {jobtype: EndedSum(*counts) for jobtype, *counts in rows}


def count_by_type(conn: apsw.Connection, tenant: str, codes: Iterable[Code], spans: Iterable[Span]) -> dict[str, int]:
    """A tenant with few of all types seeks its buckets, one with most of them passes those of others on the way."""
    names: dict[int, str] = dict(fetch(conn, "SELECT type, jobtype FROM types WHERE tenant = ?", (tenant,)))
    ended = " + ".join(f"b.{code.value}" for code in sorted(codes))
    if not names or not ended:
        return {}
    where = "b.start >= ? AND b.start < ?"
    is_seeking = len(names) * _SEEK_SHARE < conn.execute("SELECT max(type) FROM types").get
    if is_seeking:
        where = "b.start IN (SELECT value FROM carray(?)) AND b.type IN (SELECT value FROM carray(?))"
    sql = f"SELECT b.type, sum({ended}) FROM buckets b WHERE b.width = ? AND {where} AND {ended} > 0 GROUP BY b.type"
    counts = dict.fromkeys(names, 0)
    for sign, width_ms, since_ms, until_ms in spans:
        values: tuple[Any, ...] = (since_ms, until_ms)
        if is_seeking:
            values = (numbers([*_starts(width_ms, since_ms, until_ms), -1]), numbers(names))  # an array is never empty
        for number, count in fetch(conn, sql, (width_ms, *values)):
            if number in counts:
                counts[number] += sign * count
    return {names[number]: count for number, count in counts.items() if count}
