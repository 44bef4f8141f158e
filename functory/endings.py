"""Who waits for which job to end, on this daemon."""

import asyncio
from collections.abc import Iterable


class Waiters:
    """Implements `functory.seams.Endings`. Jobs that end here are announced; others are looked at now and then."""

    def __init__(self, look_again_s: float) -> None:
        self._look_again_s = look_again_s
        self._waiting: dict[str, list[asyncio.Event]] = {}

    async def wait(self, job_id: str, timeout_s: float) -> bool:
        """True when it is worth looking at the job again, False when the time is up."""
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

    def announce(self, job_ids: Iterable[str]) -> None:
        """These jobs have ended."""
        if self._waiting:
            for job_id in job_ids:
                for event in self._waiting.get(job_id, ()):
                    event.set()
