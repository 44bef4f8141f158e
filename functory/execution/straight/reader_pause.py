"""When the journal's reader waits before it brings more lines: while enough wait here, and, for a moment, while the
store has some of their type, which would have them take the long way behind these.

Without the second a flood that took the long way once would stay there for as long as it lasts.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from functory.loops.courtesy import LONG_STEP
from vocabulary.clock import Clock

_PROGRESS_WITHIN_S: Final = 1.0
"""In this time some of what the store has of the type is taken up, or the lines go there, too."""
_MOST_AHEAD: Final = 5 * LONG_STEP
"""More are not taken up so soon. All that can wait here fit, if they had to go there."""
_TIRED_S: Final = 1.0
"""After it waited in vain it does not wait so again for this long."""


class ReaderPause:
    def __init__(
        self,
        clock: Clock,
        is_full: Callable[[str], bool],
        is_clear: Callable[[str], bool],
        ahead: Callable[[str], int | None],
        is_flood: Callable[[str], bool],
    ) -> None:
        """is_full: enough of a type wait here. is_clear: whether the store has nothing of a type. ahead: how many it
        has that are about to start, if that is known. is_flood: whether many of a type wait for the reader, and may
        start here."""
        self._clock = clock
        self._is_full = is_full
        self._is_clear = is_clear
        self._ahead = ahead
        self._is_flood = is_flood
        self._tired_until_s = 0.0
        self._news = asyncio.Event()
        self.look = self._news.set
        """It may be over."""

    async def over(self, next_type: Callable[[], str | None]) -> None:
        """next_type: as `StraightIntake.room` has it."""
        while (jobtype := next_type()) is not None and self._is_full(jobtype):
            await self._changed()
        if not jobtype or self._clock.monotonic_s() < self._tired_until_s or not self._is_flood(jobtype):
            return
        while next_type() == jobtype and not self._is_clear(jobtype):
            before = self._ahead(jobtype)
            if before is None or before > _MOST_AHEAD:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(_PROGRESS_WITHIN_S):
                    while next_type() == jobtype and not self._is_clear(jobtype):
                        await self._changed()
            now = self._ahead(jobtype)
            if not self._is_clear(jobtype) and (now is None or now >= before):
                self._tired_until_s = self._clock.monotonic_s() + _TIRED_S
                return

    async def _changed(self) -> None:
        self._news.clear()
        await self._news.wait()
