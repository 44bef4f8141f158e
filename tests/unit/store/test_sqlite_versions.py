"""Files of other versions: older ones are migrated after a copy was kept, newer ones refused, and there is a way back.

`tests/data/store-schema-1.db.gz` was written by the program whose newest schema was 1, with `store_content.fill`. What
is tested of later schemas does not depend on how many there are.
"""

import asyncio
import errno
import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.base import JobState, Store
from store.errors import SchemaTooNew, StoreError, StoreFull, StoreUnavailable
from store.sqlite import SqliteStore
from store.sqlite.file import maintenance, schema
from store.values.transfer import Part
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, new_jobs
from tests.support.needs import missing
from tests.support.small_disk import SmallDisk
from tests.support.store_audit import check_states
from tests.support.store_content import BIG, read_content

FIRST = Path(__file__).parents[2] / "data" / "store-schema-1.db.gz"
RECORDS = {
    Part.TENANTS: 2,
    Part.KEYS: 2,
    Part.HANDLERS: 5,
    Part.JOBS: 43,
    Part.BUCKETS: 21,
    Part.FAILURES: 3,
    Part.AUDIT: 7,
    Part.POSITIONS: 2,
}
LATER = "CREATE TABLE later (x INTEGER) STRICT"


@pytest.fixture
async def first(tmp_path: Path) -> Path:
    """A file of the first version."""
    path = tmp_path / "store.db"
    await asyncio.to_thread(lambda: path.write_bytes(gzip.decompress(FIRST.read_bytes())))
    return path


@pytest.fixture
async def current(tmp_path: Path) -> Path:
    """A file of this version."""
    async with SqliteStore(tmp_path / "store.db") as store:
        await store.add_jobs(new_jobs(5), now_ms=T0)
    return tmp_path / "store.db"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk", 16 << 20)
    if trouble := disk.mount():
        missing("the right to mount a tmpfs", f"run the tests as root ({trouble})")
    yield disk
    disk.unmount()


@pytest.fixture
def known() -> int:
    return len(schema.MIGRATIONS)


@pytest.fixture
def upgraded(known: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """The program knows one schema more."""
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, LATER))
    return known + 1


async def files_in(folder: Path) -> list[str]:
    return await asyncio.to_thread(lambda: sorted(path.name for path in folder.iterdir()))


async def schema_of(store: Store) -> int:
    return (await store.get_version()).schema


async def test_a_file_of_the_first_version_has_all_its_content(first: Path, known: int) -> None:
    assert await schema_of(SqliteStore(first)) == 1
    async with SqliteStore(first) as store:
        assert await schema_of(store) == known
        content = await read_content(store)
        assert {part: len(content[part]) for part in RECORDS} == RECORDS
        jobs = await check_states(store, TENANT, T0)
        assert {record.state for record in jobs.values()} == set(JobState) - {JobState.LAPSED}
        whole = [await store.get_job(TENANT, job_id, now_ms=T0) for job_id in jobs]
        assert max(len(job.outcome.result or b"") for job in whole if job is not None and job.outcome) == BIG
        handler = await store.get_handler(TENANT, "acme-thumb")
        assert handler is not None
        assert (handler.version, handler.data) == (4, b"one")
        (job, *_) = await claim(store, jobtype="acme-child", now_ms=T0 + 10)
        await store.release_jobs(OWNER, [archive(job, result=b"x" * 9000)], now_ms=T0 + 10)
        await store.verify()
    assert (await files_in(first.parent) == ["store.db"]) == (known == 1)


async def test_a_copy_is_kept_before_a_migration(current: Path, upgraded: int) -> None:
    async with SqliteStore(current) as store:
        assert await schema_of(store) == upgraded
        await store.add_jobs(new_jobs(3, 50), now_ms=T0)
    kept = f"store.db.schema-{upgraded - 1}"
    assert await files_in(current.parent) == ["store.db", kept]
    copy = SqliteStore(current.with_name(kept))
    assert (await schema_of(copy), (await copy.verify())["jobs"]) == (upgraded - 1, 5)
    async with SqliteStore(current):
        pass
    assert await files_in(current.parent) == ["store.db", kept], "nothing to migrate, nothing to copy"


async def test_the_way_back_is_the_copy(current: Path, known: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, LATER))
        async with SqliteStore(current):
            pass
    kept = f"store.db.schema-{known}"
    with pytest.raises(SchemaTooNew, match=f"schema {known + 1} .* knows {known}: .*{kept}"):
        await SqliteStore(current).open()
    assert (await SqliteStore(current).get_version())[:2] == (known + 1, known)
    await asyncio.to_thread(current.with_name(kept).rename, current)
    async with SqliteStore(current) as store:
        assert len(await check_states(store, TENANT, T0)) == 5


