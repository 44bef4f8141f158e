"""The writer of the SQLite store: group commit, failures, callers that go away."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from store.base import Archive, Creation, Discard, NewJob, Release
from store.errors import (
    InvalidValue,
    StoreClosed,
    StoreFull,
    StoreUnavailable,
)
from store.sqlite import SqliteStore
from store.sqlite.file import writer
from store.sqlite.file.writer import Tx, Writer
from store.sqlite.queue import discard, straight
from store.sqlite.queue.bulk_straight import insert_archived
from tests.support.jobs import JOBTYPE, OWNER, T0, TENANT, archive, claim, job_id, new_job, new_jobs, outcome
from tests.support.store_audit import check_counters


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "store.db") as opened:
        yield opened


async def test_what_is_committed_is_told_although_another_process_holds_up_the_next(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = apsw.Connection(str(store.path))
    run_group = Writer._run_group

    def run_group_and_lock(self: Writer, *group: Any) -> bool:
        met_stop = run_group(self, *group)
        if not other.in_transaction:
            other.execute("BEGIN IMMEDIATE")
        return met_stop

    monkeypatch.setattr(writer, "MAX_BULK_GROUP_S", -1.0)  # so the two do not share a transaction
    monkeypatch.setattr(Writer, "_run_group", run_group_and_lock)
    first, second = (asyncio.create_task(store.add_jobs(new_jobs(100, 100 * n), now_ms=T0)) for n in range(2))
    assert (await first).added == 100
    assert not second.done()
    monkeypatch.setattr(Writer, "_run_group", run_group)
    other.execute("COMMIT")
    assert (await second).added == 100
    other.close()


async def test_callers_of_short_operations_have_two_turns_before_those_of_bulk_ones(store: SqliteStore) -> None:
    """They share a transaction: the bulk one waits in it until the short one is queued."""
    began, go, order = threading.Event(), threading.Event(), list[str]()

    def hold(_: Tx) -> None:
        began.set()
        assert go.wait(20)

    async def write(name: str, work: Callable[[Tx], None]) -> None:
        await store._write(work, bulk=name == "bulk")
        order.append(name)
        await asyncio.sleep(0)
        order.append(f"{name}, a turn later")

    bulk = asyncio.ensure_future(write("bulk", hold))
    await asyncio.to_thread(began.wait, 20)
    short = asyncio.ensure_future(write("short", lambda _: None))
    await asyncio.sleep(0)
    go.set()
    await asyncio.gather(bulk, short)
    assert order == ["short", "short, a turn later", "bulk", "bulk, a turn later"]


async def test_an_operation_that_fails_takes_no_other_of_its_group_along(store: SqliteStore) -> None:
    """All are queued before the writer can take the second, so they share transactions."""

    def fail(tx: Tx) -> None:
        tx.conn.execute("DELETE FROM jobs")
        tx.catalog.make_type("acme-phantom")
        tx.tally.size(1, 10**6)
        raise InvalidValue("on purpose")

    def add(number: int) -> "asyncio.Task[object]":
        return asyncio.ensure_future(store.add_jobs([new_job(number)], now_ms=T0))

    tasks = [add(n) if n % 3 else asyncio.ensure_future(store._write(fail)) for n in range(60)]
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(result, InvalidValue) for result in ended] == [n % 3 == 0 for n in range(60)]
    jobs = await check_counters(store, TENANT, T0)
    assert set(jobs) == {job_id(n) for n in range(60) if n % 3}
    await store.add_jobs([new_job(99, jobtype="acme-phantom")], now_ms=T0)
    assert [w.jobtype for w in await store.get_waiting_jobtypes(now_ms=T0)] == ["acme-phantom", JOBTYPE]


async def test_a_failed_commit_fails_everyone_and_keeps_nothing(store: SqliteStore) -> None:
    await store.add_jobs([new_job(0)], now_ms=T0)
    refusing = [False]
    await store._write(lambda tx: tx.conn.set_commit_hook(lambda: refusing[0]))
    refusing[0] = True
    adding = [store.add_jobs([new_job(n)], now_ms=T0) for n in range(1, 8)]
    ended = await asyncio.gather(*adding, return_exceptions=True)
    assert all(isinstance(result, Exception) for result in ended)
    refusing[0] = False
    assert set(await check_counters(store, TENANT, T0)) == {job_id(0)}
    await store.add_jobs([new_job(1)], now_ms=T0)
    assert set(await check_counters(store, TENANT, T0)) == {job_id(0), job_id(1)}


async def test_a_full_disk_is_said_and_does_no_harm(store: SqliteStore) -> None:
    await store.add_jobs(new_jobs(3), now_ms=T0)
    pages = await store._write(lambda tx: tx.conn.execute("PRAGMA page_count").get)
    await store._write(lambda tx: tx.conn.execute(f"PRAGMA max_page_count = {pages}").get)
    with pytest.raises(StoreFull):
        await store.add_jobs(new_jobs(5, start=10, data=b"x" * 100_000), now_ms=T0)
    assert set(await check_counters(store, TENANT, T0)) == {job_id(n) for n in range(3)}
    await store._write(lambda tx: tx.conn.execute("PRAGMA max_page_count = 1000000").get)
    await store.add_jobs(new_jobs(5, start=10, data=b"x" * 100_000), now_ms=T0)
    assert len(await check_counters(store, TENANT, T0)) == 8


async def test_a_write_lock_held_elsewhere_is_unavailable_and_passes(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store._write(lambda tx: tx.conn.set_busy_timeout(1))
    other = await asyncio.to_thread(apsw.Connection, str(store.path))
    await asyncio.to_thread(other.execute, "BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        await store.add_jobs([new_job(1)], now_ms=T0)
    await asyncio.to_thread(other.execute, "ROLLBACK")
    await store.add_jobs([new_job(1)], now_ms=T0)
    await asyncio.to_thread(other.close)


async def test_a_cancelled_caller_leaves_the_store_whole(store: SqliteStore) -> None:
    tasks = [asyncio.ensure_future(store.add_jobs([new_job(n)], now_ms=T0)) for n in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    kept = set(await check_counters(store, TENANT, T0))
    for number, result in enumerate(ended):
        assert isinstance(result, asyncio.CancelledError) or job_id(number) in kept


async def test_closing_finishes_what_was_accepted(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    tasks = [asyncio.ensure_future(store.add_jobs([new_job(n)], now_ms=T0)) for n in range(300)]
    await asyncio.sleep(0)
    await store.close()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert not [result for result in ended if isinstance(result, Exception)]
    with pytest.raises(StoreClosed):
        await store.add_jobs([new_job(1)], now_ms=T0)


async def test_buckets_are_not_remembered_from_a_transaction_that_failed(store: SqliteStore) -> None:
    await store.add_jobs(new_jobs(3), now_ms=T0)
    first, second, third = await claim(store)
    await store.release_jobs(OWNER, [archive(first)], now_ms=T0)
    refusing = [False]
    await store._write(lambda tx: tx.conn.set_commit_hook(lambda: refusing[0]))
    refusing[0] = True
    with pytest.raises(apsw.ConstraintError):
        await store.release_jobs(OWNER, [archive(second)], now_ms=T0)
    refusing[0] = False
    await store.release_jobs(OWNER, [archive(third)], now_ms=T0)
    (bucket,) = await store.get_buckets(TENANT, width_ms=60_000, since_ms=0, until_ms=T0 + 60_000)
    assert (bucket.ok, bucket.duration.count) == (2, 2)


@pytest.mark.parametrize("tenants", [1, 2, 5, 9])
async def test_ends_of_several_tenants_in_one_transaction_count_once(store: SqliteStore, tenants: int) -> None:
    """However many totals that makes, and with whatever the statement is filled up."""
    names = [f"acme{number}" for number in range(tenants)]
    jobs = [new_job(number, jobtype=f"{name}-x") for number, name in enumerate(names)]
    releases = [Archive(job.id, 1, outcome(duration_us=1000)) for job in jobs]
    for _ in range(2):  # the second finds all of them there already
        await store.add_ended_jobs(OWNER, jobs, releases, now_ms=T0)
    for name in names:
        await check_counters(store, name, T0)


@pytest.fixture
def inserts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each call of the INSERT of ended jobs had."""
    found: list[int] = []

    def insert(tx: Tx, jobs: Sequence[NewJob], *more: Any) -> list[Archive]:
        found.append(len(jobs))
        return insert_archived(tx, jobs, *more)

    monkeypatch.setattr(discard, "insert_archived", insert)
    monkeypatch.setattr(straight, "insert_archived", insert)
    return found


