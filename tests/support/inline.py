"""An executor without threads: calls run on the event loop, one by one, when it next turns.

What is submitted in one turn forms one group, so a run is the same for the same seed, which threads would not give.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class InlineExecutor(Executor):
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 (handed to whoever waits, as a real executor does)
                future.set_exception(error)

        asyncio.get_running_loop().call_soon(run)
        return future
