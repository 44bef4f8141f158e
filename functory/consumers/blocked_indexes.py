"""The indexes of a consumer whose jobs did not end well, and when each is tried again.

A pause is measured with a clock that nobody sets: `next_ms` of an index only shows when it ends. What the last leader
noted goes on here, with its tries and since when it blocks.

Ensures: at most MOST are known, the lowest, because progress waits for those. The others are told of again by each look
at the window, and have their turn when there is room.
"""

from collections.abc import Iterable
from heapq import nsmallest
from typing import Final

import msgspec

from functory.consumers.terms import Blocked
from scheduler.retry import RetryPolicy, backoff_s
from store.base import Code, IndexEnd
from vocabulary.clock import Clock

MOST: Final = 1000
_FEW: Final = 20
"""That a note names."""


class BlockedIndexes:
    def __init__(self, clock: Clock, retry: RetryPolicy, noted: Iterable[Blocked]) -> None:
        self._clock = clock
        self._retry = retry
        self._blocked = {it.index: it for it in noted}
        self._highest: int | None = None
        """Of all; None: it is not known, because they have changed since."""
        self._due_s: dict[int, float] = {}
        """When they are tried again. One that was cancelled is left to whoever cancelled it, and is not in here."""
        self._queued: set[int] = set()
        """Their jobs were queued again."""
        self._unseen = {*self._blocked}
        """Noted by the last leader. Meanwhile their jobs may have ended well."""

    def __len__(self) -> int:
        return len(self._blocked)

    def lowest(self) -> list[Blocked]:
        return [self._blocked[index] for index in nsmallest(_FEW, self._blocked)]

    def ended(self, end: IndexEnd, code: Code) -> Blocked | None:
        """A job did not end well: it will be queued again, later and later. None if that is known, because each look
        tells of it again, or if there is no room for it. Somebody else may have queued the job, too."""
        known = self._blocked.get(end.seq)
        if known is None and not self._make_room(end.seq):
            return None
        if known is not None and end.seq not in self._queued and known.code == code.value:
            if end.seq in self._unseen:
                self._go_on(known)
            return None
        self._highest = None
        now_ms, tries = self._clock.now_ms(), 1 if known is None else known.tries + 1
        since_ms = now_ms if known is None else known.since_ms
        self.free(end.seq)
        self._blocked[end.seq] = Blocked(
            index=end.seq, job_id=end.job_id, code=code.value, since_ms=since_ms, tries=tries, next_ms=0
        )
        return self._blocked[end.seq] if code is Code.CANCELLED else self._rest(end.seq)

    def _go_on(self, noted: Blocked) -> None:
        self._unseen.discard(noted.index)
        if noted.next_ms:
            left_s = max(noted.next_ms - self._clock.now_ms(), 0) / 1000
            self._due_s[noted.index] = self._clock.monotonic_s() + min(left_s, backoff_s(self._retry, noted.tries))

    def due(self) -> list[Blocked]:
        """Those whose jobs are to be queued now."""
        now_s = self._clock.monotonic_s()
        return [self._blocked[index] for index, due_s in self._due_s.items() if due_s <= now_s]

    def queued(self, index: int) -> None:
        """Its job is in the queue again, whoever put it there: its next end is a new one. It may have come already."""
        if index not in self._blocked:
            return
        self._queued.add(index)
        self._due_s.pop(index, None)
        self._blocked[index] = msgspec.structs.replace(self._blocked[index], why="")

    def put_off(self, index: int, why: str) -> None:
        """Its job could not be queued: that was no try."""
        if index not in self._blocked:  # it ended well meanwhile
            return
        self._blocked[index] = msgspec.structs.replace(self._blocked[index], why=why)
        self._rest(index)

    def free(self, index: int) -> bool:
        """It blocks no more. False if it did not."""
        self._highest = None
        self._queued.discard(index)
        self._unseen.discard(index)
        self._due_s.pop(index, None)
        return self._blocked.pop(index, None) is not None

    def free_through(self, processed: int) -> None:
        """Progress has gone past these."""
        for index in [index for index in self._blocked if index <= processed]:
            self.free(index)

    def _make_room(self, index: int) -> bool:
        """Lower indexes take the place of higher ones."""
        if len(self._blocked) < MOST:
            return True
        if self._highest is None:
            self._highest = max(self._blocked)
        return index < self._highest and self.free(self._highest)

    def _rest(self, index: int) -> Blocked:
        blocked = self._blocked[index]
        pause_s = backoff_s(self._retry, blocked.tries)
        self._due_s[index] = self._clock.monotonic_s() + pause_s
        next_ms = self._clock.now_ms() + round(pause_s * 1000)
        self._blocked[index] = msgspec.structs.replace(blocked, next_ms=next_ms)
        return self._blocked[index]
