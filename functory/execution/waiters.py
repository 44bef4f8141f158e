"""Who waits for which job to end, on this daemon."""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from functory.execution.endings import Ending
from functory.loops.deadlines import Deadlines
from functory.loops.job_mark import mark_of
from store.base import Archive, Discard, Finish

_MOST_HEARD: Final = 20_000


class Waiters:
    """Implements `operations.protocols.Waiters`. Jobs that end are announced, those of other daemons by their marks. In
    case a word is lost, they are looked at again every `look_again_s`."""

    def __init__(self, look_again_s: float) -> None:
        self._look_again_s = look_again_s
        self._waiting: dict[int, list[asyncio.Future[bool]]] = {}
        """By mark. Two jobs that share one wake each other, and look again."""
        self._heard: OrderedDict[int, None] = OrderedDict()
        """Marks of jobs that other daemons ended, the last of them."""
        self._deadlines: Deadlines[bool] = Deadlines()
        self._is_closed = False

    async def wait(self, job_id: str, timeout_s: float) -> bool:
        """True when the job should be looked at again, False when the time is up, or when nobody may wait any more."""
        if self._is_closed:
            return False
        loop, mark = asyncio.get_running_loop(), mark_of(job_id)
        told: asyncio.Future[bool] = loop.create_future()
        most_s = self._look_again_s
        self._deadlines.add(loop.time() + min(timeout_s, most_s), told, timeout_s > most_s)
        self._waiting.setdefault(mark, []).append(told)
        try:
            return await told
        finally:
            others = self._waiting[mark]
            others.remove(told)
            if not others:
                del self._waiting[mark]

    def close(self) -> None:
        """Everybody who waits is told that the time is up. Who comes later, too."""
        self._is_closed = True
        self._deadlines.close()
        for waiting in self._waiting.values():
            for told in waiting:
                _tell(told, False)

    def released(self, endings: Sequence[Ending]) -> None:
        """The outbox has recorded these: wake whoever waits for a job that is over."""
        if self._waiting:
            self.ended(
                [mark_of(release.id) for _, release, _ in endings if isinstance(release, Archive | Discard | Finish)]
            )

    def heard(self, marks: Collection[int]) -> None:
        """Another daemon says that jobs with these marks are over."""
        for mark in marks:
            self._heard[mark] = None
            self._heard.move_to_end(mark)
        while len(self._heard) > _MOST_HEARD:
            self._heard.popitem(last=False)
        self.ended(marks)

    def has_ended_elsewhere(self, job_id: str) -> bool:
        return mark_of(job_id) in self._heard

    def ended(self, marks: Iterable[int]) -> None:
        """Jobs with these marks may be over."""
        for mark in marks if self._waiting else ():
            for told in self._waiting.get(mark, ()):
                _tell(told, True)


def _tell(told: "asyncio.Future[bool]", is_news: bool) -> None:
    if not told.done():
        told.set_result(is_news)
