"""The tables of the SQLite store, as numbered migrations.

To change the schema: append one script to MIGRATIONS, never edit an older one, and change docs/store.md in the same
commit. `PRAGMA user_version` is the number of scripts that a file has had. A file that has had more than this code
knows is refused. Each script runs in the transaction that also moves the number. Those of what only claims read are in
claim_tables.py.

What a row of `jobs` means:
- type and lane are the integers of `types` and `lanes`. A lane is one (type, domain, priority). Jobs are claimed from
  it in due order, and it keeps the counts of its live jobs.
- state is a number of State. WAITING and DEFERRED are both queued: a claim looks only at `due`, so a deferred job can
  be claimed when it is due without being promoted. The two differ in the counter that holds the job.
- ready of a lane with a rate domain is when it may run next, NULL if nothing of it is queued (queue/domain_claim.py).
- types and lanes are never renumbered (AUTOINCREMENT). A transaction writes its counts by number at its end, and they
  must not reach a newer type that took the number of a deleted one.
- turn is the integer of its key in `turns`, NULL without one, and prio then repeats the priority of its lane. Jobs with
  a key have lanes of their own (`keyed`), which only count them: they are claimed by turn (queue/turns.py).
- history is what `rows.encode_history` makes of the runs that ended with retry or error; schedule what
  `rows.encode_schedule` makes of what is kept of a job that repeats. repeat is '' of a job that has stopped to repeat.
- data and result over INLINE_BYTES are in `blobs` under 2*n and 2*n+1, so that a change of state rewrites a short row
  and not the payload.
"""

from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import Final

import apsw

from store.errors import SchemaTooNew, UnsupportedStore
from store.sqlite.file.claim_tables import KEYS, READY, SUMS, TOKENS

APPLICATION_ID: Final = 0x46756E63  # "Func": `file` and other programs can tell whose database this is
INLINE_BYTES: Final = 2048


class State(IntEnum):
    """The stored state of a job, `jobs.state`."""

    WAITING = 0
    DEFERRED = 1
    RUNNING = 2
    HELD = 3  # out of the queue: for a running parent, for a consumer, or paused between two rounds
    BLOCKED = 4  # a parent that waits for its children
    ARCHIVED = 5
    DELETED = 6  # only the id is left: queue/deleted.py


WAITING: Final = int(State.WAITING)
DEFERRED: Final = int(State.DEFERRED)
"""Plain integers for the loops that run once per job: an enum's member is ten times as slow to bind."""

QUEUED: Final = f"<= {State.DEFERRED}"
PAUSED: Final = f"IN ({State.HELD}, {State.BLOCKED})"
LIVE: Final = f"< {State.ARCHIVED}"
"""Conditions on `state`, as text of a statement: SQLite uses a partial index only if it reads the same number there.
The migrations have the numbers themselves, because a migration never changes."""


