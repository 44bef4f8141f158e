"""The store as a whole: its version, copies of it, a look at its soundness, a copy's parting from the original."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from store.base import Store
from store.errors import InvalidValue, NotFound, StoreCorrupt, StoreError, UnsupportedStore
from store.names import MAX_SYSIDS_SKIPPED
from store.url import open_store
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, new_jobs
from tests.support.store_audit import check_counters


async def test_the_version_is_told_without_opening_and_changes_nothing(store_url: str) -> None:
    unopened = open_store(store_url)
    before = await unopened.get_version()
    assert (before.schema, before.known > 0) == (0, True)
    with pytest.raises(NotFound):
        await unopened.verify()
    async with open_store(store_url) as store:
        version = await store.get_version()
    assert version.schema == version.known == before.known
    assert version.engine
    assert await unopened.get_version() == version


async def test_verify_counts_records_by_kind(store: Store) -> None:
    before = await store.verify()
    await store.add_jobs(new_jobs(7), now_ms=T0)
    after = await store.verify()
    assert after["jobs"] - before["jobs"] == 7
    assert set(await store.verify(quick=True)) == set(after)


async def test_a_row_that_its_index_does_not_have_is_damage(store: Store) -> None:
    """Every page can be read, and still they contradict each other: only the check of the whole finds it."""
    if store.file is None:
        pytest.skip("the server looks after its files")
    await store.add_jobs(new_jobs(20), now_ms=T0)

    def damage(path: Path) -> None:
        """The index of what waits gets the tree of another one, which is empty, and that one gets its."""
        with closing(sqlite3.connect(path)) as conn:
            names = ("jobs_children", "jobs_queued")
            sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
            roots = [conn.execute(sql, (name,)).fetchone()[0] for name in names]
            conn.execute("PRAGMA writable_schema = ON")
            conn.executemany(
                "UPDATE sqlite_schema SET rootpage = ? WHERE name = ?", zip(reversed(roots), names, strict=True)
            )
            conn.commit()

    await asyncio.to_thread(damage, store.file)
    with pytest.raises(StoreCorrupt, match="is damaged"):
        await store.verify()


async def test_a_copy_is_of_one_moment_while_others_write(store: Store, tmp_path: Path) -> None:
    if store.file is None:
        with pytest.raises(UnsupportedStore, match="mongodump"):
            await store.copy_to(tmp_path / "copy.db")
        with pytest.raises(UnsupportedStore):
            store.at(tmp_path / "copy.db")
        return
    await store.add_jobs(new_jobs(300, data=b"x" * 3000), now_ms=T0)
    is_over = asyncio.Event()
    ended: list[str] = []

    async def work() -> None:
        number = 1000
        while not is_over.is_set():
            jobs = await claim(store, 5)
            await store.release_jobs(OWNER, [archive(job, result=b"r" * 5000) for job in jobs], now_ms=T0)
            ended.extend(job.id for job in jobs)
            await store.add_jobs(new_jobs(5, number), now_ms=T0)
            number += 5

    working = asyncio.create_task(work())
    for number in range(5):
        before = len(ended)
        await store.copy_to(tmp_path / f"copy{number}.db")
        copy = store.at(tmp_path / f"copy{number}.db")
        assert (await copy.verify())["jobs"] >= 300
        async with copy:
            jobs = await check_counters_with_results(copy)
        assert set(ended[:before]) <= jobs
    is_over.set()
    await working
    with pytest.raises(FileExistsError):
        await store.copy_to(tmp_path / "copy0.db")


async def check_counters_with_results(store: Store) -> set[str]:
    """The ids of the jobs that have ended."""
    jobs = await check_counters(store, TENANT, T0)
    return {job_id for job_id, record in jobs.items() if record.result_bytes}


async def test_a_copy_gives_other_sysids_than_the_original(store: Store) -> None:
    old = [await store.reserve_sysid(info="", lease_ms=100, now_ms=T0) for _ in range(3)]
    assert await store.forget_daemons(skip=1000) == 3
    assert await store.list_daemons(now_ms=T0) == []
    with pytest.raises(NotFound):
        await store.renew_sysid(old[0].sysid, info="", lease_ms=100, now_ms=T0)
    new = await store.reserve_sysid(info="", lease_ms=100, now_ms=T0)
    assert int(new.sysid, 36) == int(old[-1].sysid, 36) + 1001
    assert await store.forget_daemons(skip=0) == 1
    for skip in (-1, MAX_SYSIDS_SKIPPED + 1):
        with pytest.raises(InvalidValue):
            await store.forget_daemons(skip=skip)


async def test_sysids_can_be_skipped_before_the_first(store: Store) -> None:
    assert await store.forget_daemons(skip=35) == 0
    first = await store.reserve_sysid(info="", lease_ms=100, now_ms=T0)
    assert first.sysid == "10"


async def test_a_closed_store_cannot_forget(store_url: str) -> None:
    with pytest.raises(StoreError):
        await open_store(store_url).forget_daemons(skip=1)
