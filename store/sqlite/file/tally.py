"""The counts that a transaction changes, gathered in memory and written once, just before it commits.

Ensures: counters, buckets and failure groups change in the same transaction as the jobs that they count, at
the price of one row per lane and type in the transaction, not one per job.
"""

from collections import defaultdict
from collections.abc import Sequence
from operator import add
from typing import Final

import apsw

from store.sqlite.file.buckets import CODE_NUMBER, CODES, Buckets, Runs
from store.values.jobs import Outcome
from store.values.scoreboard import MAX_FAILURE_GROUPS, OTHER_FAILURES
from vocabulary.states import Code

_BLOCKED: Final = len(CODES)
_BYTES: Final = _BLOCKED + 1

_READY: Final = (
    "UPDATE lanes SET ready = max(until, min(ifnull(ready, ?1), ?1)) WHERE lane = ?2 AND domain <> '' AND keyed = 0"
)
"""Whatever enters a queue is counted, so that no lane is forgotten (queue/domain_claim.py)."""


class Tally:
    """Lane counts are [waiting, deferred, running, stored]; type counts are the codes, blocked, bytes."""

    def __init__(self) -> None:
        self.lanes: defaultdict[int, list[int]] = defaultdict(lambda: [0] * 4)
        self.types: defaultdict[int, list[int]] = defaultdict(lambda: [0] * (_BYTES + 1))
        self.entered: dict[int, int] = {}
        """Lanes that jobs entered, and when the first of these is due, or a time before that."""
        self.runs: defaultdict[tuple[int, int], Runs] = defaultdict(Runs)
        self.failures: dict[tuple[int, str], tuple[int, str, int, int, str]] = {}

    def lane(
        self, lane: int, *, waiting: int = 0, deferred: int = 0, running: int = 0, stored: int = 0, due_ms: int = 0
    ) -> None:
        if waiting > 0 or deferred > 0:
            self.entered[lane] = min(due_ms, self.entered.get(lane, due_ms))
        counts = self.lanes[lane]
        counts[0] += waiting
        counts[1] += deferred
        counts[2] += running
        counts[3] += stored

    def blocked(self, number: int, change: int) -> None:
        self.types[number][_BLOCKED] += change

    def size(self, number: int, change_bytes: int) -> None:
        self.types[number][_BYTES] += change_bytes

    def ended(self, number: int, code: Code, count: int, now_ms: int) -> None:
        index = CODE_NUMBER[code]
        self.types[number][index] += count
        self.runs[number, now_ms].codes[index] += count

    def ran(self, number: int, durations_us: Sequence[int], waits_us: Sequence[int], now_ms: int) -> None:
        if not durations_us:
            return
        runs = self.runs[number, now_ms]
        runs.runner_us += sum(durations_us)
        runs.duration.record(durations_us)
        runs.wait.record(waits_us)

    def failed(self, number: int, outcome: Outcome, job_id: str, now_ms: int) -> None:
        key = (number, outcome.fingerprint)
        seen = self.failures.get(key)
        count, first = (seen[0], seen[2]) if seen else (0, now_ms)
        self.failures[key] = (count + 1, outcome.message, first, now_ms, job_id)

    def absorb(self, other: "Tally") -> None:
        """Take over the counts of one operation of the transaction, and the lists that hold them."""
        for mine, its in ((self.lanes, other.lanes), (self.types, other.types)):
            for number, counts in its.items():
                before = mine.get(number)
                mine[number] = counts if before is None else list(map(add, before, counts))
        for lane, due_ms in other.entered.items():
            self.entered[lane] = min(due_ms, self.entered.get(lane, due_ms))
        for when, runs in other.runs.items():
            if when in self.runs:
                self.runs[when].add(runs)
            else:
                self.runs[when] = runs
        for key, group in other.failures.items():
            older = self.failures.get(key)
            if older is not None:
                group = (older[0] + group[0], group[1], older[2], *group[3:])  # noqa: PLW2901 - the merged group
            self.failures[key] = group

    def write(self, conn: apsw.Connection, buckets: Buckets) -> bool:
        """Write all counts. Returns whether lanes were removed because their last job is gone."""
        conn.executemany(
            "UPDATE lanes SET waiting = waiting + ?, deferred = deferred + ?, running = running + ?,"
            " stored = stored + ? WHERE lane = ?",
            [(*counts, lane) for lane, counts in self.lanes.items() if any(counts)],
        )
        conn.executemany(_READY, [(due_ms, lane) for lane, due_ms in self.entered.items()])
        conn.executemany(
            "UPDATE types SET ok = ok + ?, failed = failed + ?, retry = retry + ?, error = error + ?,"
            " abandoned = abandoned + ?, cancelled = cancelled + ?, blocked = blocked + ?,"
            " size_bytes = size_bytes + ? WHERE type = ?",
            [(*counts, number) for number, counts in self.types.items() if any(counts)],
        )
        buckets.add(conn, self.runs)
        kinds: dict[int, int] = {}
        for (number, fingerprint), group in self.failures.items():
            _write_failures(conn, number, fingerprint, group, kinds)
        emptied = [(lane,) for lane, counts in self.lanes.items() if counts[3] < 0]
        changes = conn.total_changes()
        conn.executemany("DELETE FROM lanes WHERE lane = ? AND stored = 0", emptied)
        return conn.total_changes() != changes


def _write_failures(
    conn: apsw.Connection,
    number: int,
    fingerprint: str,
    group: tuple[int, str, int, int, str],
    kinds: dict[int, int],
) -> None:
    """kinds: how many failures of a type are told apart, once they were counted. Each of a thousand jobs of one
    transaction may end with an error of its own."""
    known = conn.execute("SELECT 1 FROM failures WHERE type = ? AND fingerprint = ?", (number, fingerprint)).get
    if known is None:
        if number not in kinds:
            kinds[number] = conn.execute("SELECT count(*) FROM failures WHERE type = ?", (number,)).get
        if kinds[number] >= MAX_FAILURE_GROUPS - 1:  # the last place is for "other"
            fingerprint = OTHER_FAILURES
        else:
            kinds[number] += 1
    count, message, first, last, example = group
    conn.execute(
        "INSERT INTO failures (type, fingerprint, message, runs, first, last, example)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET message = excluded.message,"
        " runs = runs + excluded.runs, last = excluded.last, example = excluded.example",
        (number, fingerprint, message, count, first, last, example),
    )
