"""One short step in a turn of the event loop: what follows begins after all else that waits for this turn.

A single job takes some ten turns. If several batches of a flood begin in one of them, it meets all of these.
"""

import asyncio
from collections.abc import Callable

from functory.loops.courtesy import SHORT_STEP, STEP_COST


class Turns:
    def __init__(self, on_next: Callable[[], None]) -> None:
        """on_next: told in the turn after each in which a step was taken."""
        self._on_next = on_next
        self._taken = 0

    def take(self, jobs: int) -> bool:
        """Whether a step of so many jobs may begin in this turn: the first may, and others that together with it are no
        more than a short one. If it may, it is counted."""
        taken = self._taken + jobs + STEP_COST
        if self._taken and taken > SHORT_STEP + STEP_COST:
            return False
        if not self._taken:
            asyncio.get_running_loop().call_soon(self._next)
        self._taken = taken
        return True

    def _next(self) -> None:
        self._taken = 0
        self._on_next()
