"""A store for the bench of the pages: 1,000 types of one tenant, all busy in every minute, and any number of jobs.

Written in SQL straight into the file: ten million jobs in minutes. Everything agrees with everything, as if the jobs
had run: buckets and counters are counted from the jobs. One job in 50 failed, in five ways a type.
"""

from pathlib import Path
from typing import Final

import apsw

from store.sqlite.file.connection import connect_writer
from store.values.scoreboard import DAY_MS, HOUR_MS, MINUTE_MS

TENANT: Final = "acme"
_MOST_MINUTES: Final = 2 * DAY_MS // MINUTE_MS
"""As long as buckets of minutes are kept."""

_TENANT: Final = "INSERT INTO tenants (name, created, weight, limits, suspended, deleting) VALUES (?, ?, 1, '{}', 0, 0)"
_TYPES: Final = """
WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1)
INSERT INTO types (type, tenant, jobtype, handler, last_handler)
SELECT n, ?2, printf('%s-type%04d', ?2, n - 1), 1, 1 FROM numbers
"""
_LANES: Final = "INSERT INTO lanes (lane, type, domain, priority) SELECT type, type, '', 500 FROM types"
_HANDLERS: Final = """
INSERT INTO handlers (type, version, created, lang, author, restored_from, data)
SELECT type, 1, ?1, 'sh', 'bench', 0, CAST('{"lang":"sh","body":"cat"}' AS BLOB) FROM types
"""
_JOBS: Final = """
WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < ?1),
jobs_of AS (
    SELECT n, n % ?2 + 1 AS type, ?3 - (?1 - n) * ?4 / ?1 AS done, (n / ?2 * 7 + n) % 50 = 7 AS is_failed FROM numbers
)
INSERT INTO jobs (n, id, type, lane, state, due, token, attempts, created, claimed, code, done, exitcode, started,
                  duration, version, isolation, data_bytes, result_bytes, data, result, fingerprint, message)
SELECT n, strftime('%Y%m%dT%H%M%S', done / 1000, 'unixepoch') || printf('%03dZ-a1-%06x', done % 1000, n % 16777216),
       type, type, 5, done - 5, 1, 1, done - 5, done - 2,
       is_failed, done, CASE WHEN is_failed THEN 400 ELSE 200 END, done - 2, 1000 + n % 7000, 1, 'L2', 100, 4,
       zeroblob(100), CAST('done' AS BLOB), CASE WHEN is_failed THEN 'f' || n / ?2 / 50 % 5 END,
       CASE WHEN is_failed THEN printf('ValueError: no such record in shard %d', n / ?2 / 50 % 5) END
FROM jobs_of
"""
_INTO_BUCKETS: Final = """
INSERT INTO buckets (type, width, start, ok, failed, retry, error, abandoned, cancelled, runner, duration, wait)
SELECT type, ?1, start, ok, failed, 0, 0, 0, 0, runner,
       printf('40:%d 42:%d 44:%d 46:%d 48:%d', ok % 3, ok / 9, ok / 6, ok / 2, ok / 9), printf('44:%d', ok)
"""
_OF_JOBS: Final = """FROM (
    SELECT done / ?1 * ?1 AS start, type, count(*) - sum(code) AS ok, sum(code) AS failed, sum(duration) AS runner
    FROM jobs GROUP BY 1, 2
)"""
_OF_BUCKETS: Final = """FROM (
    SELECT start / ?1 * ?1 AS start, type, sum(ok) AS ok, sum(failed) AS failed, sum(runner) AS runner
    FROM buckets WHERE width = ?2 GROUP BY 1, 2
)"""
_TOTALS: Final = """
INSERT INTO totals (tenant, width, start, ok, failed, retry, error, abandoned, cancelled, runner)
SELECT ?1, width, start, sum(ok), sum(failed), 0, 0, 0, 0, sum(runner) FROM buckets GROUP BY width, start
"""
_COUNTS: Final = """
UPDATE types SET ok = c.ok, failed = c.failed, size_bytes = 104 * (c.ok + c.failed)
FROM (SELECT type, sum(ok) AS ok, sum(failed) AS failed FROM buckets WHERE width = ?1 GROUP BY type) c
WHERE c.type = types.type
"""
_STORED: Final = "UPDATE lanes SET stored = t.ok + t.failed FROM types t WHERE t.type = lanes.type"
_FAILURES: Final = """
INSERT INTO failures (type, fingerprint, message, runs, first, last, example)
SELECT j.type, j.fingerprint, j.message, count(*), min(j.done), max(j.done), j.id
FROM types t JOIN jobs j ON j.state = 5 AND j.type = t.type AND j.code = 1 GROUP BY j.type, j.fingerprint
"""


def fill(path: Path, types: int, archived: int, now_ms: int) -> None:
    """Into a file that has the tables and nothing else. The jobs ended evenly up to now, at least a job a minute and
    type if there are enough of them, for an hour or more."""
    minutes = min(max(archived // types, HOUR_MS // MINUTE_MS), _MOST_MINUTES)
    conn = connect_writer(path)
    conn.execute("PRAGMA journal_mode = OFF")
    conn.execute("PRAGMA synchronous = OFF")
    conn.execute("PRAGMA cache_size = -400000")
    conn.execute("BEGIN IMMEDIATE")
    conn.execute(_TENANT, (TENANT, now_ms))
    conn.execute(_TYPES, (types, TENANT))
    conn.execute(_LANES)
    conn.execute(_HANDLERS, (now_ms,))
    conn.execute(_JOBS, (archived, types, now_ms, minutes * MINUTE_MS))
    conn.execute(_INTO_BUCKETS + _OF_JOBS, (MINUTE_MS,))
    conn.execute(_INTO_BUCKETS + _OF_BUCKETS, (HOUR_MS, MINUTE_MS))
    conn.execute(_INTO_BUCKETS + _OF_BUCKETS, (DAY_MS, HOUR_MS))
    conn.execute(_TOTALS, (TENANT,))
    conn.execute(_COUNTS, (DAY_MS,))
    conn.execute(_STORED)
    conn.execute(_FAILURES)
    conn.execute("COMMIT")
    conn.execute("PRAGMA journal_mode = WAL")
    conn.close()
    _check(path)


def _check(path: Path) -> None:
    """The bench is worth nothing if types were not busy all the time."""
    conn = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    types, minutes, rows = conn.execute(
        "SELECT count(DISTINCT type), count(DISTINCT start), count(*) FROM buckets WHERE width = ?", (MINUTE_MS,)
    ).get
    conn.close()
    assert rows >= 0.9 * types * minutes, f"{rows} buckets of {types} types in {minutes} minutes"
