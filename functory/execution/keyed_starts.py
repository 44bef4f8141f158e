"""When the batches of a type with caps by key start, and how large they are. A key that is next waits for the first
slot that comes free, so slots of the type should come free soon, and one after the other.

Batches of such a type fall into step by themselves: those that end together are claimed together, in one commit, and
end together again. Then a key that is next waits for half of a batch, and not for the part of it that the number of
slots would allow. So starts that coincide are spread over the time that a batch takes, where far more waits than there
are slots. Slots that are out of step stay so if their jobs take about the same time; where they do not, they fall out
of step by themselves.

Ensures: beyond one such spread, no more than SHARE of the slots' time is spent waiting, whatever the jobs take.
"""

import asyncio
import math
from typing import Final, NamedTuple

from handlers.model import Handler
from scheduler import Pick
from scheduler.costs import Costs
from vocabulary.clock import Clock

_PART: Final = 4
"""A batch has this part of the usual work."""
_LEAST_S: Final = 0.03
"""Batches that are shorter are not worth a commit for each."""
_MOST_S: Final = 0.4
"""Starts are spread over no more than this: a slot that waits is no use to others."""
_WAITING: Final = 8
"""Jobs that wait for each slot: who is last waits so long that a later start does not matter."""
SHARE: Final = 0.05
_CLOSE: Final = 0.5
"""Starts coincide if the time between them is this part of what it should be."""
_MOST_TYPES: Final = 10_000


def for_keys(pick: Pick, handler: Handler) -> Pick:
    """Fewer jobs at once where keys share a type: a key that is next waits until some batch has ended."""
    return pick if handler.max_per_key is None else pick._replace(jobs=max(1, pick.jobs // _PART))


class _Last(NamedTuple):
    """Of a type: when a batch last started or is about to, and how long its slots may wait in all, as of then."""

    start_s: float
    allowance_s: float
    asked_s: float


class KeyedStarts:
    def __init__(self, clock: Clock, costs: Costs) -> None:
        self._clock = clock
        self._costs = costs
        self._last: dict[str, _Last] = {}

    async def prepare(self, pick: Pick, handler: Handler, slots: int, waiting: int) -> Pick:
        """What to claim, when it is time to claim it. slots: those that hold a batch of the type. waiting: its jobs."""
        small = for_keys(pick, handler)
        if handler.max_per_key is not None and waiting >= _WAITING * slots:
            delay_s = self.delay_s(small, slots)
            if delay_s > 0:
                await asyncio.sleep(delay_s)
        return small

    def delay_s(self, pick: Pick, slots: int) -> float:
        """How long the start of a batch should wait, which counts as started then."""
        batch_s = self._costs.expect_s(pick.jobtype, pick.jobs)
        if batch_s < _LEAST_S or slots < 2:
            return 0.0
        now_s = self._clock.monotonic_s()
        gap_s = min(batch_s, _MOST_S) / slots
        one_spread_s = gap_s * slots * (slots - 1) / 2
        last = self._last.pop(pick.jobtype, _Last(-math.inf, one_spread_s, now_s))
        allowance_s = min(last.allowance_s + SHARE * slots * (now_s - last.asked_s), one_spread_s)
        coincides = now_s - last.start_s < _CLOSE * gap_s
        delay_s = min(last.start_s + gap_s - now_s, (slots - 1) * gap_s, allowance_s) if coincides else 0.0
        self._last[pick.jobtype] = _Last(now_s + delay_s, allowance_s - delay_s, now_s)
        if len(self._last) > _MOST_TYPES:
            del self._last[next(iter(self._last))]
        return delay_s