_FIRST: Final = """
CREATE TABLE types (
    type INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    jobtype TEXT NOT NULL UNIQUE,
    paused INTEGER NOT NULL DEFAULT 0,
    blocked INTEGER NOT NULL DEFAULT 0,
    ok INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    retry INTEGER NOT NULL DEFAULT 0,
    error INTEGER NOT NULL DEFAULT 0,
    abandoned INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    size_bytes INTEGER NOT NULL DEFAULT 0,
    head INTEGER NOT NULL DEFAULT 0,
    processed INTEGER NOT NULL DEFAULT 0,
    handler INTEGER NOT NULL DEFAULT 0,
    last_handler INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX types_of_tenant ON types (tenant, jobtype);

CREATE TABLE lanes (
    lane INTEGER PRIMARY KEY AUTOINCREMENT,
    type INTEGER NOT NULL,
    domain TEXT NOT NULL,
    priority INTEGER NOT NULL,
    waiting INTEGER NOT NULL DEFAULT 0,
    deferred INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    stored INTEGER NOT NULL DEFAULT 0,
    UNIQUE (type, domain, priority)
) STRICT;

CREATE TABLE jobs (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    type INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    state INTEGER NOT NULL,
    due INTEGER NOT NULL,
    token INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    lock TEXT,
    lease INTEGER,
    claimed INTEGER NOT NULL DEFAULT 0,
    code INTEGER,
    done INTEGER NOT NULL DEFAULT 0,
    exitcode INTEGER,
    started INTEGER,
    duration INTEGER,
    version INTEGER,
    isolation TEXT,
    data_bytes INTEGER NOT NULL,
    result_bytes INTEGER NOT NULL DEFAULT 0,
    log_bytes INTEGER NOT NULL DEFAULT 0,
    retry_after INTEGER,
    seq INTEGER,
    uniq TEXT,
    parent TEXT,
    settled INTEGER NOT NULL DEFAULT 0,
    children INTEGER NOT NULL DEFAULT 0,
    pending INTEGER NOT NULL DEFAULT 0,
    options TEXT,
    repeat TEXT,
    fingerprint TEXT,
    message TEXT,
    data BLOB,
    result BLOB,
    log BLOB
) STRICT;
CREATE INDEX jobs_queued ON jobs (lane, due, id) WHERE state <= 1;
CREATE INDEX jobs_deferred ON jobs (lane, due) WHERE state = 1;
CREATE INDEX jobs_leased ON jobs (lease) WHERE state = 2;
CREATE INDEX jobs_paused ON jobs (type, due) WHERE state IN (3, 4);
CREATE INDEX jobs_archived ON jobs (type, code, done) WHERE state = 5;
CREATE INDEX jobs_children ON jobs (parent, id) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX jobs_seq ON jobs (type, seq) WHERE seq IS NOT NULL;
CREATE UNIQUE INDEX jobs_unique ON jobs (type, uniq) WHERE uniq IS NOT NULL AND state < 5;

CREATE TABLE blobs (key INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;

CREATE TABLE positions (
    reader TEXT PRIMARY KEY, segment TEXT NOT NULL, offset INTEGER NOT NULL, line INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE rates (
    tenant TEXT NOT NULL, domain TEXT NOT NULL, rate REAL NOT NULL, burst INTEGER NOT NULL,
    tokens REAL NOT NULL, updated INTEGER NOT NULL, PRIMARY KEY (tenant, domain)
) STRICT, WITHOUT ROWID;

CREATE TABLE buckets (
    type INTEGER NOT NULL, width INTEGER NOT NULL, start INTEGER NOT NULL,
    ok INTEGER NOT NULL, failed INTEGER NOT NULL, retry INTEGER NOT NULL, error INTEGER NOT NULL,
    abandoned INTEGER NOT NULL, cancelled INTEGER NOT NULL,
    runner INTEGER NOT NULL, duration TEXT NOT NULL, wait TEXT NOT NULL,
    PRIMARY KEY (width, start, type)
) STRICT, WITHOUT ROWID;

CREATE TABLE failures (
    type INTEGER NOT NULL, fingerprint TEXT NOT NULL, message TEXT NOT NULL, runs INTEGER NOT NULL,
    first INTEGER NOT NULL, last INTEGER NOT NULL, example TEXT NOT NULL, PRIMARY KEY (type, fingerprint)
) STRICT, WITHOUT ROWID;

CREATE TABLE handlers (
    type INTEGER NOT NULL, version INTEGER NOT NULL, created INTEGER NOT NULL, lang TEXT NOT NULL,
    author TEXT NOT NULL, restored_from INTEGER NOT NULL, data BLOB NOT NULL, UNIQUE (type, version)
) STRICT;

CREATE TABLE daemons (
    number INTEGER PRIMARY KEY AUTOINCREMENT, sysid TEXT NOT NULL UNIQUE,
    reserved INTEGER NOT NULL, until INTEGER NOT NULL, info TEXT NOT NULL, paused INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE tenants (
    name TEXT PRIMARY KEY, created INTEGER NOT NULL, weight INTEGER NOT NULL, limits TEXT NOT NULL,
    suspended INTEGER NOT NULL, deleting INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE keys (
    key_id TEXT PRIMARY KEY, tenant TEXT NOT NULL, hash BLOB NOT NULL, scopes TEXT NOT NULL,
    created INTEGER NOT NULL, expires INTEGER, label TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_of_tenant ON keys (tenant, created);

CREATE TABLE audit (
    n INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL,
    tenant TEXT NOT NULL, detail TEXT NOT NULL
) STRICT;
CREATE INDEX audit_of_tenant ON audit (tenant, n);
CREATE INDEX audit_by_age ON audit (at);

CREATE TABLE once (
    tenant TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, expires INTEGER NOT NULL,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX once_by_age ON once (expires);
"""

