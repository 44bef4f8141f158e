"""What upkeep and endings cost SQLite's one writer: not more with how much tenants have in the file."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from store.base import RateDomain, Tenant
from store.sqlite import SqliteStore
from store.sqlite.file.writer import Tx
from store.sqlite.queue import job_changes, row_changes
from store.sqlite.queue.expire import Before, Old, find_old
from store.sqlite.records import scoreboard
from store.sqlite.records.scoreboard import get_counters
from store.values.scoreboard import FAILURES_KEPT_MS, MAX_FAILURE_GROUPS, OTHER_FAILURES, TypeCounters
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, job_id, new_job, new_jobs
from vocabulary.states import Code

FAR_MS = T0 + 10**9
LEFT = (
    "SELECT (SELECT count(*) FROM jobs) + (SELECT count(*) FROM types) + (SELECT count(*) FROM lanes)"
    " + (SELECT count(*) FROM failures) + (SELECT count(*) FROM once) + (SELECT count(*) FROM rates)"
)
Work = Callable[[SqliteStore], Awaitable[object]]


async def steps_of(store: SqliteStore, work: Work) -> int:
    """Tens of instructions of the writer."""
    counted = 0

    def tick() -> bool:
        nonlocal counted
        counted += 1
        return False

    def watch(conn: apsw.Connection) -> None:
        conn.set_progress_handler(tick, 10)

    await store._write(lambda tx: watch(tx.conn))
    before = counted
    await work(store)
    return counted - before


async def promote(folder: Path, lanes: int) -> int:
    async with SqliteStore(folder / f"{lanes}.db") as store:
        await store.add_jobs([new_job(n, domain=f"d{n}", dt_ms=FAR_MS) for n in range(lanes)], now_ms=T0)
        await store.add_jobs(new_jobs(5, lanes, dt_ms=T0 + 10), now_ms=T0)
        return await steps_of(store, lambda store: store.expire_locks(now_ms=T0 + 20))


async def test_upkeep_of_deferred_jobs_does_not_look_at_each_lane(tmp_path: Path) -> None:
    few, many = await promote(tmp_path, 30), await promote(tmp_path, 900)
    assert 0 < many <= few * 1.2


async def search(folder: Path, lanes: int) -> int:
    """What a look costs for jobs that are old, while it is too early to look for those that wait."""
    counted = 0

    def tick() -> bool:
        nonlocal counted
        counted += 1
        return False

    def read(conn: apsw.Connection) -> Old:
        conn.set_progress_handler(tick, 10)
        return find_old(conn, None, None, Before(T0 + 1, T0 + 1, 0), 10)

    async with SqliteStore(folder / f"{lanes}.db") as store:
        await store.add_jobs([new_job(n, domain=f"d{n}") for n in range(lanes)], now_ms=T0)
        for job in await claim(store, 1):
            await store.release_jobs(OWNER, [archive(job)], now_ms=T0)
        found = await store._read(read)
    assert (len(found.archived), found.waiting) == (1, [])
    return counted


async def test_a_purge_looks_at_lanes_only_when_jobs_that_wait_may_be_old(tmp_path: Path) -> None:
    few, many = await search(tmp_path, 30), await search(tmp_path, 900)
    assert 0 < many <= few * 1.2


async def count_all(folder: Path, lanes: int) -> int:
    """What the counters of another type cost, each with its own, beside so many lanes of jobs that are due later."""
    counted = 0

    def tick() -> bool:
        nonlocal counted
        counted += 1
        return False

    def read(conn: apsw.Connection) -> list[TypeCounters]:
        conn.set_progress_handler(tick, 1)
        return get_counters(conn, TENANT, T0 + 20)

    async with SqliteStore(folder / f"{lanes}.db") as store:
        await store.add_jobs([new_job(n, domain=f"d{n}", dt_ms=FAR_MS) for n in range(lanes)], now_ms=T0)
        await store.add_jobs(new_jobs(5, lanes, dt_ms=T0 + 10), now_ms=T0)
        (counters,) = await store._read(read)
    assert (counters.waiting, counters.deferred) == (5, lanes)
    return counted


async def test_counters_do_not_look_at_each_lane(tmp_path: Path) -> None:
    few, many = await count_all(tmp_path, 30), await count_all(tmp_path, 930)
    assert 0 < many <= few * 1.2


async def test_counters_are_right_where_very_many_jobs_have_just_come_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scoreboard, "DUE_CAP", 3)
    async with SqliteStore(tmp_path / "store.db") as store:
        await store.add_jobs(new_jobs(9, jobtype="other-x", dt_ms=T0 + 1), now_ms=T0)
        await store.add_jobs(new_jobs(2, 100, dt_ms=T0 + 2), now_ms=T0)
        (counters,) = await store.get_counters(TENANT, now_ms=T0 + 5)
    assert (counters.waiting, counters.deferred) == (2, 0)


async def fail(store: SqliteStore, start: int, count: int, now_ms: int = T0) -> None:
    """So many jobs, each with an error of its own."""
    await store.add_jobs(new_jobs(count, start), now_ms=now_ms)
    ends = [archive(job, Code.FAILED, fingerprint=f"f-{job.id}") for job in await claim(store, count, now_ms=now_ms)]
    await store.release_jobs(OWNER, ends, now_ms=now_ms)


async def expire(folder: Path, failures: int) -> int:
    async with SqliteStore(folder / f"{failures}.db") as store:
        await fail(store, 0, failures)
        return await steps_of(store, lambda store: store.expire_records(now_ms=T0 + 1, audit_before_ms=0))


async def test_errors_that_stay_cost_upkeep_nothing(tmp_path: Path) -> None:
    few, many = await expire(tmp_path, 30), await expire(tmp_path, 900)
    assert 0 < many <= few * 1.2


async def test_old_errors_go(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "store.db") as store:
        await fail(store, 0, 3)
        await fail(store, 3, 2, T0 + 10)
        await store.expire_records(now_ms=T0 + 10 + FAILURES_KEPT_MS, audit_before_ms=0)
        assert len(await store.list_failure_groups(TENANT)) == 2


async def test_a_type_with_as_many_errors_as_are_kept_costs_its_endings_little(tmp_path: Path) -> None:
    """Each end with an error that is not known counted all that are known."""
    async with SqliteStore(tmp_path / "store.db") as store:
        first = await steps_of(store, lambda store: fail(store, 0, 100))
        await fail(store, 1000, MAX_FAILURE_GROUPS)
        full = await steps_of(store, lambda store: fail(store, 3000, 100))
        assert first > 0
        assert full <= first * 3
        groups = {group.fingerprint: group.runs for group in await store.list_failure_groups(TENANT, limit=1000)}
    assert len(groups) == MAX_FAILURE_GROUPS
    assert groups[OTHER_FAILURES] == 100 + MAX_FAILURE_GROUPS + 100 - (MAX_FAILURE_GROUPS - 1)


async def remove(folder: Path, types: int) -> int:
    """A tenant of so many types, beside many jobs of another that run."""
    async with SqliteStore(folder / f"{types}.db") as store:
        await store.create_tenant(Tenant(TENANT, T0))
        await store.add_jobs([new_job(n, jobtype="other-x") for n in range(500)], now_ms=T0)
        assert len(await claim(store, 500, jobtype="other-x")) == 500
        for number in range(types):
            await store.add_jobs([new_job(10_000 + number, jobtype=f"{TENANT}-{number}")], now_ms=T0)
        return await steps_of(store, lambda store: store.delete_tenant(TENANT, limit=500))


async def test_the_end_of_a_tenant_looks_once_at_what_others_run(tmp_path: Path) -> None:
    """And not for each of its types."""
    few, many = await remove(tmp_path, 1), await remove(tmp_path, 15)
    assert 0 < many <= few * 3


def count(conn: apsw.Connection) -> int:
    return int(conn.execute(LEFT).get)


async def test_all_that_a_tenant_has_goes_in_steps(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "store.db") as store:
        await store.create_tenant(Tenant(TENANT, T0))
        await fail(store, 0, 30)
        for number in range(30):
            await store.put_once(TENANT, f"k{number}", b"v", expires_ms=FAR_MS, now_ms=T0)
            await store.set_rate_domain(RateDomain(TENANT, f"d{number}", 1.0, 1), now_ms=T0)
            await store.add_jobs([new_job(100 + number, jobtype=f"{TENANT}-{number}")], now_ms=T0)
        left, more = [await store._read(count)], True
        while more:
            more = (await store.delete_tenant(TENANT, limit=10)).more
            left.append(await store._read(count))
        assert max(before - after for before, after in pairwise(left)) <= 20, "the queue of a job goes with the last"
        assert left[-1] == 0
        assert await store.get_tenant(TENANT) is None


@pytest.fixture
async def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[SqliteStore]:
    """With six results of which two are more than one transaction removes."""
    monkeypatch.setattr(row_changes, "MOST_REMOVED_BYTES", 5000)
    async with SqliteStore(tmp_path / "store.db") as store:
        await store.create_tenant(Tenant(TENANT, T0))
        await store.add_jobs(new_jobs(6), now_ms=T0)
        ends = [archive(job, result=b"x" * 3000) for job in await claim(store, 6)]
        await store.release_jobs(OWNER, ends, now_ms=T0)
        yield store


async def test_a_purge_removes_no_more_bytes_at_once_than_others_can_wait_for(large: SqliteStore) -> None:
    reports = [await large.expire_jobs(now_ms=FAR_MS, done_before_ms=FAR_MS, waiting_before_ms=0) for _ in range(7)]
    assert [(report.purged, report.more) for report in reports] == [(1, True)] * 5 + [(1, False), (0, False)]
    assert tuple(await large.get_usage(TENANT)) == (0, 0, 0)


async def test_so_does_the_end_of_a_tenant(large: SqliteStore) -> None:
    steps = [await large.delete_tenant(TENANT)]
    while steps[-1].more:
        steps.append(await large.delete_tenant(TENANT))
    assert len(steps) >= 6
    assert await large.get_tenant(TENANT) is None


async def test_a_delete_of_many_goes_in_several_transactions(
    large: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once: list[int] = []
    real = job_changes.delete_jobs

    def delete_jobs(tx: Tx, tenant: str, job_ids: Sequence[str], now_ms: int) -> tuple[int, Sequence[str]]:
        removed, left = real(tx, tenant, job_ids, now_ms)
        at_once.append(removed)
        return removed, left

    monkeypatch.setattr(job_changes, "delete_jobs", delete_jobs)
    assert await large.delete_jobs(TENANT, [job_id(n) for n in range(8)], now_ms=T0) == 6
    assert at_once == [1] * 6


async def test_so_does_a_replay_of_many(large: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their results go with it."""
    at_once: list[int] = []
    real = job_changes.replay_jobs

    def replay_jobs(tx: Tx, *values: Any) -> tuple[list[str], Sequence[str]]:
        replayed, left = real(tx, *values)
        at_once.append(len(replayed))
        return replayed, left

    monkeypatch.setattr(job_changes, "replay_jobs", replay_jobs)
    ids = [job_id(n) for n in range(8)]
    assert await large.replay_jobs(TENANT, [*ids, *ids], dt_ms=T0, now_ms=T0) == tuple(ids[:6])
    assert at_once == [1] * 6
    (counters,) = await large.get_counters(TENANT, now_ms=T0)
    assert counters.waiting == 6


async def test_a_replay_of_many_small_jobs_lets_others_have_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with SqliteStore(tmp_path / "store.db") as store:
        await store.add_jobs(new_jobs(900), now_ms=T0)
        await store.release_jobs(OWNER, [archive(job) for job in await claim(store, 900)], now_ms=T0)
        changed: list[int] = []
        real = store._write

        async def write(work: Callable[[Tx], Any], *, bulk: bool = False) -> Any:
            def counted(tx: Tx) -> Any:
                before = tx.conn.total_changes()
                result = work(tx)
                changed.append(tx.conn.total_changes() - before)
                return result

            return await real(counted, bulk=bulk)

        monkeypatch.setattr(store, "_write", write)
        replayed = await store.replay_jobs(TENANT, [job_id(n) for n in range(900)], dt_ms=T0, now_ms=T0)
        assert len(replayed) == 900
        assert max(changed) <= sum(changed) / 8
