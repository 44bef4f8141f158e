"""The migrations that made what claims read: turns of keys, ready times of lanes, waits for a token; and sums of lanes
(schema.py)."""

from typing import Final

KEYS: Final = """
CREATE TABLE lanes_with_keys (
    lane INTEGER PRIMARY KEY AUTOINCREMENT,
    type INTEGER NOT NULL,
    domain TEXT NOT NULL,
    priority INTEGER NOT NULL,
    waiting INTEGER NOT NULL DEFAULT 0,
    deferred INTEGER NOT NULL DEFAULT 0,
    running INTEGER NOT NULL DEFAULT 0,
    stored INTEGER NOT NULL DEFAULT 0,
    keyed INTEGER NOT NULL DEFAULT 0,
    UNIQUE (type, domain, priority, keyed)
) STRICT;
INSERT INTO lanes_with_keys (lane, type, domain, priority, waiting, deferred, running, stored)
SELECT lane, type, domain, priority, waiting, deferred, running, stored FROM lanes;
INSERT INTO sqlite_sequence (name, seq) SELECT 'lanes_with_keys', 0
WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'lanes_with_keys');
UPDATE sqlite_sequence SET seq = ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'lanes'), 0)
WHERE name = 'lanes_with_keys';
DROP TABLE lanes;
ALTER TABLE lanes_with_keys RENAME TO lanes;

ALTER TABLE types ADD COLUMN served INTEGER NOT NULL DEFAULT 0;
CREATE TABLE turns (
    turn INTEGER PRIMARY KEY,
    type INTEGER NOT NULL,
    key TEXT NOT NULL,
    open INTEGER NOT NULL DEFAULT 0,
    at INTEGER,
    tag INTEGER NOT NULL DEFAULT 0,
    stored INTEGER NOT NULL DEFAULT 0,
    UNIQUE (type, key)
) STRICT;
CREATE INDEX turns_open ON turns (type, tag, turn) WHERE open = 1;
CREATE INDEX turns_later ON turns (type, at) WHERE open = 0 AND at IS NOT NULL;
ALTER TABLE jobs ADD COLUMN turn INTEGER;
ALTER TABLE jobs ADD COLUMN prio INTEGER;
CREATE INDEX jobs_of_turn ON jobs (turn, prio, due, id) WHERE turn IS NOT NULL AND state <= 1;
CREATE INDEX jobs_retried ON jobs (turn, due, id) WHERE turn IS NOT NULL AND begun IS NOT NULL AND state <= 1;
CREATE INDEX jobs_running ON jobs (turn) WHERE turn IS NOT NULL AND state = 2;
CREATE TRIGGER turn_changed AFTER UPDATE OF state, due, turn, prio ON jobs
WHEN NEW.turn IS NOT NULL AND NEW.turn = OLD.turn BEGIN
    UPDATE turns SET open = 1, tag = tag + (OLD.state = 2 AND NEW.done <> OLD.done) * ifnull(NEW.duration, 0)
    WHERE turn = NEW.turn;
END;
CREATE TRIGGER turn_left AFTER UPDATE OF turn ON jobs WHEN OLD.turn IS NOT NULL AND NEW.turn <> OLD.turn BEGIN
    UPDATE turns SET open = 1, stored = stored + 1 WHERE turn = NEW.turn;
    UPDATE turns SET open = 1, stored = stored - 1 WHERE turn = OLD.turn;
    DELETE FROM turns WHERE turn = OLD.turn AND stored <= 0;
END;
CREATE TRIGGER turn_lost AFTER DELETE ON jobs WHEN OLD.turn IS NOT NULL BEGIN
    UPDATE turns SET stored = stored - 1, open = 1 WHERE turn = OLD.turn;
    DELETE FROM turns WHERE turn = OLD.turn AND stored <= 0;
END;
"""
"""Keys of jobs: see queue/turns.py. The triggers are there because jobs change in many places, and one that forgot the
turn would leave its jobs waiting for ever; for jobs without a key they cost a look at one column."""

READY: Final = """
ALTER TABLE lanes ADD COLUMN until INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lanes ADD COLUMN ready INTEGER;
UPDATE lanes SET ready = 0 WHERE domain <> '' AND keyed = 0 AND waiting + deferred > 0;
CREATE INDEX lanes_ready ON lanes (type, priority, ready) WHERE ready IS NOT NULL;
CREATE INDEX lanes_keyed ON lanes (type) WHERE keyed = 1;
ALTER TABLE rates ADD COLUMN pattern INTEGER NOT NULL DEFAULT 0;
UPDATE rates SET pattern = 1 WHERE domain GLOB '*[*?[]*';
CREATE INDEX rates_patterns ON rates (tenant) WHERE pattern = 1;
CREATE TABLE rate_buckets (
    tenant TEXT NOT NULL, domain TEXT NOT NULL, tokens REAL NOT NULL, updated INTEGER NOT NULL, rate REAL NOT NULL,
    burst INTEGER NOT NULL, full INTEGER NOT NULL, PRIMARY KEY (tenant, domain)
) STRICT, WITHOUT ROWID;
CREATE INDEX rate_buckets_full ON rate_buckets (full);
"""
"""Rate domains by pattern, and when the lanes of domains may run: see queue/domain_claim.py."""

TOKENS: Final = """
ALTER TABLE turns ADD COLUMN domain TEXT;
CREATE INDEX turns_without_token ON turns (type, domain, tag, turn) WHERE open = 0 AND domain IS NOT NULL;
CREATE TABLE token_waits (
    type INTEGER NOT NULL, domain TEXT NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (type, domain)
) STRICT, WITHOUT ROWID;
CREATE INDEX token_waits_at ON token_waits (type, at);
"""
"""The rate domain whose token a closed turn waits for, and when each such domain has one: see queue/token_waits.py."""

SUMS: Final = """
ALTER TABLE types ADD COLUMN waiting INTEGER NOT NULL DEFAULT 0;
ALTER TABLE types ADD COLUMN deferred INTEGER NOT NULL DEFAULT 0;
ALTER TABLE types ADD COLUMN running INTEGER NOT NULL DEFAULT 0;
ALTER TABLE types ADD COLUMN stored INTEGER NOT NULL DEFAULT 0;
UPDATE types SET waiting = s.waiting, deferred = s.deferred, running = s.running, stored = s.stored
FROM (SELECT type, sum(waiting) AS waiting, sum(deferred) AS deferred, sum(running) AS running, sum(stored) AS stored
      FROM lanes GROUP BY type) AS s
WHERE types.type = s.type;
CREATE TRIGGER lane_counted AFTER UPDATE OF waiting, deferred, running, stored ON lanes BEGIN
    UPDATE types SET waiting = waiting + NEW.waiting - OLD.waiting, deferred = deferred + NEW.deferred - OLD.deferred,
                     running = running + NEW.running - OLD.running, stored = stored + NEW.stored - OLD.stored
    WHERE type = NEW.type;
END;
CREATE INDEX lanes_queued ON lanes (type) WHERE ready IS NULL AND waiting + deferred > 0;
"""
"""What the lanes of a type count together, for readers: a tenant may have very many lanes. A lane is made without jobs,
and goes without any, or with its type."""
