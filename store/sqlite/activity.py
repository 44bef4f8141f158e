"""Buckets of chosen types, and sums over buckets: what pages show."""

import json
from collections.abc import Iterator
from typing import Any, Final

import apsw

from store.sqlite.connection import fetch
from store.values.histogram import Histogram
from store.values.scoreboard import Bucket, EndedSum

_COUNTS: Final = "b.ok, b.failed, b.retry, b.error, b.abandoned, b.cancelled, b.runner"
_SUMS: Final = ", ".join(f"sum({column})" for column in _COUNTS.split(", "))


def get_type_buckets(
    conn: apsw.Connection, jobtypes: list[str], width_ms: int, since_ms: int, until_ms: int
) -> list[Bucket]:
    return [
        Bucket._make((*row[:10], Histogram.decode(row[10]), Histogram.decode(row[11])))
        for row in _of_types(conn, f"{_COUNTS}, b.duration, b.wait", jobtypes, width_ms, since_ms, until_ms)
    ]


def get_type_counts(
    conn: apsw.Connection, jobtypes: list[str], width_ms: int, since_ms: int, until_ms: int
) -> dict[str, dict[int, EndedSum]]:
    found: dict[str, dict[int, EndedSum]] = {}
    for jobtype, start, _, *counts in _of_types(conn, _COUNTS, jobtypes, width_ms, since_ms, until_ms):
        found.setdefault(jobtype, {})[start] = EndedSum._make(counts)
    return found


def _of_types(
    conn: apsw.Connection, columns: str, jobtypes: list[str], width_ms: int, since_ms: int, until_ms: int
) -> Iterator[tuple[Any, ...]]:
    """One statement per bucket of time: the key of the table is (width, start, type), so each type is one seek."""
    sql = "SELECT type FROM types WHERE jobtype IN (SELECT value FROM json_each(?))"
    numbers = json.dumps([number for (number,) in fetch(conn, sql, (json.dumps(jobtypes),))])
    sql = (
        f"SELECT t.jobtype, b.start, b.width, {columns} FROM buckets b JOIN types t ON t.type = b.type"
        " WHERE b.width = ? AND b.start = ? AND b.type IN (SELECT value FROM json_each(?)) ORDER BY t.jobtype"
    )
    for start in range(-(-since_ms // width_ms) * width_ms, until_ms, width_ms):
        yield from conn.execute(sql, (width_ms, start, numbers))


def sum_by_start(
    conn: apsw.Connection, tenant: str | None, width_ms: int, since_ms: int, until_ms: int
) -> dict[int, EndedSum]:
    rows = fetch(
        conn,
        f"SELECT b.start, {_SUMS} FROM buckets b WHERE b.width = ?1 AND b.start >= ?2 AND b.start < ?3"
        " AND (?4 IS NULL OR b.type IN (SELECT type FROM types WHERE tenant = ?4)) GROUP BY b.start",
        (width_ms, since_ms, until_ms, tenant),
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
