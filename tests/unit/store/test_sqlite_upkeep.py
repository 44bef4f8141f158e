"""What upkeep and endings cost SQLite's one writer: not more with how much tenants have in the file."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw

from store.sqlite import SqliteStore
from store.values.scoreboard import FAILURES_KEPT_MS, MAX_FAILURE_GROUPS, OTHER_FAILURES
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, new_job, new_jobs
from vocabulary.states import Code

FAR_MS = T0 + 10**9
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
