"""Lines on the straight way: the reader passes them by, and the journal keeps them until the store has their jobs."""

from collections.abc import Iterable, Sequence
from itertools import repeat

from functory.intake.weights import Weight, weigh_sizes
from vocabulary.columns import take_out

HeldLine = tuple[str, int]
"""The type of a line, and its bytes."""


class HeldLines(dict[str, HeldLine]):
    """By id."""

    def hold(self, jobtype: str, ids: Sequence[str], lines: Iterable[bytes]) -> dict[str, HeldLine]:
        held = dict(zip(ids, zip(repeat(jobtype), map(len, lines), strict=False), strict=True))
        self.update(held)
        return held

    def among(self, ids: Iterable[str]) -> dict[str, HeldLine]:
        return {job_id: self[job_id] for job_id in self.keys() & ids} if self else {}

    def let_go(self, ids: Sequence[str]) -> dict[str, Weight]:
        """Those of these that were held are not any more. Returns how much that was, by tenant."""
        return weigh_sizes(take_out(self, ids))