async def end_at_once(store: SqliteStore, calls: Sequence[tuple[NewJob, Release]]) -> list[Any]:
    """Each is a call of its own, and all of them wait for the writer before it takes the first."""
    go = threading.Event()
    holding = asyncio.ensure_future(store._write(lambda _: go.wait(20), bulk=True))
    ends = [
        asyncio.ensure_future(store.add_ended_jobs(OWNER, [job], [release], now_ms=T0 + number))
        for number, (job, release) in enumerate(calls)
    ]
    await asyncio.sleep(0)
    go.set()
    await holding
    return await asyncio.gather(*ends, return_exceptions=True)


def ending(number: int, tenant: str, **changes: Any) -> tuple[NewJob, Archive]:
    job = new_job(number, jobtype=f"{tenant}-x")
    return job, Archive(job.id, 1, outcome(duration_us=1000, **changes))


async def test_single_jobs_that_end_at_the_same_time_are_inserted_together(
    store: SqliteStore, inserts: list[int]
) -> None:
    known, discarded, failed = ending(0, "acme0"), ending(7, "acme3"), ending(8, "acme2", fingerprint="f", message="m")
    await store.add_ended_jobs(OWNER, [known[0]], [known[1]], now_ms=T0)
    some = [known, *[ending(number, f"acme{number % 3}") for number in range(1, 7)], failed]
    discard_it = (discarded[0], Discard(*discarded[1]))
    reports = await end_at_once(store, [*some, discard_it, ending(9, "acme0"), ending(10, "acme1")])
    assert inserts == [1, len(some), 1, 2], "one that is not kept is for itself, and who is behind it goes on"
    assert [report.stale for report in reports] == [(known[0].id,), *[()] * 10]
    assert [report.applied for report in reports] == [0, *[1] * 10]
    found = [await check_counters(store, f"acme{number}", T0 + 100) for number in range(4)]
    assert [len(jobs) for jobs in found] == [4, 3, 3, 0]
    assert found[1][job_id(4)].done_ms == T0 + 4, "each ended when its own call says"
    (group,) = await store.list_failure_groups("acme2")
    assert (group.runs, group.example_id) == (1, failed[0].id)


