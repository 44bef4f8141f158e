"""Claiming from lanes with a rate domain: of those that may run, and never past those that may not. The lane of a type
without one may have that of the claim: it is looked at by each claim, since there is one of each priority.

A lane has a time, `ready`: before it the lane has nothing to offer, because its domain has no token until then or
nothing of it is due. A claim takes lanes in that order, by an index, and moves the time of each that it looks at: to
the domain's next token (which is also noted as `until`), to its next job, or away if none is queued. Jobs that enter a
lane bring its time forward again, to `until` at most (file/tally.py, in the transaction that counts them). So a lane
that may not run is looked at once, and not again before its time.

Of up to WINDOW lanes at a time the jobs are taken in common order. Where more may run, those come first that could for
the longest time; a lane that never lacked a token could since its first job was due.
"""

import heapq
from itertools import groupby
from operator import itemgetter
from typing import Final

import apsw

from store.claim_rules import WINDOW
from store.sqlite.file.catalog import Lane
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import QUEUED
from store.sqlite.file.writer import Tx
from store.sqlite.queue.rates import Rates
from store.sqlite.queue.taking import COLUMNS, Room, Row, Taken, delivered, lock
from store.values.claims import Claim

_MOST_LOOKS: Final = 200
"""Lanes beyond the limit that one claim looks at in vain; the next one goes on from there."""
_MOST_READ: Final = 256
"""Jobs of a lane that are read at once."""

_QUEUED: Final = (
    f"SELECT {COLUMNS} FROM jobs WHERE state {QUEUED} AND lane = ?1 AND due <= ?2 AND (due, id) > (?3, ?4)"
    " ORDER BY due, id LIMIT ?5"
)
READY: Final = (
    "SELECT lane, domain, ready FROM lanes WHERE type = ? AND priority = ? AND ready <= ? ORDER BY ready LIMIT ?"
)
_NEXT: Final = f"SELECT due FROM jobs WHERE state {QUEUED} AND lane = ? ORDER BY due LIMIT 1"
_LANE: Final = itemgetter(0)


class _Source:
    """The due jobs of a lane in their order, read in growing pieces: most claims want one. ready_ms: None for a lane
    without a domain, which has no such time. domain: whose tokens its jobs take."""

    def __init__(self, tx: Tx, lane: Lane, ready_ms: int | None, domain: str, now_ms: int) -> None:
        self.lane = lane
        self.ready_ms = ready_ms
        self.domain = domain
        self.head: Row | None = None
        self._tx = tx
        self._now_ms = now_ms
        self._rows = iter(list[Row]())
        self._asked = 1
        self._read(-1, "")

    def __lt__(self, other: "_Source") -> bool:
        return self.head is not None and (other.head is None or self.head < other.head)

    def pop(self) -> None:
        """On to the next job."""
        before, self.head = self.head, next(self._rows, None)
        if self.head is None and before is not None:
            self._asked = min(8 * self._asked, _MOST_READ)
            self._read(before[0], before[1])

    def _read(self, due_ms: int, job_id: str) -> None:
        """What follows that job."""
        place = (self.lane.lane, self._now_ms, due_ms, job_id, self._asked)
        self._rows = iter(fetch(self._tx.conn, _QUEUED, place))
        self.head = next(self._rows, None)


def take_from_domains(
    tx: Tx, number: int, priority: int, plain: Lane | None, rates: Rates, room: Room, claim: Claim
) -> list[Taken]:
    """Jobs of one priority without a key, locked: of the lane without a domain and of those that have one."""
    merge = _Merge(tx, plain, rates, claim)
    ready = tx.conn.execute(READY, (number, priority, claim.now_ms, room.jobs + _MOST_LOOKS))
    rows = merge.take(ready, priority, room)
    ready.close()
    taken = [delivered(tx, lane, [row for _, row in mine], claim) for lane, mine in groupby(rows, _LANE)]
    lock(tx, taken, claim)
    merge.settle()
    return taken


class _Merge:
    def __init__(self, tx: Tx, plain: Lane | None, rates: Rates, claim: Claim) -> None:
        self._tx = tx
        self._rates = rates
        self._now_ms = claim.now_ms
        self._looked: list[_Source] = []
        self._closed: list[Lane] = []
        self._heap: list[_Source] = []
        if plain is not None:
            self._push(_Source(tx, plain, None, claim.domain, claim.now_ms))

    def take(self, ready: apsw.Cursor, priority: int, room: Room) -> list[tuple[Lane, Row]]:
        taken: list[tuple[Lane, Row]] = []
        following = next(ready, None)
        while room.jobs > 0:
            while following is not None and self._is_wanted(following[2]):
                self._look(Lane(following[0], following[1], priority), following[2])
                following = next(ready, None)
            if not self._heap:
                break
            source = heapq.heappop(self._heap)
            if source.head is None or not self._rates.allows(source.domain):
                continue
            if room.take([source.head[4]]):
                self._rates.take(source.domain)
                taken.append((source.lane, source.head))
                if self._rates.allows(source.domain):
                    source.pop()
                    self._push(source)
        return taken

    def settle(self) -> None:
        """Write when the lanes that were looked at may run next, after what was taken is locked."""
        changed: list[tuple[int | None, int, int]] = []
        for source in self._looked:
            if not self._rates.allows(source.domain):
                self._closed.append(source.lane)
                continue
            due_ms = source.head[0] if source.head else self._tx.conn.execute(_NEXT, (source.lane.lane,)).get
            if due_ms is None or due_ms > (source.ready_ms or 0):
                changed.append((due_ms, 0, source.lane.lane))
        for lane in self._closed:
            until_ms = self._rates.next_ms(lane.domain)
            changed.append((until_ms, until_ms, lane.lane))
        self._tx.conn.executemany("UPDATE lanes SET ready = ?, until = ? WHERE lane = ?", changed)

    def _is_wanted(self, ready_ms: int) -> bool:
        """Whether a lane may have a job that comes before those in hand, as far as that is looked for."""
        if len(self._heap) < WINDOW:
            return True
        head = self._heap[0].head
        return head is None or ready_ms < head[0]

    def _look(self, lane: Lane, ready_ms: int) -> None:
        if not self._rates.allows(lane.domain):
            self._closed.append(lane)
            return
        source = _Source(self._tx, lane, ready_ms, lane.domain, self._now_ms)
        self._looked.append(source)
        self._push(source)

    def _push(self, source: _Source) -> None:
        if source.head is not None:
            heapq.heappush(self._heap, source)
