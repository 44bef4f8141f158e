"""Reading connections, apart from the writer: a long listing never keeps a write waiting, nor the other way round.

Every read sees all writes that had returned when it began, and nothing of those under way (a WAL snapshot).
"""

import asyncio
import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import apsw

from store.errors import StoreClosed
from store.sqlite.file.connection import as_store_error, connect_reader

READERS: Final = 2

T = TypeVar("T")


class Readers:
    """A few threads that read. Start, stop and `call` belong to coroutines of one event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads: ThreadPoolExecutor | None = None
        self._idle: queue.SimpleQueue[apsw.Connection] = queue.SimpleQueue()

    def start(self) -> None:
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="store-reader")

    async def stop(self) -> None:
        threads, self._threads = self._threads, None
        if threads is not None:
            await asyncio.to_thread(threads.shutdown)
            while not self._idle.empty():
                self._idle.get_nowait().close()

    async def call(self, work: Callable[[apsw.Connection], T]) -> T:
        """Run work on one snapshot of the database."""
        if self._threads is None:
            raise StoreClosed(f"the store {self._path} is not open")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, work)

    def _read(self, work: Callable[[apsw.Connection], T]) -> T:
        conn: apsw.Connection | None = None
        try:
            conn = self._take()
            conn.execute("BEGIN")
            return work(conn)
        except apsw.Error as error:
            raise as_store_error(error, self._path) from error
        finally:
            if conn is not None:
                if conn.in_transaction:
                    conn.execute("ROLLBACK")
                self._idle.put(conn)

    def _take(self) -> apsw.Connection:
        """An idle connection, or a new one: there are never more than threads."""
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return connect_reader(self._path)
