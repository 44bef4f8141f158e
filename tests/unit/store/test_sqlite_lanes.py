"""What readers of SQLite pay for a tenant with very many lanes, of which each has a rate domain of its own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from store.base import RateDomain
from store.sqlite import SqliteStore
from store.sqlite.queue.listing import get_position
from store.sqlite.records import scoreboard
from store.sqlite.records.scoreboard import get_usage, get_waiting_jobtypes
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, job_id, new_job, new_jobs

NOW = T0 + 10_000


async def cost(folder: Path, lanes: int, read: Callable[[apsw.Connection], Any]) -> tuple[int, Any]:
    """Instructions of a read, beside so many lanes, and what it returned."""
    counted = 0

    def tick() -> bool:
        nonlocal counted
        counted += 1
        return False

    def watched(conn: apsw.Connection) -> Any:
        conn.set_progress_handler(tick, 1)
        try:
            return read(conn)
        finally:
            conn.set_progress_handler(None)

    async with SqliteStore(folder / f"{lanes}.db") as store:
        if not (await store.get_usage(TENANT)).jobs:
            await store.add_jobs([new_job(n, domain=f"d{n}", dt_ms=T0 + n) for n in range(lanes)], now_ms=NOW)
            await store.add_jobs(new_jobs(5, lanes, dt_ms=T0 + 5), now_ms=NOW)
        result = await store._read(watched)
    return counted, result


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoreboard, "MOST_LANES", 20)


async def test_what_waits_is_known_without_a_look_at_each(tmp_path: Path) -> None:
    def read(conn: apsw.Connection) -> Any:
        return get_waiting_jobtypes(conn, NOW, runnable=False)

    (few, _), (many, (waiting,)) = await cost(tmp_path, 60, read), await cost(tmp_path, 960, read)
    assert (waiting.waiting, waiting.oldest_due_ms, waiting.priority) == (965, T0, 500)
    assert 0 < many <= few * 1.2


async def test_so_is_what_a_tenant_has_stored(tmp_path: Path) -> None:
    def read(conn: apsw.Connection) -> Any:
        return get_usage(conn, TENANT).jobs

    (few, _), (many, jobs) = await cost(tmp_path, 60, read), await cost(tmp_path, 960, read)
    assert jobs == 965
    assert 0 < many <= few * 1.2


async def test_a_position_costs_a_glance_at_each(tmp_path: Path) -> None:
    """And no search in those whose jobs all come later."""

    def read(conn: apsw.Connection) -> Any:
        return get_position(conn, TENANT, job_id(3), NOW, 10_000)

    (few, _), (many, ahead) = await cost(tmp_path, 60, read), await cost(tmp_path, 960, read)
    assert ahead == 3
    assert 0 < (many - few) / 900 < 25


async def test_the_sums_of_an_older_file_are_made_up_for(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with SqliteStore(path) as store:
        await store.add_jobs([new_job(n, domain=f"d{n % 3}", dt_ms=T0 + n % 2) for n in range(10)], now_ms=T0)
        await store.add_jobs(new_jobs(2, 20, jobtype="other-x"), now_ms=T0)
        jobs = await claim(store, 4)
        await store.release_jobs(OWNER, [archive(jobs[0])], now_ms=T0)
        before = await store.get_counters(None, now_ms=T0), await store.get_usage(TENANT)
    conn = apsw.Connection(str(path))
    conn.execute("DROP TRIGGER lane_counted; DROP INDEX lanes_queued; PRAGMA user_version = 20")
    for column in ("waiting", "deferred", "running", "stored"):
        conn.execute(f"ALTER TABLE types DROP COLUMN {column}")
    conn.close()
    async with SqliteStore(path) as store:
        assert (await store.get_counters(None, now_ms=T0), await store.get_usage(TENANT)) == before
        await store.release_jobs(OWNER, [archive(job) for job in jobs[1:]], now_ms=T0)
        (counters,) = await store.get_counters(TENANT, now_ms=T0)
        assert (counters.waiting, counters.deferred, counters.running, counters.ok) == (1, 5, 0, 4)


async def test_a_position_counts_jobs_of_lanes_that_wait_for_a_token(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "store.db") as store:
        await store.set_rate_domain(RateDomain(TENANT, "slow*", 0.001, 1), now_ms=T0)
        for priority in (500, 1000):
            start = 10 * priority
            await store.add_jobs(
                [new_job(start + n, domain=f"slow{n % 3}", dt_ms=T0 + n, priority=priority) for n in range(9)],
                now_ms=T0,
            )
            await store.add_jobs(
                [new_job(start + 20 + n, domain=f"free{n}", dt_ms=T0 + n, priority=priority) for n in range(9)],
                now_ms=T0,
            )
        taken = {job.id for job in await claim(store, 5, now_ms=NOW)}
        left = [
            (-priority, T0 + n, job_id(10 * priority + more + n))
            for priority in (500, 1000)
            for more in (0, 20)
            for n in range(9)
        ]
        left = sorted(place for place in left if place[2] not in taken)
        found = [await store.get_position(TENANT, name, now_ms=NOW) for _, _, name in left]
        assert found == list(range(len(left)))
        assert await store.get_position(TENANT, left[-1][2], now_ms=NOW, cap=7) == 7
