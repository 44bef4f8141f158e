"""What is particular to the SQLite store: its file, what it refuses, what it remembers, its indexes."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from store.base import Code, JobState, NewJob, Rearm
from store.errors import (
    SchemaTooNew,
    StoreCorrupt,
    StoreUnavailable,
    UnsupportedStore,
)
from store.sqlite import SqliteStore
from store.sqlite.file.connection import as_store_error, check_library, connect_writer
from store.sqlite.file.schema import APPLICATION_ID, MIGRATIONS, migrate, read_version
from store.sqlite.file.writer import Tx
from store.url import open_store
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, claim_one, new_job, new_jobs, outcome
from tests.support.store_audit import check_counters


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "store.db") as opened:
        yield opened


def test_library_without_the_wal_reset_fix_is_refused() -> None:
    check_library()
    check_library("3.51.3")
    for version in ("3.51.2", "3.50.10", "3.9.9"):
        with pytest.raises(UnsupportedStore, match=r"3\.51\.3"):
            check_library(version)


@pytest.mark.parametrize(
    "url",
    ["sqlite://", "sqlite:///", "sqlite://host/x.db", "sqlite:///folder/", "sqlite:///x.db?mode=ro", "sqlite:///a%00b"],
)
def test_malformed_urls_are_refused(url: str) -> None:
    with pytest.raises(UnsupportedStore):
        open_store(url)


async def test_a_path_may_have_any_characters(tmp_path: Path) -> None:
    async with open_store(f"sqlite://{tmp_path}/a%20b%3Fc.db") as store:
        await store.ping()
    assert await asyncio.to_thread((tmp_path / "a b?c.db").exists)


async def test_settings_that_durability_stands_on(store: SqliteStore) -> None:
    def settings(tx: Tx) -> tuple[object, ...]:
        names = ("synchronous", "application_id", "user_version")
        return tuple(tx.conn.execute(f"PRAGMA {name}").get for name in names)

    assert await store._write(settings) == (2, APPLICATION_ID, len(MIGRATIONS))
    assert await store._read(lambda conn: conn.execute("PRAGMA journal_mode").get) == "wal"


async def test_readers_cannot_write(store: SqliteStore) -> None:
    with pytest.raises(StoreUnavailable):
        await store._read(lambda conn: conn.execute("DELETE FROM jobs").get)


async def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"

    def age() -> None:
        with contextlib.closing(apsw.Connection(str(path))) as conn:
            migrate(conn, str(path))
            conn.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")

    await asyncio.to_thread(age)
    with pytest.raises(SchemaTooNew):
        async with SqliteStore(path):
            pass


async def test_the_file_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"

    def write() -> None:
        with contextlib.closing(apsw.Connection(str(path))) as conn:
            conn.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")

    def read() -> list[tuple[Any, ...]]:
        with contextlib.closing(apsw.Connection(str(path))) as conn:
            return conn.execute("SELECT name FROM sqlite_schema").fetchall()

    await asyncio.to_thread(write)
    with pytest.raises(UnsupportedStore):
        async with SqliteStore(path):
            pass
    assert await asyncio.to_thread(read) == [("theirs",)]


async def test_a_file_that_is_no_database_is_called_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await asyncio.to_thread(path.write_bytes, b"this is not a database" * 100)
    with pytest.raises(StoreCorrupt):
        async with SqliteStore(path):
            pass


async def test_a_folder_that_does_not_exist_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        async with SqliteStore(tmp_path / "nowhere" / "store.db"):
            pass


async def test_the_file_is_for_its_owner_only(store: SqliteStore) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    for suffix in ("", "-wal", "-shm"):
        file = store.path.with_name(store.path.name + suffix)
        assert (await asyncio.to_thread(file.stat)).st_mode & 0o077 == 0, file


async def test_many_processes_may_create_the_file_at_once(tmp_path: Path) -> None:
    stores = [SqliteStore(tmp_path / "store.db") for _ in range(6)]
    await asyncio.gather(*(store.open() for store in stores))
    await asyncio.gather(*(store.add_jobs([new_job(n)], now_ms=T0) for n, store in enumerate(stores)))
    assert (await stores[0].get_usage(TENANT)).jobs == 6
    await asyncio.gather(*(store.close() for store in stores))


@pytest.mark.parametrize("nth", range(1, 5))
def test_the_schema_may_be_made_by_another_process_while_its_version_is_read(tmp_path: Path, nth: int) -> None:
    path = str(tmp_path / "store.db")
    statements = itertools.count(1)

    def make_schema_before_the_nth(*_: object) -> bool:
        if next(statements) == nth:
            with contextlib.closing(apsw.Connection(path)) as other:
                migrate(other, path)
        return True

    with contextlib.closing(apsw.Connection(path)) as conn:
        conn.execute("PRAGMA journal_mode = WAL")
        conn.exec_trace = make_schema_before_the_nth
        assert read_version(conn, path) in (0, len(MIGRATIONS))


def test_a_new_file_that_another_process_is_setting_up_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    with contextlib.closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")
        monkeypatch.setattr("time.sleep", lambda _: other.execute("COMMIT"))
        with contextlib.closing(connect_writer(path)) as conn:
            assert conn.execute("PRAGMA journal_mode").get == "wal"


async def test_what_another_process_changed_is_not_remembered_wrongly(store: SqliteStore) -> None:
    async with SqliteStore(store.path) as other:
        await store.add_jobs([new_job(1, domain="d")], now_ms=T0)  # the lane of d is remembered here
        (job,) = await claim(other)
        await other.release_jobs(OWNER, [archive(job)], now_ms=T0)
        await other.delete_jobs(TENANT, [job.id], now_ms=T0)  # and its last job is removed there, the lane with it
        await store.add_jobs([new_job(2, domain="d")], now_ms=T0)
        assert len(await claim(store)) == 1  # the lanes of the type are remembered here
        await other.add_jobs([new_job(3, domain="e"), new_job(4, priority=0)], now_ms=T0)
        assert len(await claim(store)) == 2
        await check_counters(other, TENANT, T0)


async def test_buckets_that_another_process_changed_are_read_again(store: SqliteStore) -> None:
    async with SqliteStore(store.path) as other:
        await store.add_jobs(new_jobs(6), now_ms=T0)
        for turn in (store, other, store, store, other, other):
            job = await claim_one(turn)
            await turn.release_jobs(OWNER, [archive(job)], now_ms=T0)
    (bucket,) = await store.get_buckets(TENANT, width_ms=60_000, since_ms=0, until_ms=T0 + 60_000)
    assert (bucket.ok, bucket.duration.count) == (6, 6)


async def test_nothing_of_a_deleted_tenant_is_left_in_the_tables(store: SqliteStore) -> None:
    for tenant in (TENANT, "other"):
        await store.add_jobs(
            [new_job(n, jobtype=f"{tenant}-t{n % 3}", id=f"{tenant}-{n}") for n in range(9)], now_ms=T0
        )
        for kind in range(3):
            jobs = await claim(store, jobtype=f"{tenant}-t{kind}")
            for minute, job in enumerate(jobs):
                await store.release_jobs(OWNER, [archive(job)], now_ms=T0 + minute * 60_000)

    before = await store.verify()
    while (await store.delete_tenant(TENANT, limit=2)).more:
        pass
    after = await store.verify()
    assert {name: 2 * count for name, count in after.items()} == before
    assert min(after[name] for name in ("types", "lanes", "jobs", "buckets", "totals")) > 0
    await check_counters(store, "other", T0)


async def test_a_lane_goes_with_its_last_job(store: SqliteStore) -> None:
    await store.add_jobs(new_jobs(2, domain="d"), now_ms=T0)
    jobs = await claim(store)
    await store.release_jobs(OWNER, [archive(job) for job in jobs], now_ms=T0)
    counts = []
    for job in jobs:
        await store.delete_jobs(TENANT, [job.id], now_ms=T0)
        counts.append(await store._read(lambda conn: conn.execute("SELECT count(*) FROM lanes").get))
    assert counts == [1, 0]


ARCHIVED = (
    "SELECT done, n FROM jobs WHERE state = 5 AND type = 1 AND code = 0 AND done >= 1 AND (done, n) < (9, 9)"
    " ORDER BY done DESC, n DESC LIMIT 5"
)
PAUSED = (
    "SELECT due, n FROM jobs WHERE state IN (3, 4) AND type = 1 AND due < 5 AND (due, n) > (0, 0)"
    " ORDER BY due, n LIMIT 3"
)
UNIQUE = "SELECT n FROM jobs WHERE type = 1 AND uniq = 'u' AND uniq IS NOT NULL AND state < 5"
REPEATING = "SELECT n FROM jobs WHERE type = 1 AND id > 'a' AND repeat IS NOT NULL AND state < 5 ORDER BY id LIMIT 5"
OF_TURN = "SELECT n FROM jobs WHERE turn = 1 AND turn IS NOT NULL AND state <= 1 AND"
PLANS = {
    "jobs_of_turn": f"{OF_TURN} prio = 500 AND due <= 5 ORDER BY due, id LIMIT 5",
    "jobs_retried": f"{OF_TURN} begun IS NOT NULL ORDER BY due, id LIMIT 1",
    "jobs_running": "SELECT 1 FROM jobs WHERE turn = 1 AND turn IS NOT NULL AND state = 2 LIMIT 1",
    "turns_open": "SELECT turn, tag FROM turns WHERE type = 1 AND open = 1 ORDER BY tag, turn LIMIT 5",
    "turns_later": "SELECT turn FROM turns WHERE type = 1 AND open = 0 AND at IS NOT NULL AND at <= 5 LIMIT 5",
    "jobs_queued": "SELECT n FROM jobs WHERE state <= 1 AND lane = 1 AND due <= 5 ORDER BY due, id LIMIT 5",
    "jobs_leased": "SELECT n FROM jobs WHERE state = 2 AND lease <= 5 ORDER BY lease LIMIT 5",
    "jobs_deferred": "SELECT 1 FROM jobs WHERE state = 1 AND lane = 1 AND due <= 5 LIMIT 9",
    "jobs_coming_due": "SELECT n, lane, due FROM jobs WHERE state = 1 AND due <= 5 ORDER BY due LIMIT 9",
    "failures_by_age": "SELECT type, fingerprint FROM failures WHERE last < 5 LIMIT 9",
    "jobs_archived": ARCHIVED,
    "jobs_paused": PAUSED,
    "jobs_unique": UNIQUE,
    "jobs_repeating": REPEATING,
    "jobs_seq": "SELECT n FROM jobs WHERE type = 1 AND seq IS NOT NULL AND seq > 1 AND seq <= 9 ORDER BY seq",
}


@pytest.mark.parametrize("index", PLANS)
async def test_hot_queries_walk_their_index_and_sort_nothing(store: SqliteStore, index: str) -> None:
    sql = PLANS[index]
    rows = await store._read(lambda conn: conn.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall())
    plan = " / ".join(str(row[3]) for row in rows)
    assert f"USING INDEX {index}" in plan or f"USING COVERING INDEX {index}" in plan
    assert "TEMP B-TREE" not in plan


def test_errors_of_our_own_sql_are_not_dressed_up() -> None:
    with pytest.raises(apsw.SQLError):
        as_store_error(apsw.SQLError("syntax"), Path("x"))


@pytest.mark.parametrize("error", [apsw.ProtocolError("locking protocol"), apsw.NoMemError("out of memory")])
def test_what_others_on_the_machine_cause_passes(error: apsw.Error) -> None:
    """A process that has the file to itself, such as one that repairs it, or memory that is used up."""
    assert type(as_store_error(error, Path("x"))) is StoreUnavailable


async def test_deferred_jobs_are_promoted_in_bounded_steps(store: SqliteStore) -> None:
    jobs = [NewJob(f"j-{n:03d}", f"acme-{n % 3}", b"", T0 + n, T0) for n in range(30)]
    await store.add_jobs(jobs, now_ms=T0)

    async def still_deferred() -> object:
        return await store._read(lambda conn: conn.execute("SELECT sum(deferred) FROM lanes").get)

    assert await still_deferred() == 29
    await store.expire_locks(now_ms=T0 + 100, limit=10)
    assert await still_deferred() == 19
    await check_counters(store, TENANT, T0 + 100)
    for _ in range(3):
        await store.expire_locks(now_ms=T0 + 100, limit=10)
    assert await still_deferred() == 0
    records = await check_counters(store, TENANT, T0 + 100)
    assert {record.state for record in records.values()} == {JobState.WAITING}


async def test_a_deleted_tenant_leaves_no_note_of_a_next_round(store: SqliteStore) -> None:
    """It waits for a child that was replayed."""
    await store.add_jobs([new_job(0)], now_ms=T0)
    parent = await claim_one(store)
    await store.create_job(new_job(1, jobtype="acme-child", parent=parent.id), now_ms=T0)
    await store.release_jobs(OWNER, [archive(parent)], now_ms=T0)
    (child,) = await claim(store, jobtype="acme-child")
    await store.release_jobs(OWNER, [archive(child)], now_ms=T0)
    parent = await claim_one(store)
    await store.replay_jobs(TENANT, [child.id], dt_ms=T0, now_ms=T0)
    await store.release_jobs(OWNER, [Rearm(parent.id, parent.token, T0 + 1000, outcome(Code.FAILED))], now_ms=T0)

    async def notes() -> object:
        return await store._read(lambda conn: conn.execute("SELECT count(*) FROM families").get)

    assert await notes() == 1
    await store.delete_tenant(TENANT)
    assert await notes() == 0


async def test_a_large_result_is_in_memory_once_beside_its_pages(store: SqliteStore) -> None:
    """SQLite's own memory: the pages of the result, and no copy of it."""
    size = 4 << 20
    await store.add_jobs([new_job(1)], now_ms=T0)
    job = await claim_one(store)
    before, _ = apsw.status(apsw.SQLITE_STATUS_MEMORY_USED, True)
    await store.release_jobs(OWNER, [archive(job, result=bytes(size))], now_ms=T0)
    _, most = apsw.status(apsw.SQLITE_STATUS_MEMORY_USED)
    assert size < most - before < 1.5 * size
