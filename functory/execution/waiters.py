"""Who waits for which job to end, on this daemon."""

import asyncio
from collections.abc import Sequence

from functory.execution.outbox import Ending
from store.base import Archive, Discard, Finish


class Waiters:
    """Implements `operations.protocols.Waiters`. Jobs that end here are announced; others are looked
    at again every `look_again_s`."""

    def __init__(self, look_again_s: float) -> None:
        self._look_again_s = look_again_s
        self._waiting: dict[str, list[asyncio.Event]] = {}

    async def wait(self, job_id: str, timeout_s: float) -> bool:
        """True when the job should be looked at again, False when the time is up."""
        event = asyncio.Event()
        self._waiting.setdefault(job_id, []).append(event)
        try:
            async with asyncio.timeout(min(timeout_s, self._look_again_s)):
                await event.wait()
        except TimeoutError:
            return timeout_s > self._look_again_s
        finally:
            events = self._waiting[job_id]
            events.remove(event)
            if not events:
                del self._waiting[job_id]
        return True

    def released(self, endings: Sequence[Ending]) -> None:
        """The outbox has recorded these: wake whoever waits for a job that is over."""
        if not self._waiting:
            return
        for _, release, _ in endings:
            if isinstance(release, Archive | Discard | Finish):
                for event in self._waiting.get(release.id, ()):
                    event.set()
