"""The WAL of the SQLite store is moved into the file while the writer goes on."""

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import apsw
import pytest

from store.sqlite import SqliteStore
from store.sqlite.file import checkpoints
from store.sqlite.file.checkpoints import Checkpoints
from store.sqlite.file.connection import connect_writer
from tests.support.jobs import T0, new_jobs

PAGES = 100


class AtOnce(Executor):
    """Does what it is given before `submit` returns: so the longest WAL does not depend on how threads take turns."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], /, *args: Any, **options: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        done.set_result(work(*args, **options))
        return done


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "CHECKPOINT_PAGES", PAGES)
    monkeypatch.setattr(checkpoints, "ThreadPoolExecutor", AtOnce)


async def longest_wal_pages(path: Path) -> int:
    """Of a store that has written many times as many pages. The WAL's file is as long as the WAL ever was."""
    async with SqliteStore(path) as store:
        for step in range(400):
            await store.add_jobs(new_jobs(50, start=50 * step), now_ms=T0)
        wal = path.with_name(path.name + "-wal")
        return (await asyncio.to_thread(wal.stat)).st_size // 4096


async def test_the_wal_starts_anew_while_writes_go_on(tmp_path: Path) -> None:
    assert PAGES <= await longest_wal_pages(tmp_path / "store.db") < 2 * PAGES


class Starved(AtOnce):
    """Where the system lets nobody start a thread, for some time."""

    refused = 0

    def submit(self, work: Callable[..., Any], /, *args: Any, **options: Any) -> "Future[Any]":
        if self.refused < 3:
            self.refused += 1
            raise RuntimeError("can't start new thread")
        return super().submit(work, *args, **options)


async def test_writes_go_on_where_no_thread_can_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "ThreadPoolExecutor", Starved)
    async with asyncio.timeout(30):
        assert await longest_wal_pages(tmp_path / "store.db") < 3 * PAGES


def test_what_is_in_the_wal_is_moved_beside_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with contextlib.closing(connect_writer(path)) as conn:
        beside = Checkpoints(path, conn)
        conn.execute("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(100000))")
        beside._move_most()
        in_wal, moved = conn.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        assert in_wal == moved > 20


class Watched:
    """The writer's connection, and how many pages it has moved itself."""

    def __init__(self, conn: apsw.Connection) -> None:
        self.conn = conn
        self.moved = 0

    def set_wal_hook(self, hook: Any) -> None:
        self.conn.set_wal_hook(hook)

    def wal_checkpoint(self) -> None:
        before = moved_of(self.conn)[1]
        self.moved += self.conn.wal_checkpoint()[1] - before


def moved_of(conn: apsw.Connection) -> tuple[int, int]:
    return conn.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)


def test_what_a_long_reader_held_back_is_moved_beside_the_writer(tmp_path: Path) -> None:
    """A backup takes long, and what was written meanwhile kept all others waiting when it was over."""
    path = tmp_path / "store.db"
    with contextlib.closing(connect_writer(path)) as conn, contextlib.closing(apsw.Connection(str(path))) as reader:
        watched: Any = Watched(conn)
        beside = Checkpoints(path, watched)
        conn.execute("CREATE TABLE t (x)")
        reader.execute("BEGIN; SELECT * FROM t").fetchall()
        for _ in range(50):
            conn.execute("INSERT INTO t VALUES (zeroblob(100000))")
            if beside.is_due:
                beside.look()
        in_wal, moved = moved_of(conn)
        assert in_wal - moved > 10 * PAGES
        reader.execute("COMMIT")
        for _ in range(4):
            conn.execute("INSERT INTO t VALUES (1)")
            if beside.is_due:
                beside.look()
        assert moved_of(conn)[0] < PAGES, "it began anew"
        assert watched.moved < PAGES
        beside.close()


async def test_without_help_the_writer_moves_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise apsw.BusyError("another process is at it")

    monkeypatch.setattr(checkpoints, "fetch", lambda conn, _: refuse(conn))
    assert PAGES <= await longest_wal_pages(tmp_path / "store.db") < 2 * PAGES
