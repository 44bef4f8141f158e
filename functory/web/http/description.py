"""The interface as OpenAPI and as a page. Both are made when somebody first asks, on a thread: it takes longer than all
else of an application's start, and would hold up everybody on the event loop."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from functory.loops.one_look import OneLook


class Described(NamedTuple):
    openapi: bytes
    page: bytes


class Description:
    def __init__(self, make: Callable[[], Described]) -> None:
        self._make = make
        self._made: Described | None = None
        self._looks: OneLook[None, Described] = OneLook()

    async def get(self) -> Described:
        if self._made is None:
            self._made = await self._looks.ask(None, lambda: asyncio.to_thread(self._make))
        return self._made
