"""One step in a turn of the event loop: the next begins after all else that waits for this turn.

A single job takes some ten turns. If several batches of a flood begin in one of them, it meets all of these.
"""

import asyncio
from collections.abc import Callable


class Turns:
    def __init__(self, on_next: Callable[[], None]) -> None:
        """on_next: told in the turn after each that was taken."""
        self._on_next = on_next
        self._is_taken = False

    def take(self) -> bool:
        """Whether nobody has taken this turn; it is taken now."""
        if self._is_taken:
            return False
        self._is_taken = True
        asyncio.get_running_loop().call_soon(self._next)
        return True

    def _next(self) -> None:
        self._is_taken = False
        self._on_next()