async def test_if_they_cannot_be_inserted_together_each_is_for_itself(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def insert(tx: Tx, jobs: Sequence[NewJob], *more: Any) -> list[Archive]:
        known = insert_archived(tx, jobs, *more)
        if any(job.jobtype == "acme2-x" for job in jobs):
            raise InvalidValue("on purpose")
        return known

    monkeypatch.setattr(discard, "insert_archived", insert)
    monkeypatch.setattr(straight, "insert_archived", insert)
    reports = await end_at_once(store, [ending(number, f"acme{number}") for number in range(5)])
    assert [isinstance(report, InvalidValue) for report in reports] == [False, False, True, False, False]
    for number in range(5):
        jobs = await check_counters(store, f"acme{number}", T0 + 100)
        assert len(jobs) == (0 if number == 2 else 1)


async def test_a_job_that_ends_in_two_calls_at_once_ends_once(store: SqliteStore) -> None:
    first, second = await end_at_once(store, [ending(1, "acme"), ending(1, "acme")])
    assert (first.stale, second.stale) == ((), (job_id(1),))
    assert len(await check_counters(store, "acme", T0 + 100)) == 1


async def test_a_short_operation_does_not_wait_for_a_bulk_one_behind_it(store: SqliteStore, tmp_path: Path) -> None:
    """They do not share a transaction: the short one is committed before the bulk one begins."""
    is_held, is_let_go = threading.Event(), threading.Event()
    seen: list[Any] = []

    def hold(_tx: Tx) -> None:
        is_held.set()
        is_let_go.wait(20)

    def short(tx: Tx) -> None:
        tx.conn.execute("CREATE TABLE short (x)")

    def bulk(_tx: Tx) -> None:
        with contextlib.closing(apsw.Connection(str(tmp_path / "store.db"), flags=apsw.SQLITE_OPEN_READONLY)) as other:
            seen.append(other.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'short'").get)

    holding = asyncio.ensure_future(store._write(hold))
    await asyncio.to_thread(is_held.wait, 20)
    rest = [asyncio.ensure_future(store._write(bulk, bulk=True)), asyncio.ensure_future(store._write(short))]
    await asyncio.sleep(0)  # both stand in line
    is_let_go.set()
    await asyncio.gather(holding, *rest)
    assert seen == [1]


@pytest.mark.parametrize("count", [20, 21])
async def test_a_claim_does_not_wait_for_many_jobs_that_are_created_together(store: SqliteStore, count: int) -> None:
    is_held, is_let_go, order = threading.Event(), threading.Event(), list[str]()

    def hold(_tx: Tx) -> None:
        is_held.set()
        is_let_go.wait(20)

    async def create() -> None:
        await store.create_jobs([Creation(job) for job in new_jobs(count)], now_ms=T0)
        order.append("create")

    async def claim_one() -> None:
        await claim(store, 1)
        order.append("claim")

    holding = asyncio.ensure_future(store._write(hold))
    await asyncio.to_thread(is_held.wait, 20)
    rest = [asyncio.ensure_future(create()), asyncio.ensure_future(claim_one())]
    await asyncio.sleep(0)  # both stand in line
    is_let_go.set()
    await asyncio.gather(holding, *rest)
    assert order == (["create", "claim"] if count == 20 else ["claim", "create"])
