"""The one writing connection, on a thread of its own, with group commit.

The thread takes all operations that wait (writer_queue.py), runs each but the first in a savepoint of one
transaction, commits once, and only then tells the callers: many small writes share one sync, and nobody hears of a
write that is not durable. Some that wait one behind the other are run as one (Joint). An operation that fails undoes
its own savepoint and nobody else's; a failed commit fails all of them. Never runs two transactions at once, never
leaves one open between groups.
"""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import apsw

from store.errors import StoreClosed
from store.sqlite.file.catalog import Catalog
from store.sqlite.file.checkpoints import Checkpoints
from store.sqlite.file.connection import BUSY_TIMEOUT_MS, as_store_error, check_library, connect_writer
from store.sqlite.file.maintenance import keep_copy
from store.sqlite.file.opened_file import OpenedFile
from store.sqlite.file.schema import migrate
from store.sqlite.file.tally import Tally
from store.sqlite.file.writer_queue import WriterQueue

MAX_GROUP: Final = 256
MAX_TOGETHER: Final = 32
"""Operations that are run as one: in between nobody looks at the time."""
MAX_GROUP_S: Final = 0.02
"""A group takes no further operation after this long, so that no caller waits for an endless one."""
MAX_BULK_GROUP_S: Final = 0.004
"""And after this long none that may take long itself: it would keep all others of the group from their answer, and the
event loop from its part of the work meanwhile."""
_FIRST_TRY_S: Final = 0.001
_LATER_TRY_S: Final = 0.025
"""Between two tries of a lock that another process holds: transactions are short, unless one is not."""

T = TypeVar("T")


class Tx(NamedTuple):
    """What an operation works with: the connection inside its transaction, names, and counts to be written."""

    conn: apsw.Connection
    catalog: Catalog
    tally: Tally


class Joint(NamedTuple):
    """How short operations of one kind are run together: `work` takes what each of them brings, those of which `may`
    allows it, and returns the result of each. What it raises undoes all that it did, and each is run by itself."""

    work: Callable[[Tx, Sequence[Any]], Sequence[Any]]
    may: Callable[[Any], bool]
    brings: Any


class _Operation(NamedTuple):
    work: Callable[[Tx], Any]
    future: "asyncio.Future[Any]"
    bulk: bool
    joint: Joint | None = None


class _Stop:
    """The thread is to end when everything that was accepted is done."""


class _Ended(NamedTuple):
    operation: _Operation
    result: Any
    error: Exception | None


