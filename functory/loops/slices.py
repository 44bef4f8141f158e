"""Long work on the event loop, in slices. What counts is the work, and not how many things it is done to: one of them
may cost as much as a thousand others."""

import asyncio
from typing import Final

SLICE: Final = 20_000
"""Work of one slice, as `vocabulary.glob.glob_cost` counts it: a few milliseconds at most."""


class Slices:
    """Ensures: between two turns of the event loop at most a slice is spent, and what was spent last."""

    __slots__ = ("_spent",)

    def __init__(self) -> None:
        self._spent = 0

    async def spend(self, work: int) -> None:
        """So much was done. Others have their turn if the slice is used up."""
        self._spent += work
        if self._spent >= SLICE:
            self._spent = 0
            await asyncio.sleep(0)
