"""What all verbs stand on: the connection, and how a call is run.

A read is repeated while it fails for a reason that passes. A verb that writes runs to its end even when
its caller is cancelled, and `close` waits for it; its single steps are repeated where repeating is safe,
the verb is not.
"""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, Concatenate, ParamSpec, TypeVar

from pymongo.errors import ServerSelectionTimeoutError
from pymongo.monitoring import CommandListener

from store.errors import StoreClosed, StoreError
from store.mongo.server.blobs import Blobs
from store.mongo.server.deliveries import Deliveries
from store.mongo.server.driver import Client, connect, disconnect, has_server, retried, translated
from store.mongo.server.lane_opening import make_lanes
from store.mongo.server.ledger import Ledger
from store.mongo.server.reach import Reach
from store.mongo.server.schema import Collections, prepare

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", bound="Core")


class Core:
    """An open connection with its collections. Roles stand on it, and functions take it as `db`."""

    def __init__(self, url: str, *, listeners: Sequence[CommandListener] = ()) -> None:
        self._url = url
        self._listeners = listeners
        self._client: Client | None = None
        self._under_way: set[asyncio.Task[Any]] = set()
        self.known_failures: set[tuple[str, str]] = set()
        self.swept_name = ""
        self.deliveries = Deliveries()
        self.collections: Collections
        self.ledger: Ledger
        self.blobs: Blobs
        self._reach: Reach

    async def open(self) -> None:
        if self._client is not None:
            return
        with translated("open"):
            # In a thread, as the driver looks at files when it makes a client (for a container's marks).
            client, database = await asyncio.to_thread(connect, self._url, self._listeners)
            try:
                self.collections = Collections(database)
                await retried(lambda: prepare(self.collections))
                await retried(lambda: make_lanes(self.collections))
            except BaseException:
                await disconnect(client)
                raise
            self.ledger = Ledger(self.collections)
            self.blobs = Blobs(database)
            self._reach = Reach(lambda: has_server(client), lambda: database.command("ping"))
            self._client = client

    async def close(self) -> None:
        while self._under_way:
            await asyncio.wait(self._under_way)
        client, self._client = self._client, None
        if client is None:
            return
        await self._reach.close()
        try:
            # Writers that cannot be given back now lapse by themselves.
            with contextlib.suppress(StoreError), translated("close"):
                await self.ledger.close()
        finally:
            await disconnect(client)

    @asynccontextmanager
    async def reached(self, verb: str) -> AsyncIterator[None]:
        """Around a verb. Raises StoreClosed, StoreUnavailable, and what `translated` does."""
        if self._client is None:
            raise StoreClosed(f"{verb}: the store is not open")
        with translated(verb):
            await self._reach.check(verb)
            try:
                yield
            except ServerSelectionTimeoutError as error:
                self._reach.lost(error)
                raise

    async def run_to_its_end(self, work: Coroutine[Any, Any, T]) -> T:
        """A cancelled caller does not stop it: the database would be left with half of the steps."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)


def repeatable(
    verb: Callable[Concatenate[C, P], Awaitable[T]],
) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
    """A verb that changes nothing, or the same when it is repeated."""

    @functools.wraps(verb)
    async def run(self: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async with self.reached(verb.__name__):
            return await retried(lambda: verb(self, *args, **kwargs))

    return run


def once(
    verb: Callable[Concatenate[C, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
    """A verb whose steps belong together: it is run to its end, once."""

    @functools.wraps(verb)
    async def run(self: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async with self.reached(verb.__name__):
            return await self.run_to_its_end(verb(self, *args, **kwargs))

    return run