_TOTALS: Final = """
CREATE TABLE totals (
    tenant TEXT NOT NULL, width INTEGER NOT NULL, start INTEGER NOT NULL,
    ok INTEGER NOT NULL, failed INTEGER NOT NULL, retry INTEGER NOT NULL, error INTEGER NOT NULL,
    abandoned INTEGER NOT NULL, cancelled INTEGER NOT NULL, runner INTEGER NOT NULL,
    PRIMARY KEY (tenant, width, start)
) STRICT, WITHOUT ROWID;
CREATE INDEX totals_by_age ON totals (width, start);
INSERT INTO totals (tenant, width, start, ok, failed, retry, error, abandoned, cancelled, runner)
SELECT t.tenant, b.width, b.start, sum(b.ok), sum(b.failed), sum(b.retry), sum(b.error), sum(b.abandoned),
       sum(b.cancelled), sum(b.runner)
FROM buckets b JOIN types t ON t.type = b.type GROUP BY t.tenant, b.width, b.start;
"""

_ROUNDS: Final = """
ALTER TABLE jobs ADD COLUMN begun INTEGER;
ALTER TABLE jobs ADD COLUMN planned INTEGER;
"""
"""When the retry window of a job began, and for when its round was planned, where that is not `due`."""

_HISTORY: Final = """
ALTER TABLE jobs ADD COLUMN history TEXT;
"""

_CONSUMERS: Final = """
ALTER TABLE types ADD COLUMN released INTEGER;
CREATE TABLE consumers (
    tenant TEXT NOT NULL, name TEXT NOT NULL, type INTEGER NOT NULL UNIQUE, settings TEXT NOT NULL,
    created INTEGER NOT NULL, running INTEGER NOT NULL, ending INTEGER NOT NULL, note TEXT NOT NULL,
    leader TEXT NOT NULL, token INTEGER NOT NULL, until INTEGER NOT NULL, PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
"""

