"""Tells when types of which jobs wait for a token may be claimed again.

One timer for all types. Those whose time has come are told together, and the pause after that is several times as long
as it took: tenants with very many types and high rates take only a part of the loop's time.
"""

import asyncio
import heapq
from collections.abc import Callable
from typing import Final

_PAUSE_PART: Final = 3


class TokenAlarm:
    def __init__(self, on_token: Callable[[list[str]], None]) -> None:
        self._on_token = on_token
        self._at_s: dict[str, float] = {}
        """The time that counts, for each type."""
        self._times: list[tuple[float, str]] = []
        """A heap. Times that count no longer stay in it until they have come."""
        self._timer: asyncio.TimerHandle | None = None
        self._free_s = 0.0

    def set(self, jobtype: str, after_s: float) -> None:
        """It may be claimed again after that long, whatever was said before."""
        at_s = asyncio.get_running_loop().time() + after_s
        if self._at_s.get(jobtype) != at_s:
            self._at_s[jobtype] = at_s
            heapq.heappush(self._times, (at_s, jobtype))
            self._wind()

    def _wind(self) -> None:
        """Ring when the first time comes, and not before the pause is over."""
        if not self._times:
            return
        at_s = max(self._times[0][0], self._free_s)
        if self._timer is None or at_s < self._timer.when():
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_at(at_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        come: list[str] = []
        while self._times and self._times[0][0] <= began_s:
            at_s, jobtype = heapq.heappop(self._times)
            if self._at_s.get(jobtype) == at_s:
                del self._at_s[jobtype]
                come.append(jobtype)
        if come:
            self._on_token(come)
        ended_s = loop.time()
        self._free_s = ended_s + _PAUSE_PART * (ended_s - began_s)
        self._wind()
