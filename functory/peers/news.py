"""What a daemon tells the others: types that got jobs, jobs that ended, tenants that changed, workers that left. Pure.

A datagram is a byte for the format and then items: a byte for the kind, a byte for the length, the value. Items of an
unknown kind are left out, so that a newer version can add some. A job is named by a mark of four bytes: two jobs with
the same mark cost a look that finds nothing. So is a worker, with its tenant.

Ensures: every set is bounded. When there are too many types or tenants to name, all are meant; marks beyond the bound
are dropped, and their jobs are found by the poll, or when their leases lapse.
"""

import enum
from collections.abc import Iterable, Iterator
from typing import Final

from functory.loops.job_mark import mark_of
from vocabulary.names import is_jobtype, is_tenant

DATAGRAM_BYTES: Final = 1200
"""Before sealing. It passes every network in one piece."""
MOST_TYPES: Final = 64
MOST_TENANTS: Final = 64
MOST_WORKERS: Final = 64
MOST_MARKS: Final = 3000
ALL: Final = ""
"""In place of a tenant: all of them."""
_FORMAT: Final = 1
_MARK_BYTES: Final = 4


class Look(enum.IntFlag):
    """What to look at, beside what is named."""

    NOTHING = 0
    JOBS = 1
    """Jobs of any type may be ready."""
    TENANTS = 2
    """Tenants were made, changed or removed."""
    CONSUMERS = 4
    """Consumers were made, changed or removed."""
    DAEMONS = 8
    """A daemon has come."""
    PAUSES = 16
    """A daemon was paused or resumed."""
    KEYS = 32
    """Keys or tenants were changed so that what is known of keys does not hold any more."""


class Kind(enum.IntEnum):
    LOOK = 1
    CHANGED = 2
    ADDED = 3
    CANCELLED = 4
    ENDED = 5
    LEFT = 6
    FREED = 7


class News:
    """Gathered on one side before it is sent, and on the other before it is acted upon."""

    __slots__ = ("added", "cancelled", "changed", "ended", "freed", "left", "look")

    def __init__(self) -> None:
        self.look = Look.NOTHING
        self.changed: set[str] = set()
        """Tenants whose handlers or pauses have changed; ALL: any."""
        self.added: set[str] = set()
        """Jobtypes with new jobs, or with jobs that may run again."""
        self.cancelled: set[int] = set()
        """Marks of jobs that were cancelled and may be running."""
        self.ended: set[int] = set()
        """Marks of jobs that are over."""
        self.freed: set[int] = set()
        """Marks of jobs that a worker took from another daemon and does not hold any more."""
        self.left: set[tuple[str, int]] = set()
        """Workers that said goodbye: tenants, and marks of their names."""

    def __bool__(self) -> bool:
        marks = self.cancelled or self.ended or self.freed
        return bool(self.look or self.changed or self.added or marks or self.left)

    def note_added(self, jobtypes: Iterable[str]) -> None:
        self.added.update(jobtypes)
        if len(self.added) > MOST_TYPES:
            self.added.clear()
            self.look |= Look.JOBS

    def note_changed(self, tenant: str) -> None:
        self.changed.add(tenant)
        if len(self.changed) > MOST_TENANTS:
            self.changed = {ALL}

    def note_ended(self, job_ids: Iterable[str]) -> None:
        if len(self.ended) < MOST_MARKS:
            self.ended.update(map(mark_of, job_ids))

    def note_cancelled(self, job_ids: Iterable[str]) -> None:
        if len(self.cancelled) < MOST_MARKS:
            self.cancelled.update(map(mark_of, job_ids))

    def note_freed(self, job_ids: Iterable[str]) -> None:
        if len(self.freed) < MOST_MARKS:
            self.freed.update(map(mark_of, job_ids))

    def note_left(self, tenant: str, mark: int) -> None:
        if len(self.left) < MOST_WORKERS:
            self.left.add((tenant, mark))

    def datagrams(self) -> Iterator[bytes]:
        """All of it, in pieces of at most DATAGRAM_BYTES. The few that concern many come first."""
        piece = bytearray((_FORMAT,))
        for kind, value in self._items():
            if len(piece) + 2 + len(value) > DATAGRAM_BYTES:
                yield bytes(piece)
                piece = bytearray((_FORMAT,))
            piece += bytes((kind, len(value)))
            piece += value
        if len(piece) > 1:
            yield bytes(piece)

    def _items(self) -> Iterator[tuple[Kind, bytes]]:
        if self.look:
            yield Kind.LOOK, bytes((self.look,))
        for tenant in self.changed:
            yield Kind.CHANGED, tenant.encode()
        for jobtype in self.added:
            yield Kind.ADDED, jobtype.encode()
        for tenant, mark in self.left:
            yield Kind.LEFT, mark.to_bytes(_MARK_BYTES) + tenant.encode()
        for kind, marks in self._marks().items():
            for mark in marks:
                yield kind, mark.to_bytes(_MARK_BYTES)

    def _marks(self) -> dict[Kind, set[int]]:
        return {Kind.CANCELLED: self.cancelled, Kind.FREED: self.freed, Kind.ENDED: self.ended}

    def hear(self, datagram: bytes) -> None:
        """Add what a datagram says. What cannot be read is left out."""
        if datagram[:1] != bytes((_FORMAT,)):
            return
        at = 1
        while at + 2 <= len(datagram):
            kind, length = datagram[at], datagram[at + 1]
            value = datagram[at + 2 : at + 2 + length]
            at += 2 + length
            if len(value) == length:
                self._hear_item(kind, value)

    def _hear_item(self, kind: int, value: bytes) -> None:
        text = value.decode("ascii", "replace")
        if kind == Kind.LOOK and len(value) == 1:
            self.look |= Look(value[0] & sum(Look))
        elif kind == Kind.CHANGED and (not text or is_tenant(text)):
            self.note_changed(text)
        elif kind == Kind.ADDED and is_jobtype(text):
            self.note_added((text,))
        elif kind == Kind.LEFT and is_tenant(tenant := value[_MARK_BYTES:].decode("ascii", "replace")):
            self.note_left(tenant, int.from_bytes(value[:_MARK_BYTES]))
        elif len(value) == _MARK_BYTES and kind in (every := self._marks()):
            marks = every[Kind(kind)]
            if len(marks) < MOST_MARKS:
                marks.add(int.from_bytes(value))