_NUMBERS: Final = """
ALTER TABLE jobs ADD COLUMN number TEXT;
CREATE UNIQUE INDEX jobs_number ON jobs (number) WHERE number IS NOT NULL;
CREATE TABLE numbers (tenant TEXT PRIMARY KEY, last INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""
"""The number of a job within its tenant, with the tenant, and the last that each tenant was given."""

_SECRETS: Final = """
CREATE TABLE secrets (
    tenant TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, created INTEGER NOT NULL,
    author TEXT NOT NULL, key_id TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
"""
"""Sealed values of tenants; no data: deleted."""

_PULLED: Final = """
ALTER TABLE consumers ADD COLUMN pulled INTEGER NOT NULL DEFAULT 0;
"""

_CONTENTS: Final = """
ALTER TABLE handlers ADD COLUMN tree TEXT NOT NULL DEFAULT '';
CREATE TABLE contents (
    tenant TEXT NOT NULL, digest TEXT NOT NULL, size INTEGER NOT NULL, touched INTEGER NOT NULL, data BLOB NOT NULL,
    UNIQUE (tenant, digest)
) STRICT;
CREATE INDEX contents_size ON contents (tenant, size);
"""
"""Pieces of the files of handlers that are folders. With rowids, as their data is large."""

_FAMILIES: Final = """
CREATE TABLE families (
    n INTEGER PRIMARY KEY, parent TEXT NOT NULL UNIQUE, duty INTEGER NOT NULL, after TEXT NOT NULL, due INTEGER
) STRICT;
"""
"""Parents that have ended, and of whose children some are still to hear of it: see queue/families.py."""

_REPEATING: Final = """
CREATE INDEX jobs_repeating ON jobs (type, id) WHERE repeat IS NOT NULL AND state < 5;
"""

_ALERTS: Final = """
CREATE TABLE alerts (
    tenant TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, created INTEGER NOT NULL,
    author TEXT NOT NULL, settings TEXT NOT NULL, state TEXT NOT NULL, PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
"""
"""Alert rules of tenants, and how each stands."""

_FINDING: Final = """
CREATE INDEX jobs_named ON jobs (type, uniq, code, done) WHERE uniq IS NOT NULL AND state = 5;
CREATE INDEX jobs_keyed ON jobs (turn, code, done) WHERE turn IS NOT NULL AND state = 5;
CREATE INDEX jobs_keyed_paused ON jobs (turn, due) WHERE turn IS NOT NULL AND state IN (3, 4);
CREATE INDEX jobs_failed ON jobs (type, fingerprint, code, done) WHERE fingerprint IS NOT NULL AND state = 5;
CREATE INDEX jobs_failed_queued ON jobs (type, fingerprint, due, id) WHERE fingerprint IS NOT NULL AND state <= 1;
CREATE INDEX jobs_failed_paused ON jobs (type, fingerprint, due) WHERE fingerprint IS NOT NULL AND state IN (3, 4);
"""
"""Jobs by unique name, by key and by the error of their last run. Jobs that have none of these are in none of them."""

_SCHEDULES: Final = """
ALTER TABLE jobs ADD COLUMN schedule TEXT;
"""
"""Of jobs that repeat: their last rounds, a pause, an extra round, a cancel that is under way."""

_WEBHOOKS: Final = """
CREATE TABLE webhooks (
    tenant TEXT NOT NULL, name TEXT NOT NULL, created INTEGER NOT NULL, author TEXT NOT NULL, settings TEXT NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
"""
"""Addresses of tenants that others post to."""

_DELETED: Final = """
ALTER TABLE positions ADD COLUMN passed TEXT NOT NULL DEFAULT '';
ALTER TABLE positions ADD COLUMN sources TEXT NOT NULL DEFAULT '';
CREATE INDEX jobs_deleted ON jobs (lock, id, done) WHERE state = 6;
"""
"""Which ids journals may still have, and those of them whose jobs were deleted: see queue/deleted.py."""

_UPKEEP: Final = """
CREATE INDEX jobs_coming_due ON jobs (due) WHERE state = 1;
CREATE INDEX failures_by_age ON failures (last);
"""
"""For upkeep, which would look at every lane and every kind of failure otherwise, in the one writing connection."""

MIGRATIONS: Final = (
    _FIRST, _TOTALS, _ROUNDS, _HISTORY, _CONSUMERS, _NUMBERS, _SECRETS, _PULLED, _CONTENTS, KEYS, READY, _FAMILIES,
    TOKENS, _REPEATING, _ALERTS, _FINDING, _SCHEDULES, _WEBHOOKS,
    _DELETED, _UPKEEP, SUMS,
)  # fmt: skip


def migrate(conn: apsw.Connection, path: str, keep_copy: Callable[[int], Path | None] = lambda _: None) -> None:
    """Bring a file to the newest schema. Ensures: on return it has exactly MIGRATIONS.

    Safe against a second process that does the same: the number is read again inside the transaction that holds the
    lock. keep_copy is called with the schema of an older file while nobody can write to it and before anything is
    changed. If it raises, nothing is changed. The copy that it returns is removed if the migration fails: it would take
    the room of the next attempt.
    """
    if _usable_version(conn, path) == len(MIGRATIONS):
        return
    conn.execute("BEGIN IMMEDIATE")
    kept: Path | None = None
    try:
        version = _usable_version(conn, path)
        if 0 < version < len(MIGRATIONS):
            kept = keep_copy(version)
        for number, script in enumerate(MIGRATIONS[version:], version + 1):
            conn.execute(script)
            conn.execute(f"PRAGMA user_version = {number}")
        conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        conn.execute("COMMIT")
    except BaseException:
        if conn.in_transaction:  # on a full disk SQLite has rolled back by itself
            conn.execute("ROLLBACK")
        if kept is not None:
            kept.unlink(missing_ok=True)
        raise


def read_version(conn: apsw.Connection, path: str) -> int:
    """How many migrations the file has had, even if that is more than this code knows. Raises UnsupportedStore.

    One statement, so one snapshot: another process may be making the schema at the same time.
    """
    version: int
    version, owner, tables = conn.execute(
        "SELECT (SELECT user_version FROM pragma_user_version), (SELECT application_id FROM pragma_application_id),"
        " (SELECT count(*) FROM sqlite_schema)"
    ).get
    if owner != APPLICATION_ID and (owner or version or tables):
        raise UnsupportedStore(f"{path} is a database of another program; name a file of its own for the store")
    return version


def _usable_version(conn: apsw.Connection, path: str) -> int:
    version = read_version(conn, path)
    if version > len(MIGRATIONS):
        raise SchemaTooNew(
            f"{path} has schema {version} and this version of Functory knows {len(MIGRATIONS)}: run the newer version,"
            f" or go back to the copy that it kept, {path}.schema-{len(MIGRATIONS)} or so (docs/backup.md)"
        )
    return version
