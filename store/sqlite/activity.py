"""Buckets of chosen types, and sums over buckets: what pages show."""

import json
from typing import Final

import apsw

from store.sqlite.connection import fetch
from store.values.histogram import Histogram
from store.values.scoreboard import Bucket, EndedSum

_COUNTS: Final = "b.ok, b.failed, b.retry, b.error, b.abandoned, b.cancelled, b.runner"
_SUMS: Final = ", ".join(f"sum({column})" for column in _COUNTS.split(", "))


def get_type_buckets(
    conn: apsw.Connection, jobtypes: list[str], width_ms: int, since_ms: int, until_ms: int, *, histograms: bool
) -> list[Bucket]:
    """One statement per bucket of time: the key of the table is (width, start, type), so each type is one seek."""
    found = fetch(
        conn, "SELECT type, jobtype FROM types WHERE jobtype IN (SELECT value FROM json_each(?))", (_json(jobtypes),)
    )
    names = dict(found)
    numbers = _json(sorted(names))
    columns = f"{_COUNTS}, b.duration, b.wait" if histograms else _COUNTS
    sql = (
        f"SELECT b.type, b.start, b.width, {columns} FROM buckets b"
        " WHERE b.width = ? AND b.start = ? AND b.type IN (SELECT value FROM json_each(?))"
    )
    buckets = []
    for start in range(-(-since_ms // width_ms) * width_ms, until_ms, width_ms):
        here = []
        for number, *row in conn.execute(sql, (width_ms, start, numbers)):
            cells = (Histogram.decode(row[9]), Histogram.decode(row[10])) if histograms else (Histogram(), Histogram())
            here.append(Bucket._make((names[number], *row[:9], *cells)))
        buckets += sorted(here, key=lambda bucket: bucket.jobtype)
    return buckets


def sum_by_start(
    conn: apsw.Connection, tenant: str | None, width_ms: int, since_ms: int, until_ms: int
) -> dict[int, EndedSum]:
    rows = fetch(
        conn,
        f"SELECT b.start, {_SUMS} FROM buckets b JOIN types t ON t.type = b.type WHERE b.width = ?1 AND b.start >= ?2"
        " AND b.start < ?3 AND (?4 IS NULL OR t.tenant = ?4) GROUP BY b.start",
        (width_ms, since_ms, until_ms, tenant),
    )
    return {start: EndedSum(*counts) for start, *counts in rows}


def sum_by_type(
    conn: apsw.Connection, tenant: str | None, width_ms: int, since_ms: int, until_ms: int
) -> dict[str, EndedSum]:
    rows = fetch(
        conn,
        f"SELECT t.jobtype, {_SUMS} FROM buckets b JOIN types t ON t.type = b.type WHERE b.width = ?1 AND b.start >= ?2"
        " AND b.start < ?3 AND (?4 IS NULL OR t.tenant = ?4) GROUP BY b.type",
        (width_ms, since_ms, until_ms, tenant),
    )
    return {jobtype: EndedSum(*counts) for jobtype, *counts in rows}


def _json(values: list[str] | list[int]) -> str:
    return json.dumps(values)
