"""What all roles of the SQLite store stand on: the file, its writer, its readers, open and close."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

from store.sqlite.file.readers import Readers
from store.sqlite.file.writer import Joint, Tx, Writer

T = TypeVar("T")


class SqliteCore:
    """Open and close are idempotent, and a store that was closed can be opened again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer = Writer(path)
        self._readers = Readers(path)
        self._open = False
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        async with self._turn:
            if not self._open:
                await self._writer.start()
                self._readers.start()
                self._open = True

    async def close(self) -> None:
        async with self._turn:
            if self._open:
                self._open = False
                await self._readers.stop()
                await self._writer.stop()

    async def ping(self) -> None:
        await self._read(lambda conn: conn.execute("SELECT 1").get)

    def _write(self, work: Callable[[Tx], T], *, bulk: bool = False, joint: Joint | None = None) -> "asyncio.Future[T]":
        return self._writer.call(work, bulk=bulk, joint=joint)

    async def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        return await self._readers.call(work)
