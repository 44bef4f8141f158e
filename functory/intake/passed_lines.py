"""Which ids a journal is not read again with, and whose the others may be. The store keeps that with the position, and
knows by it which ids must stay when their jobs are deleted (store/values/positions.py)."""

import heapq
from collections.abc import Callable

from journal import Journal, Position
from journal.ledger import Span
from store.base import JournalPosition


class PassedLines:
    def __init__(self, journal: Journal, reader: str, writer: str, earlier: Callable[[], tuple[str, ...]]) -> None:
        """writer: the sysid of who writes to the journal from now on; empty: nobody does. earlier: of all who may have
        written lines that were there."""
        self._journal = journal
        self._reader = reader
        self._writers = (writer,) if writer else ()
        self._earlier = earlier
        self._floor = journal.take_ids(1)[0]
        """Lines with smaller ids were there before."""
        self._passed = ""
        self._ends: list[tuple[Position, str]] = []
        """Of what was read and is not passed yet: where it ends, and its last id."""

    def read(self, span: Span, last_id: str) -> None:
        heapq.heappush(self._ends, (span.end, last_id))

    def at(self, point: Position, passed: str = "") -> JournalPosition:
        """For the store, when it has every line before this point. passed: it has all up to this id, too."""
        while self._ends and self._ends[0][0] <= self._journal.read_point:
            self._passed = max(self._passed, heapq.heappop(self._ends)[1])
        passed = max(self._passed, passed)
        sources = self._writers if passed >= self._floor else self._earlier()
        return JournalPosition(self._reader, str(point.segment), point.offset, point.line, passed, sources)
