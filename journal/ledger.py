"""Who holds which lines: the book-keeping of reservations. Pure: no I/O, time is passed in.

Every line between the read point and the frontier is in exactly one place: being loaded for a reader, held by an open
reservation, or returned and waiting for the next reader. The read point is the lowest of them all, so it moves past a
gap only when the gap closes.
"""

import heapq
import sys
from dataclasses import dataclass, field
from typing import NamedTuple

from journal.cursor import END, Position
from journal.errors import ReservationLapsed


class Span(NamedTuple):
    """Consecutive lines."""

    start: Position
    end: Position
    lines: int


class Reservation(NamedTuple):
    """A reader's token, and the lines it stands for."""

    token: int
    span: Span


@dataclass(slots=True)
class Ledger:
    frontier: Position
    """The first line that no reader has had yet."""
    _loading: Span | None = None
    _held: dict[int, Span] = field(default_factory=dict)
    _returned: list[Span] = field(default_factory=list)
    _deadlines: list[tuple[float, int]] = field(default_factory=list)
    _last_token: int = 0

    @property
    def read_point(self) -> Position:
        """Every line before it is done with."""
        starts = [span.start for span in self._held.values()]
        starts += [self._returned[0].start] if self._returned else []
        starts += [self._loading.start] if self._loading else []
        return min(starts, default=self.frontier)

    @property
    def unread_point(self) -> Position:
        """Every line before it was handed to a reader, and has not come back."""
        starts = [self._returned[0].start] if self._returned else []
        starts += [self._loading.start] if self._loading else []
        return min(starts, default=self.frontier)

    @property
    def open_reservations(self) -> int:
        return len(self._held)

    @property
    def has_returned(self) -> bool:
        return bool(self._returned)

    def begin(self) -> Span:
        """What the next reader gets at most: the first lines that came back, otherwise all from the frontier on.
        `complete` or `abort` follows; there is one loading at a time."""
        assert self._loading is None
        self._loading = heapq.heappop(self._returned) if self._returned else Span(self.frontier, END, sys.maxsize)
        return self._loading

    def complete(self, loaded: Span, deadline: float) -> Reservation | None:
        """The head of what `begin` offered was loaded. None if it held no line."""
        offered = self._end_loading()
        if offered.end == END:
            self.frontier = loaded.end
        elif loaded.lines and loaded.end < offered.end:
            heapq.heappush(self._returned, Span(loaded.end, offered.end, offered.lines - loaded.lines))
        if not loaded.lines:
            return None
        self._last_token += 1
        self._held[self._last_token] = loaded
        heapq.heappush(self._deadlines, (deadline, self._last_token))
        return Reservation(self._last_token, loaded)

    def abort(self) -> None:
        """Nothing could be loaded: all stays as it was."""
        offered = self._end_loading()
        if offered.end != END:
            heapq.heappush(self._returned, offered)

    def require(self, reservation: Reservation) -> Span:
        """Its lines, if the reservation is still open; ReservationLapsed otherwise."""
        span = self._held.get(reservation.token)
        if span is None:
            raise ReservationLapsed(
                f"reservation {reservation.token} timed out or ended before: its lines go to the next reader"
            )
        return span

    def finish(self, reservation: Reservation) -> None:
        """Its lines are durable elsewhere."""
        self.require(reservation)
        del self._held[reservation.token]

    def give_back(self, reservation: Reservation) -> None:
        """Its lines go to the next reader, in their order."""
        heapq.heappush(self._returned, self.require(reservation))
        del self._held[reservation.token]

    def expire(self, now_s: float) -> list[Reservation]:
        """Give back what was not finished in time."""
        lapsed = []
        while self._deadlines and self._deadlines[0][0] <= now_s:
            _, token = heapq.heappop(self._deadlines)
            if token in self._held:
                lapsed.append(Reservation(token, self._held[token]))
                self.give_back(lapsed[-1])
        return lapsed

    def next_deadline(self) -> float | None:
        while self._deadlines and self._deadlines[0][1] not in self._held:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _end_loading(self) -> Span:
        assert self._loading is not None
        offered, self._loading = self._loading, None
        return offered