async def test_no_copy_is_replaced(current: Path, upgraded: int) -> None:
    kept = current.with_name(f"store.db.schema-{upgraded - 1}")
    await asyncio.to_thread(kept.write_bytes, b"of an earlier attempt")
    await asyncio.to_thread(kept.with_name(f"{kept.name}.2.part").write_bytes, b"interrupted")
    async with SqliteStore(current):
        pass
    assert await files_in(current.parent) == ["store.db", kept.name, f"{kept.name}.2"]
    assert await asyncio.to_thread(kept.read_bytes) == b"of an earlier attempt"
    assert (await SqliteStore(kept.with_name(f"{kept.name}.2")).verify())["jobs"] == 5


async def test_a_migration_that_fails_leaves_the_file_as_it_was(
    current: Path, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts = (*schema.MIGRATIONS, LATER, "CREATE TABLE jobs (there already)")
    with monkeypatch.context() as broken:
        broken.setattr(schema, "MIGRATIONS", scripts)
        with pytest.raises(Exception, match="already exists"):
            await SqliteStore(current).open()
    async with SqliteStore(current) as store:
        assert await schema_of(store) == known
        assert len(await check_states(store, TENANT, T0)) == 5


async def test_without_room_for_the_copy_nothing_is_migrated(
    current: Path, upgraded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(path: Path, target: Path) -> None:
        raise StoreFull(f"{target}: the disk is full")

    monkeypatch.setattr(maintenance, "copy_file", no_room)
    with pytest.raises(StoreFull, match="free some space"):
        await SqliteStore(current).open()
    assert await schema_of(SqliteStore(current)) == upgraded - 1


async def test_a_disk_that_fills_during_a_migration_leaves_room_for_the_next(
    small_disk: SmallDisk, known: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite rolls back by itself then; and the copy of the attempt would take the room that somebody frees."""
    folder = small_disk.path / "data"
    await asyncio.to_thread(folder.mkdir)
    async with SqliteStore(folder / "store.db"):
        pass

    def leave_room_for_the_copy() -> None:
        small_disk.fill()
        with (small_disk.path / "ballast").open("r+b") as ballast:
            ballast.truncate(
                (small_disk.path / "ballast").stat().st_size - (folder / "store.db").stat().st_size - 2**19
            )

    await asyncio.to_thread(leave_room_for_the_copy)
    big = "CREATE TABLE later (x BLOB); INSERT INTO later VALUES (zeroblob(3000000))"
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, big))
    for _ in range(2):
        with pytest.raises(StoreFull, match="the disk is full"):
            await SqliteStore(folder / "store.db").open()
        assert await files_in(folder) == ["store.db"]
    assert await schema_of(SqliteStore(folder / "store.db")) == known
    await asyncio.to_thread(small_disk.free)
    async with SqliteStore(folder / "store.db"):
        assert await asyncio.to_thread((folder / f"store.db.schema-{known}").exists)


@pytest.mark.parametrize(("number", "error"), [(errno.ENOSPC, StoreFull), (errno.EIO, StoreUnavailable)])
async def test_a_copy_that_cannot_be_synced_is_no_copy(
    current: Path, upgraded: int, monkeypatch: pytest.MonkeyPatch, number: int, error: type[StoreError]
) -> None:
    def fail(_: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(maintenance, "_sync", fail)
    with pytest.raises(error, match="must be migrated"):
        await SqliteStore(current).open()
    assert await files_in(current.parent) == ["store.db"]


async def test_of_many_that_start_at_once_one_migrates(current: Path, upgraded: int) -> None:
    stores = [SqliteStore(current) for _ in range(5)]
    await asyncio.gather(*(store.open() for store in stores))
    assert {await schema_of(store) for store in stores} == {upgraded}
    await asyncio.gather(*(store.close() for store in stores))
    assert await files_in(current.parent) == ["store.db", f"store.db.schema-{upgraded - 1}"]


async def test_what_is_too_new_can_still_be_copied_and_verified(
    current: Path, known: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", ())
    store = SqliteStore(current)
    with pytest.raises(StoreError):
        await store.open()
    await store.copy_to(tmp_path / "copy.db")
    copy = store.at(tmp_path / "copy.db")
    assert (await schema_of(copy), (await copy.verify())["jobs"]) == (known, 5)
