"""The threads in which a worker runs plain functions.

Ensures: there is a thread for each function that runs, and one that is free is used again. They are no part of the
loop's own executor, which looks up the names of hosts: functions that take long would keep the renewals of their leases
from it. They are daemon threads, so a function that does not return keeps neither other functions nor the end of the
process waiting.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

_Inbox = SimpleQueue[Callable[[], None] | None]


class TaskThreads:
    def __init__(self) -> None:
        self._free: list[_Inbox] = []
        self._is_closed = False

    async def call(self, function: Callable[..., Any], *arguments: object) -> Any:
        """What it returns or raises. Whatever cannot pass through a future, or would end more than the function, is a
        RuntimeError: StopIteration, SystemExit, CancelledError."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        context = contextvars.copy_context()
        inbox = self._free.pop() if self._free else _start_thread()

        def run() -> None:
            try:
                result, error = context.run(function, *arguments), None
            except BaseException as raised:  # noqa: BLE001 (it is raised where the function was called)
                result, error = None, as_exception(raised)
            with suppress(RuntimeError):  # the loop is closed: nobody waits for it
                loop.call_soon_threadsafe(end, result, error)

        def end(result: object, error: Exception | None) -> None:
            self._release(inbox)
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        inbox.put(run)
        return await future

    def close(self) -> None:
        """Threads that are free end, and others when their function returns."""
        self._is_closed = True
        while self._free:
            self._free.pop().put(None)

    def _release(self, inbox: _Inbox) -> None:
        if self._is_closed:
            inbox.put(None)
        else:
            self._free.append(inbox)


def _start_thread() -> _Inbox:
    inbox: _Inbox = SimpleQueue()
    threading.Thread(target=_serve, args=(inbox,), name="task", daemon=True).start()
    return inbox


def _serve(inbox: _Inbox) -> None:
    while (run := inbox.get()) is not None:
        run()
        del run  # or the last payload and result would be kept until the next one


def as_exception(raised: BaseException) -> Exception:
    """What a task raised, as an error of its job."""
    if isinstance(raised, Exception) and not isinstance(raised, StopIteration):
        return raised
    error = RuntimeError(f"the task raised {type(raised).__name__}")
    error.__cause__ = raised
    return error