class Writer:
    """Start, stop and `call` belong to coroutines of one event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: WriterQueue[_Operation | _Stop] = WriterQueue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._untold: list[_Ended] = []
        """Committed or failed, and nobody knows yet. The thread's own."""
        self._locked_s = 0.0
        self._file: OpenedFile | None = None
        """The thread's own, while the file is open."""

    async def start(self) -> None:
        """Open the file and bring its schema up to date; raises what `Store.open` raises."""
        conn = await asyncio.to_thread(self._open)
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, args=(conn,), name="store-writer", daemon=True)
        await asyncio.to_thread(self._thread.start)

    async def stop(self) -> None:
        """Finish what was accepted, close the file, end the thread. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._queue.put(_Stop(), bulk=True)
            await asyncio.to_thread(thread.join)

    def call(self, work: Callable[[Tx], T], *, bulk: bool = False, joint: Joint | None = None) -> "asyncio.Future[T]":
        """Run work in a write transaction; the future has its result when that is committed. bulk: it may take long,
        and lets others pass. joint: how it is run together with others, in place of work.

        A caller that is cancelled stops waiting; the operation is committed, or fails, without it.
        """
        if self._thread is None or self._loop is None:
            raise StoreClosed(f"the store {self._path} is not open")
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Operation(work, future, bulk, joint), bulk=bulk)
        return future

    def _open(self) -> apsw.Connection:
        check_library()
        try:
            conn = connect_writer(self._path)
        except apsw.Error as error:
            raise as_store_error(error, self._path) from error
        self._file = OpenedFile(self._path)
        try:
            migrate(conn, str(self._path), lambda version: keep_copy(self._path, version))
        except apsw.Error as error:
            conn.close()
            raise as_store_error(error, self._path) from error
        except BaseException:
            conn.close()
            raise
        return conn

    def _run(self, conn: apsw.Connection) -> None:
        catalog = Catalog(conn)
        checkpoints = Checkpoints(self._path, conn)
        conn.set_busy_handler(self._wait_for_lock)
        is_stopping = False
        following: _Operation | _Stop | None = self._queue.take()
        while following is not None:
            if isinstance(following, _Operation):
                is_stopping |= self._run_group(conn, catalog, following)
                if checkpoints.is_due:
                    self._tell()
                    checkpoints.look()
            else:
                is_stopping = True
            following = self._queue.take_now()
            if following is None:
                self._tell()
                # Short operations that came before the stop may have stood behind it: they are finished, too.
                following = None if is_stopping else self._queue.take()
        checkpoints.close()
        conn.close()

    def _run_group(self, conn: apsw.Connection, catalog: Catalog, first: _Operation) -> bool:
        """One transaction; returns whether the stop was met.

        Ensures: no transaction is open afterwards, and every operation taken has an end, which is still to be told.
        """
        taken = [first]
        ended: list[_Ended] = []
        met_stop = False
        try:
            if self._file is not None:
                self._file.check()
            conn.execute("BEGIN IMMEDIATE")
            catalog.revalidate()
            self._tell()
            counts = Tally()
            began_s = time.monotonic()
            self._take_alike(taken)
            if len(taken) == 1:  # alone so far: if it fails, it is the transaction that is undone
                ended.append(_Ended(first, first.work(Tx(conn, catalog, counts)), None))
            else:
                ended += self._run_some(conn, catalog, counts, taken)
            short_only = not first.bulk
            while len(taken) < MAX_GROUP and (taken_s := time.monotonic() - began_s) < MAX_GROUP_S:
                following = self._queue.take_now(short_only=short_only or taken_s > MAX_BULK_GROUP_S)
                if not isinstance(following, _Operation):
                    met_stop = following is not None
                    break
                short_only |= not following.bulk
                taken.append(following)
                ended += self._run_some(conn, catalog, counts, self._take_alike(taken))
            if counts.write(conn, catalog.buckets):
                catalog.clear()
            conn.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whatever it is, every caller of the group must hear of it
            catalog.clear()
            if conn.in_transaction:
                # If even this fails the disk is in trouble: the next group fails at its BEGIN and tries again.
                with contextlib.suppress(apsw.Error):
                    conn.execute("ROLLBACK")
            ended = [_Ended(operation, None, self._named(error)) for operation in taken]
        self._untold += ended
        return met_stop

    def _take_alike(self, taken: list[_Operation]) -> list[_Operation]:
        """The last one taken, with those behind it that can be run together with it: they are taken, too."""
        start = len(taken) - 1
        joint = taken[start].joint
        if joint is None:
            return taken[start:]

        def fits(one: _Operation | _Stop) -> bool:
            its = one.joint if isinstance(one, _Operation) else None
            is_alike = its is not None and its.work is joint.work and its.may(its.brings)
            return is_alike and (len(taken) > start + 1 or joint.may(joint.brings))

        most = start + MAX_TOGETHER
        while len(taken) < most and isinstance(more := self._queue.take_short_now(fits), _Operation):
            taken.append(more)
        return taken[start:]

    def _run_some(
        self, conn: apsw.Connection, catalog: Catalog, counts: Tally, alike: Sequence[_Operation]
    ) -> list[_Ended]:
        """One, or several that are alike. Ensures: one that fails takes no other along."""
        if len(alike) > 1:
            brought = [one.joint.brings for one in alike if one.joint is not None]
            joint: Any = alike[0].joint
            results, error = self._run_guarded(conn, catalog, counts, lambda tx: joint.work(tx, brought))
            if error is None:
                return [_Ended(one, result, None) for one, result in zip(alike, results, strict=True)]
        return [_Ended(one, *self._run_guarded(conn, catalog, counts, one.work)) for one in alike]

    def _run_guarded(
        self, conn: apsw.Connection, catalog: Catalog, counts: Tally, work: Callable[[Tx], Any]
    ) -> tuple[Any, Exception | None]:
        tally = Tally()
        conn.execute("SAVEPOINT operation")
        try:
            result = work(Tx(conn, catalog, tally))
        except Exception as error:
            catalog.clear()
            if not conn.in_transaction:
                raise  # SQLite rolled back everything (disk full, I/O error): the whole group fails
            conn.execute("ROLLBACK TO operation")
            conn.execute("RELEASE operation")
            return None, self._named(error)
        conn.execute("RELEASE operation")
        counts.absorb(tally)
        return result, None

    def _named(self, error: Exception) -> Exception:
        if not isinstance(error, apsw.Error):
            return error
        try:
            return as_store_error(error, self._path)
        except apsw.Error as unnamed:
            return unnamed

    def _tell(self) -> None:
        """Tell the callers what has ended. As late as the next transaction has begun, if one is waiting: the event loop
        then does its part while this thread is inside SQLite. Told earlier, it is at work when this thread needs the
        interpreter's lock for the first statements."""
        ended, self._untold = self._untold, []
        if ended and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is gone, and with it everyone who would listen
                self._loop.call_soon_threadsafe(_deliver, self._loop, ended)

    def _wait_for_lock(self, tries: int) -> bool:
        """Another process writes: those who need not wait for it hear what they asked for."""
        self._tell()
        if tries == 0:
            self._locked_s = time.monotonic()
        time.sleep(min(_FIRST_TRY_S * (1 + tries), _LATER_TRY_S))
        return time.monotonic() - self._locked_s < BUSY_TIMEOUT_MS / 1000


def _deliver(loop: asyncio.AbstractEventLoop, ended: list[_Ended]) -> None:
    """Callers of short operations hear first, and have two turns of the loop before the others: whoever waits for a
    single job has its answer before the next thousand of a flood are looked at."""
    bulk = [one for one in ended if one.operation.bulk]
    if not bulk or len(bulk) == len(ended):
        _settle(ended)
        return
    _settle(one for one in ended if not one.operation.bulk)
    loop.call_soon(_settle, bulk)


def _settle(ended: Iterable[_Ended]) -> None:
    for (_, future, *_), result, error in ended:
        if future.done():  # its caller was cancelled
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
