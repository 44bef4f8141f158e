"""A reservation of the journal's reader that waits for lines on the straight way."""

from collections.abc import Sequence

from functory.intake.held_lines import HeldLine
from journal import Reservation


class Open:
    __slots__ = ("ids", "is_added", "is_returned", "missing", "reservation")

    def __init__(self, reservation: Reservation, ids: Sequence[str], missing: dict[str, HeldLine]) -> None:
        self.reservation = reservation
        self.ids = ids
        """Of all of its lines."""
        self.missing = missing
        """Those on the straight way."""
        self.is_added = False
        """Its other lines are in the store."""
        self.is_returned = False
