"""A loop whose time is a number: where nothing is left to do but to wait, it is later at once. For coroutines that wait
for nothing outside of the process."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")


class _Jump(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everything waits, and no time is set: this would hang"
        self.now_s += max(timeout, 0.0)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.now_s


def run_in_virtual_time(coroutine: Coroutine[Any, Any, _T]) -> _T:
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(coroutine)
