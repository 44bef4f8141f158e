"""How often the other side is asked again while it does not answer, and what is said of that.

Ensures: pauses grow, and differ from one program to the next, so that a server that comes back is not met by all of
them at once. The log has the first failure, then one a minute, then that it is over.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Final

from functory.errors import FunctoryError

log = logging.getLogger("functory.queue")

_FIRST_S: Final = 0.5
_LOG_EVERY_S: Final = 60.0
_MOST_DOUBLED: Final = 16


class Outage:
    """Of one kind of request."""

    def __init__(self, event: str, longest_s: float, draw: Callable[[], float] = random.random) -> None:
        """event: what the log calls it. draw: from 0 to 1."""
        self._event = event
        self._longest_s = longest_s
        self._draw = draw
        self._failures = 0
        self._began_s = self._logged_s = 0.0

    @property
    def is_on(self) -> bool:
        """The last request was not answered."""
        return self._failures > 0

    def failed(self, error: Exception) -> float:
        """Returns after how many seconds to ask again: a pause that grows, and at least what the server asks for."""
        now_s = asyncio.get_running_loop().time()
        self._began_s = self._began_s if self._failures else now_s
        if not self._failures or now_s - self._logged_s >= _LOG_EVERY_S:
            self._logged_s = now_s
            log.warning(self._event, extra={"reason": str(error)})
        doubled = min(self._failures, _MOST_DOUBLED)
        self._failures += 1
        asked_s = error.retry_after_s if isinstance(error, FunctoryError) else None
        half_s = min(_FIRST_S * 2.0**doubled, self._longest_s) / 2
        return max(asked_s or 0.0, half_s) + half_s * self._draw()

    def over(self) -> None:
        """A request was answered."""
        if self._failures:
            away_s = asyncio.get_running_loop().time() - self._began_s
            log.warning("queue.reached_again", extra={"failed": self._failures, "for_s": round(away_s, 1)})
            self._failures = 0
