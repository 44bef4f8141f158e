"""Whether the database can be reached: found out once, for all calls.

The driver waits some seconds for a server to choose, for each call, in a thread of a small pool. While the database is
away, each call would wait that long, and many at once for threads besides. So all that need a server when none is known
wait for one question, and once it was put in vain they fail at once, until the database has answered.

Ensures: a call fails here only after the driver has looked for a server for as long as the URL says, and only while it
has found none since.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from pymongo import errors as driver_errors

from store.errors import StoreUnavailable

_PAUSE_S: Final = 0.1
"""Between two questions: the URL may have the driver wait for less."""


class Reach:
    def __init__(self, has_server: Callable[[], bool], ask: Callable[[], Awaitable[object]]) -> None:
        """has_server: whether the driver knows one for writing. ask: a command, which waits for one."""
        self._has_server = has_server
        self._ask = ask
        self._asking: asyncio.Task[None] | None = None
        self._away: str | None = None
        """What the driver said when it had looked in vain; None unless it did."""
        self._is_known = asyncio.Event()

    async def check(self, verb: str) -> None:
        """Wait until a server is known. Raises StoreUnavailable if none can be found."""
        if self._away is None:
            if self._has_server():
                return
            self._begin_to_ask()
            await self._is_known.wait()
        if self._away is not None:
            hosts = self._away.partition(", Timeout: ")[0]  # what follows is how the driver sees them
            raise StoreUnavailable(f"{verb}: MongoDB cannot be reached: {hosts:.300}")

    def lost(self, error: Exception) -> None:
        """A call has looked for a server in vain."""
        self._away = str(error)
        self._begin_to_ask()
        self._is_known.set()

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    def _begin_to_ask(self) -> None:
        if self._asking is None:
            self._is_known.clear()
            self._asking = asyncio.create_task(self._ask_until_answered())

    async def _ask_until_answered(self) -> None:
        try:
            while True:
                try:
                    await self._ask()
                    return
                except driver_errors.ServerSelectionTimeoutError as error:
                    self._away = str(error)
                    self._is_known.set()
                except driver_errors.ConnectionFailure:
                    pass  # found, and gone again
                except driver_errors.PyMongoError:
                    return  # whatever a server says, it is there
                await asyncio.sleep(_PAUSE_S)
        finally:
            self._away, self._asking = None, None
            self._is_known.set()
