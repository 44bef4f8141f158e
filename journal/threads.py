"""A thread that makes calls, one after the other.

`ThreadPoolExecutor` makes seven objects for each call, locks among them, which is a fifth of what a single line costs
the event loop. Who needs no result takes `post`, which makes one.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import ParamSpec, TypeVar
from weakref import finalize

P = ParamSpec("P")
T = TypeVar("T")


class OneThread(Executor):
    """Its thread begins now: raises RuntimeError where the system lets nobody start one. Left to the first write, that
    would never be settled, and none after it. It ends at `shutdown`, or when nobody is left who could call."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        self._is_shut = False
        self._thread = Thread(target=_make, args=(self._calls,), name=name, daemon=True)
        self._thread.start()
        finalize(self, self._calls.put, None)

    def post(self, call: Callable[[], object]) -> None:
        """Make a call that never raises, after those before it."""
        self._calls.put(call)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        if self._is_shut:
            raise RuntimeError("the thread has ended: nobody would make the call")
        future: Future[T] = Future()
        self._calls.put(partial(_settle, future, partial(fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """What was handed over before is done first."""
        self._is_shut = True
        self._calls.put(None)
        if wait:
            self._thread.join()


def _make(calls: "SimpleQueue[Callable[[], object] | None]") -> None:
    """Without the executor: a journal that was never open, or is never closed, must not leave it to its thread."""
    while (call := calls.get()) is not None:
        call()
        del call  # what it holds is not kept until the next one


def _settle(future: "Future[T]", call: Callable[[], T]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            result = call()
        except BaseException as error:  # noqa: BLE001 (handed to whoever waits)
            future.set_exception(error)
        else:
            future.set_result(result)
