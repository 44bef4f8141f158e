"""Time buckets of a minute, an hour and a day: how runs of a type ended, how long they took and waited.

All three are written, with the totals of the tenant, in the transaction that ends the runs. Those written last are
remembered, so that a bucket is read and decoded once and not at every change; what is remembered is forgotten with the
catalog, whenever another process may have changed it or a transaction was undone.
"""

from collections.abc import Mapping
from operator import add
from typing import Any, Final

import apsw

from store.sqlite.file.bulk import Bulk
from store.sqlite.file.totals import COUNTS, add_totals
from store.sqlite.file.totals import Key as TotalKey
from store.values.histogram import Histogram
from store.values.scoreboard import RESOLUTIONS
from vocabulary.states import COUNTED_CODES

CODES: Final = COUNTED_CODES
"""In the order of the columns, and their numbers in `jobs.code`."""
CODE_NUMBER: Final = {code: number for number, code in enumerate(CODES)}

MAX_REMEMBERED: Final = 10_000
"""Buckets: those of three thousand busy types, in about 10 MB."""

_COLUMNS: Final = "runner, duration, wait, ok, failed, retry, error, abandoned, cancelled"
_READ: Final = f"SELECT {_COLUMNS} FROM buckets WHERE width = ? AND start = ? AND type = ?"
_WRITE: Final = Bulk(f"INSERT OR REPLACE INTO buckets (width, start, type, {_COLUMNS})", 12, "")

Key = tuple[int, int, int]
"""Width, start and type: the primary key."""


class Runs:
    """What ended of one type in some span of time."""

    __slots__ = ("codes", "duration", "runner_us", "wait")

    def __init__(self) -> None:
        self.codes = [0] * len(CODES)
        self.runner_us = 0
        self.duration = Histogram()
        self.wait = Histogram()

    def add(self, other: "Runs") -> None:
        self.codes = list(map(add, self.codes, other.codes))
        self.runner_us += other.runner_us
        self.duration.merge(other.duration)
        self.wait.merge(other.wait)


class Buckets:
    """The buckets of one writing connection."""

    def __init__(self) -> None:
        self._known: dict[Key, Runs] = {}
        self._tenants: dict[int, str] = {}

    def clear(self) -> None:
        self._known.clear()
        self._tenants.clear()

    def add(self, conn: apsw.Connection, ended: Mapping[tuple[int, int], Runs]) -> None:
        """Write what ended, by type and time. Ensures: if the transaction is not committed the caller clears."""
        if len(self._known) > MAX_REMEMBERED:
            self._known.clear()
        changed: dict[Key, Runs] = {}
        for (number, now_ms), runs in ended.items():
            for width in RESOLUTIONS:
                key = (width, now_ms - now_ms % width, number)
                bucket = self._known.get(key)
                if bucket is None:
                    bucket = self._known[key] = _read(conn, key)
                bucket.add(runs)
                changed[key] = bucket
        if changed:
            rows = [
                (*key, runs.runner_us, runs.duration.encode(), runs.wait.encode(), *runs.codes)
                for key, runs in changed.items()
            ]
            _WRITE.run(conn, list(zip(*rows, strict=True)))
            add_totals(conn, self._totals(conn, ended))

    def _totals(self, conn: apsw.Connection, ended: Mapping[tuple[int, int], Runs]) -> dict[TotalKey, list[int]]:
        totals: dict[TotalKey, list[int]] = {}
        nothing = [0] * len(COUNTS)
        for (number, now_ms), runs in ended.items():
            tenant = self._tenants.get(number)
            if tenant is None:
                tenant = conn.execute("SELECT tenant FROM types WHERE type = ?", (number,)).get
                if tenant is None:
                    continue  # the type was deleted after this in the same transaction
                self._tenants[number] = tenant
            counts = [*runs.codes, runs.runner_us]
            for width in RESOLUTIONS:
                key = (tenant, width, now_ms - now_ms % width)
                totals[key] = list(map(add, totals.get(key, nothing), counts))
        return totals


def _read(conn: apsw.Connection, key: Key) -> Runs:
    runs = Runs()
    row: tuple[Any, ...] | None = conn.execute(_READ, key).get
    if row is not None:
        runs.runner_us, duration, wait, *codes = row
        runs.duration, runs.wait, runs.codes = Histogram.decode(duration), Histogram.decode(wait), codes
    return runs
