"""The limit for the SQLite store: its own SQL statements, straight on APSW, without our layer.

Same file format, same indexes, same settings, the same bulk statements, one transaction per batch, counters
once per batch. What is missing is what the layer adds: checks, tokens compared, values made, histograms, threads
and the event loop.
"""

import json
from pathlib import Path
from typing import Any

from store.base import NewJob
from store.sqlite.file.bulk import job_ids, numbers
from store.sqlite.file.connection import connect_writer
from store.sqlite.file.schema import migrate
from store.sqlite.queue.add import INSERT_PLAIN
from store.sqlite.queue.bulk_archive import ARCHIVE
from store.sqlite.queue.bulk_claim import find_first_deliveries
from store.sqlite.queue.release import HELD
from store.sqlite.queue.taking import LOCK

LANE = (
    "UPDATE lanes SET waiting = waiting + ?, deferred = deferred + ?, running = running + ?,"
    " stored = stored + ? WHERE lane = 1"
)
TYPE = "UPDATE types SET ok = ok + ?, size_bytes = size_bytes + ? WHERE type = 1"
NOW_MS = 1_800_000_000_000


FILL = """
WITH RECURSIVE numbers (n) AS (VALUES (0) UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1 - 1)
INSERT INTO jobs (id, type, lane, state, due, created, data_bytes, data)
SELECT printf('20261114T235959%03dZ-a7-%08x', n / 1000 % 1000, n), n % ?2 + 1, n % ?2 + 1, 0,
       ?3 - ?1 / 100 - 1 + n / 100, ?3, 100, zeroblob(100)
FROM numbers
"""


def fill(path: Path, waiting: int, types: int, now_ms: int = NOW_MS) -> None:
    """A backlog as add_jobs would leave it, without its price: ten million jobs in a minute and not in four."""
    conn = connect_writer(path)
    conn.execute("PRAGMA synchronous = OFF")
    conn.execute("BEGIN IMMEDIATE")
    for number in range(types):
        conn.execute("INSERT INTO types (tenant, jobtype) VALUES ('bench', ?)", (f"bench-t{number}",))
        conn.execute("INSERT INTO lanes (type, domain, priority) VALUES (?, '', 500)", (number + 1,))
    conn.execute(FILL, (waiting, types, now_ms))
    for number in range(types):
        count = waiting // types + (number < waiting % types)
        conn.execute("UPDATE lanes SET waiting = ?1, stored = ?1 WHERE lane = ?2", (count, number + 1))
        conn.execute("UPDATE types SET size_bytes = ? WHERE type = ?", (100 * count, number + 1))
    conn.execute("COMMIT")
    conn.close()


class Limit:
    """Add, claim and release in batches."""

    def __init__(self, path: Path) -> None:
        self._conn = connect_writer(path)
        migrate(self._conn, str(path))
        self._conn.execute("INSERT INTO types (tenant, jobtype) VALUES ('bench', 'bench-a')")
        self._conn.execute("INSERT INTO lanes (type, domain, priority) VALUES (1, '', 500)")

    def close(self) -> None:
        self._conn.close()

    def archived(self) -> int:
        return int(self._conn.execute("SELECT count(*) FROM jobs WHERE state = 5").get)

    def add(self, batches: list[list[NewJob]]) -> None:
        conn = self._conn
        for batch in batches:
            conn.execute("BEGIN IMMEDIATE")
            ids, _, payloads, due, created, *_ = zip(*batch, strict=True)
            ones = [1] * len(batch)
            sizes_bytes = list(map(len, payloads))
            INSERT_PLAIN.run(conn, [ids, ones, ones, [0] * len(batch), due, created, sizes_bytes, payloads])
            conn.execute(LANE, (len(batch), 0, 0, len(batch)))
            conn.execute(TYPE, (0, 100 * len(batch)))
            conn.execute("COMMIT")

    def claim(self, batches: int, size: int) -> list[list[str]]:
        """The ids of each batch."""
        conn = self._conn
        claimed = []
        for _ in range(batches):
            conn.execute("BEGIN IMMEDIATE")
            found = find_first_deliveries(conn, 1, None, 1, NOW_MS, size)
            assert found is not None
            conn.execute(LOCK, ("a7", NOW_MS + 60_000, NOW_MS, numbers(found.numbers)))
            conn.execute(LANE, (-len(found.ids), 0, len(found.ids), 0))
            conn.execute("COMMIT")
            claimed.append(found.ids)
        return claimed

    def release(self, claimed: list[list[str]]) -> None:
        conn = self._conn
        for ids in claimed:
            conn.execute("BEGIN IMMEDIATE")
            _, _, row_numbers, *_ = conn.execute(HELD, (job_ids(ids), "a7")).get
            count = len(ids)
            columns: list[list[Any]] = [json.loads(row_numbers), [NOW_MS] * count, [150] * count, [b"ok"] * count]
            ARCHIVE.run(conn, columns, (0, 200, NOW_MS, 1, "L3"))
            conn.execute(LANE, (0, 0, -count, 0))
            conn.execute(TYPE, (count, 2 * count))
            conn.execute("COMMIT")
