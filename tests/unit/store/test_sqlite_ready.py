"""Lanes of rate domains on SQLite: the file of an older version, the index of a claim, what is left of idle domains."""

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

from store.base import JobChange, RateDomain
from store.sqlite import SqliteStore
from store.sqlite.file import schema
from store.sqlite.queue.domain_claim import READY
from store.sqlite.records import scoreboard
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, ids, job_id, new_job, retry

BEFORE = 10
OLDER = f"""
INSERT INTO types (tenant, jobtype) VALUES ('{TENANT}', '{TENANT}-a');
INSERT INTO lanes (type, domain, priority, waiting, stored) VALUES (1, 'dx', 500, 2, 2), (1, '', 500, 1, 1);
INSERT INTO jobs (id, type, lane, state, due, created, data_bytes, data) VALUES
    ('{job_id(1)}', 1, 1, 0, {T0}, {T0}, 1, x'00'), ('{job_id(2)}', 1, 1, 0, {T0}, {T0}, 1, x'00'),
    ('{job_id(3)}', 1, 2, 0, {T0}, {T0}, 1, x'00');
INSERT INTO rates VALUES ('{TENANT}', 'd*', 0.001, 1, 1.0, {T0}), ('{TENANT}', 'e', 0.001, 1, 1.0, {T0});
"""  # noqa: S608 - all of it is written here


def write_older(path: Path) -> None:
    """A file as the version before left it."""
    conn = apsw.Connection(str(path))
    for script in schema.MIGRATIONS[:BEFORE]:
        conn.execute(script)
    conn.execute(OLDER)
    conn.execute(f"PRAGMA user_version = {BEFORE}")
    conn.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    conn.close()


