"""The progress of consumers in a SQLite file of its own: for programs that use a consumer without the service.

`ProgressFile(path, name)` is a `ConsumerProgress` of functory.consumers. Several consumers may share a file, each under
its name, also from several processes. What `set_processed_index` has returned from survives a power cut.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import apsw

from store.errors import InvalidValue
from store.sqlite.file.connection import as_store_error, connect_writer

T = TypeVar("T")

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS consumer_progress (name TEXT PRIMARY KEY, processed INTEGER NOT NULL) STRICT"
)
_READ: Final = "SELECT processed FROM consumer_progress WHERE name = ?"
_KEEP: Final = (
    "INSERT INTO consumer_progress VALUES (?1, ?2)"
    " ON CONFLICT (name) DO UPDATE SET processed = max(processed, excluded.processed)"
)


class ProgressFile:
    """The connection is made at the first use. Raises the store's errors."""

    def __init__(self, path: Path, name: str) -> None:
        if not name or "\0" in name:
            raise InvalidValue("the name of a consumer must not be empty, nor hold a NUL")
        self.path = path
        self.name = name
        self._conn: apsw.Connection | None = None
        self._turn = asyncio.Lock()

    async def processed_index(self) -> int | None:
        found: int | None = await self._call(lambda conn: conn.execute(_READ, (self.name,)).get)
        return found

    async def set_processed_index(self, index: int) -> None:
        """A lower index than the one that is kept changes nothing: progress never falls."""
        await self._call(lambda conn: conn.execute(_KEEP, (self.name, index)).get)

    async def close(self) -> None:
        async with self._turn:
            conn, self._conn = self._conn, None
            if conn is not None:
                await asyncio.to_thread(conn.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _call(self, work: Callable[[apsw.Connection], T]) -> T:
        async with self._turn:
            return await asyncio.to_thread(self._work, work)

    def _work(self, work: Callable[[apsw.Connection], T]) -> T:
        try:
            if self._conn is None:
                self._conn = connect_writer(self.path)
                self._conn.execute(_TABLE)
            return work(self._conn)
        except apsw.Error as error:
            raise as_store_error(error, self.path) from error
