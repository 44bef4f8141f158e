"""Waiting for another process: the one place of the acceptance tests that asks again and again."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

_T = TypeVar("_T")
_PAUSE_S = 0.03


async def until(ask: Callable[[], Awaitable[_T | None]], timeout_s: float = 200.0) -> _T:
    """The first answer that is true. Raises TimeoutError: a hang is a failure, and no test measures time with it."""
    async with asyncio.timeout(timeout_s):
        while not (answer := await ask()):  # noqa: ASYNC110 (other processes: there is no event to wait on)
            await asyncio.sleep(_PAUSE_S)
    return answer
