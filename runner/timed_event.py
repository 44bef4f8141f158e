"""An event that one waits for at a time, each time with a bound.

A context waits for each of its batches, which take a millisecond and may take a minute. So its timer outlives a wait,
and goes on with the bound of the next one when it fires: most waits make none.
"""

import asyncio


class TimedEvent:
    """`close` leaves no timer behind."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_set = False
        self._waiter: asyncio.Future[bool] | None = None
        """The wait under way, or the last one."""
        self._until = 0.0
        """When that one has lasted long enough."""
        self._timer: asyncio.TimerHandle | None = None
        """Fires by then; it may do so sooner."""

    def set(self) -> None:
        self._is_set = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(True)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, seconds: float) -> asyncio.Future[bool]:
        """False if it was not set within that time. To be awaited at once."""
        self._waiter = self._loop.create_future()
        if self._is_set:
            self._waiter.set_result(True)
            return self._waiter
        self._until = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._until:
            self._move_timer()
        return self._waiter

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _move_timer(self) -> None:
        self.close()
        self._timer = self._loop.call_at(self._until, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        if self._loop.time() < self._until:
            self._move_timer()
        else:
            self._waiter.set_result(False)