async def test_jobs_and_limits_of_an_older_file_go_on(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    await asyncio.to_thread(write_older, path)
    async with SqliteStore(path) as store:
        assert ids(await claim(store, jobtype=f"{TENANT}-a")) == [job_id(1), job_id(3)]
        names = {
            state.domain.domain: state.domain.is_pattern for state in await store.list_rate_domains(TENANT, now_ms=T0)
        }
        assert names == {"d*": True, "e": False}
        await store.delete_rate_domain(TENANT, "d*", now_ms=T0)
        assert ids(await claim(store, jobtype=f"{TENANT}-a")) == [job_id(2)]


async def test_a_claim_reads_lanes_from_their_index(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "store.db") as store:
        plan = await store._read(lambda conn: conn.execute(f"EXPLAIN QUERY PLAN {READY}", (1, 1, 1, 1)).fetchall())
    steps = [str(row[3]) for row in plan]
    assert len(steps) == 1, steps
    assert "lanes_ready (type=? AND priority=? AND ready<?)" in steps[0]


@pytest.mark.parametrize("name", ["d*", "d1"])
async def test_idle_domains_leave_nothing_to_look_at(tmp_path: Path, name: str) -> None:
    async with SqliteStore(tmp_path / "store.db") as store:
        await store.set_rate_domain(RateDomain(TENANT, name, 1.0, 1), now_ms=T0)
        await store.add_jobs([new_job(n, domain=f"d{n}") for n in range(20)], now_ms=T0)
        jobs = await claim(store, 100)
        assert len(jobs) == 20
        await store.release_jobs(OWNER, [archive(job) for job in jobs], now_ms=T0)
        await store.expire_locks(now_ms=T0 + 1000)
        assert await claim(store, now_ms=T0 + 1000) == []
        left = "SELECT (SELECT count(*) FROM rate_buckets), (SELECT count(*) FROM lanes WHERE ready IS NOT NULL)"
        assert await store._read(lambda conn: conn.execute(left).get) == (0, 0)


async def ready(store: SqliteStore) -> list[tuple[Any, ...]]:
    found = "SELECT domain, ready FROM lanes WHERE ready IS NOT NULL ORDER BY domain"
    return await store._read(lambda conn: conn.execute(found).fetchall())


async def test_a_domain_is_not_looked_at_before_the_job_that_came_back_is_due(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "store.db") as store:
        await store.create_job(new_job(1, domain="d1", unique="u"), now_ms=T0)
        await store.add_jobs([new_job(n, domain=f"d{n}") for n in (0, 2, 3)], now_ms=T0)
        retried, given_back, ended, moved = await claim(store)
        await store.release_jobs(OWNER, [retry(retried, T0 + 9), archive(ended), archive(moved)], now_ms=T0)
        assert await ready(store) == [("d0", T0 + 9)]
        await store.expire_locks(now_ms=given_back.dt_ms)
        await store.update_job(TENANT, given_back.id, JobChange(dt_ms=T0 + 9), now_ms=T0)
        await claim(store)
        await store.update_job(TENANT, given_back.id, JobChange(dt_ms=T0 + 8), now_ms=T0)
        await store.create_job(new_job(9, domain="d1", unique="u", priority=1000), now_ms=T0)
        await store.replay_jobs(TENANT, [ended.id], dt_ms=T0 + 7, now_ms=T0)
        await store.move_job(TENANT, moved.id, "acme-b", dt_ms=T0 + 6, now_ms=T0)
        assert await ready(store) == [("d0", T0 + 9), ("d1", T0 + 8), ("d2", T0 + 7), ("d3", T0 + 6)]


async def test_a_change_of_a_limit_reopens_what_waits_for_a_token_and_nothing_else(tmp_path: Path) -> None:
    async with SqliteStore(tmp_path / "store.db") as store:
        await store.set_rate_domain(RateDomain(TENANT, "d*", 0.001, 1), now_ms=T0)
        await store.add_jobs([new_job(n, domain=f"d{n % 2}", dt_ms=T0 - 9 + n) for n in range(4)], now_ms=T0)
        await store.add_jobs([new_job(9, domain="d2", dt_ms=T0 + 3_600_000)], now_ms=T0)
        first, _ = await claim(store)
        await store.update_job(TENANT, job_id(2), JobChange(dt_ms=T0 + 1_800_000), now_ms=T0)
        await store.release_jobs(OWNER, [archive(first)], now_ms=T0)
        assert all(ready_ms > T0 for _, ready_ms in await ready(store))
        await store.set_rate_domain(RateDomain(TENANT, "x", 1.0, 1), now_ms=T0)
        assert await ready(store) == [("d0", T0 + 1_800_000), ("d1", T0 - 6), ("d2", T0 + 3_600_000)]


async def test_very_many_domains_are_counted_without_a_look_at_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same answer as where each lane is looked at, but for the one job that came due and is not moved yet."""
    async with SqliteStore(tmp_path / "store.db") as store:
        await store.set_rate_domain(RateDomain(TENANT, "d*", 0.001, 1), now_ms=T0)
        jobs = [new_job(n, domain=f"d{n % 9}", dt_ms=T0 - n) for n in range(40)]
        jobs += [
            new_job(50, dt_ms=T0 - 100),
            new_job(51, key="k"),
            new_job(52, jobtype="acme-later", domain="d1", dt_ms=T0 + 9),
        ]
        jobs += [new_job(60 + n, jobtype="acme-b", domain=f"e{n}", priority=1000) for n in range(3)]
        await store.add_jobs(jobs, now_ms=T0)
        await claim(store, 12)
        one_by_one = await store.get_waiting_jobtypes(now_ms=T0)
        assert [(each.jobtype, each.priority) for each in one_by_one] == [("acme-b", 1000), ("acme-thumb", 500)]
        monkeypatch.setattr(scoreboard, "MOST_LANES", 2)
        assert await store.get_waiting_jobtypes(now_ms=T0) == one_by_one
        assert [each.jobtype for each in await store.get_waiting_jobtypes(now_ms=T0 + 9)] == [
            "acme-b",
            "acme-later",
            "acme-thumb",
        ]
        assert await store.get_waiting_jobtypes(now_ms=T0, runnable=True) == []
