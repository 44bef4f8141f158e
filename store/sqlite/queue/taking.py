"""What every claim does with the jobs that it takes: their number and bytes, their values, their lock."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from store.sqlite.file.bulk import by_key, numbers
from store.sqlite.file.catalog import Lane
from store.sqlite.file.schema import DEFERRED, INLINE_BYTES, State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.rows import data_key, read_blob
from store.values.claims import Claim
from store.values.jobs import Job
from vocabulary.columns import fields

COLUMNS: Final = (
    "due, id, n, state, data_bytes, data, token + 1, attempts + 1, created,"
    " retry_after, options, seq, repeat, uniq, parent, begun, planned, children, turn"
)
LOCK: Final = (
    f"UPDATE jobs SET state = {State.RUNNING}, lock = ?, lease = ?, claimed = ?,"
    " token = token + 1, attempts = attempts + 1 WHERE n IN (SELECT value FROM carray(?))"
)
_LEASE: Final = fields(Job, "dt_ms")

Row = tuple[Any, ...]
"""COLUMNS of a job; sorts by due time and id, and no two jobs have the same id."""


class Taken(NamedTuple):
    """Jobs of one lane: as they will be delivered, their row numbers, and how many of them count as deferred."""

    lane: Lane
    jobs: list[Job]
    numbers: list[int]
    deferred: int


class Room:
    """What a claim may still take."""

    def __init__(self, claim: Claim) -> None:
        self.jobs = claim.limit
        self._bytes_left = claim.max_bytes
        self._kept = 0
        self._is_empty = True

    def fits(self, size_bytes: int) -> bool:
        return size_bytes <= self._bytes_left

    def take(self, sizes_bytes: Sequence[int]) -> int:
        """How many of the first jobs fit; when one does not, there is no room any more."""
        for taken, size_bytes in enumerate(sizes_bytes):
            if size_bytes > self._bytes_left and not self._is_empty:
                self.jobs = self._kept = 0
                return taken
            self._bytes_left -= size_bytes
            self.jobs -= 1
            self._is_empty = False
        return len(sizes_bytes)

    def keep(self, jobs: int) -> None:
        """Put places aside, until all that are aside are wanted."""
        self._kept = jobs
        self.jobs -= jobs

    def use_kept(self) -> None:
        self.jobs += self._kept
        self._kept = 0


def lock(tx: Tx, taken: Sequence[Taken], claim: Claim) -> None:
    """Lock jobs of any lanes, and count them. Those with a lease of their own length are a group for each length."""
    if not any(each.jobs for each in taken):
        return
    for lane, jobs, _, deferred in taken:
        tx.tally.lane(lane.lane, waiting=deferred - len(jobs), deferred=-deferred, running=len(jobs))
    leases = [lease for each in taken for lease in map(_LEASE, each.jobs)]
    row_numbers = [n for each in taken for n in each.numbers]
    for (lease,), (chosen,) in by_key([leases], [row_numbers]):
        tx.conn.execute(LOCK, (claim.owner, lease, claim.now_ms, numbers(chosen)))


def delivered(tx: Tx, lane: Lane, rows: Sequence[Sequence[Any]], claim: Claim) -> Taken:
    """Rows of one lane as they will be delivered."""
    jobtype, _, owner, usual_ms, now_ms, *_ = claim
    _, domain, priority, _ = lane
    jobs = []
    for row in rows:
        due, job_id, n, _, size, data, token, attempts, created, own_ms, options, seq, repeat, unique, *rest = row
        parent, begun, planned, children, turn, *_ = rest
        if size > INLINE_BYTES:
            data = read_blob(tx.conn, data_key(n))
        job = Job(
            job_id, jobtype, data, now_ms + (own_ms or usual_ms), owner, token, attempts, priority, due, created,
            domain, options or "", own_ms, seq, repeat or "", unique or "", parent or "", begun, planned, children,
            "" if turn is None else key_of(tx, turn),
        )  # fmt: skip
        jobs.append(job)
    return Taken(lane, jobs, [row[2] for row in rows], [row[3] for row in rows].count(DEFERRED))


def key_of(tx: Tx, turn: int) -> str:
    key: str = tx.conn.execute("SELECT key FROM turns WHERE turn = ?", (turn,)).get
    return key
