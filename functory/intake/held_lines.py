"""Lines on the straight way: the reader passes them by, and the journal keeps them until the store has their jobs."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

from functory.intake.weights import Weight, weigh_sizes
from vocabulary.columns import make_all, take_out


class HeldLine(NamedTuple):
    jobtype: str
    size_bytes: int


class HeldLines:
    def __init__(self) -> None:
        self._held: dict[str, HeldLine] = {}

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._held

    def __bool__(self) -> bool:
        return bool(self._held)

    def hold(self, jobtype: str, ids: Sequence[str], lines: Iterable[bytes]) -> dict[str, HeldLine]:
        held = dict(zip(ids, make_all(HeldLine, repeat(jobtype), map(len, lines)), strict=True))
        self._held.update(held)
        return held

    def among(self, ids: Iterable[str]) -> dict[str, HeldLine]:
        return {job_id: self._held[job_id] for job_id in self._held.keys() & ids} if self._held else {}

    def let_go(self, ids: Sequence[str]) -> dict[str, Weight]:
        """Those of these that were held are not any more. Returns how much that was, by tenant."""
        found = take_out(self._held, ids)
        return weigh_sizes(found)
