"""Each listing of the SQLite store walks an index made for it, and what it reads does not grow with the jobs."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from store.base import Code, JobFilter, JobPage, JobState
from store.sqlite import SqliteStore
from store.sqlite.queue import listing
from store.sqlite.queue.listing_ranges import Index, ranges_of
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, new_jobs, retry

LATER = T0 + 10_000
FILTERS: list[dict[str, Any]] = [{}, {"unique": "u"}, {"key": "k"}, {"failure": "clock"}]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    async with SqliteStore(tmp_path / "store.db") as opened:
        yield opened


@pytest.mark.parametrize("state", [JobState.ARCHIVED, JobState.WAITING, JobState.PAUSED])
@pytest.mark.parametrize("named", FILTERS, ids=str)
async def test_a_listing_walks_its_index_and_sorts_nothing(
    store: SqliteStore, state: JobState, named: dict[str, Any]
) -> None:
    await store.add_jobs(new_jobs(2, key="k"), now_ms=T0)
    for job in await claim(store, 1):
        await store.release_jobs(OWNER, [archive(job)], now_ms=T0)
    where = JobFilter(state)._replace(**named)
    indexes = await store._read(lambda conn: {part.source for part in ranges_of(conn, TENANT, where)})
    assert indexes
    for index in indexes:
        plan = await plan_of(store, index)
        assert "SEARCH jobs USING" in plan
        assert "TEMP B-TREE" not in plan or named.keys() == {"unique"}, plan  # at most one live job has the name
        parts = plan.partition("(")[2].partition(")")[0].split(" AND ")
        assert [part for part in parts if part.endswith("=?")], plan
        assert parts[-1].startswith(("done", "(done", "due", "(due", "uniq")), plan


async def plan_of(store: SqliteStore, index: Index) -> str:
    values = {"key": 1, "count": 5, "stop": 1, "time": 2, "tie": 2, "part": 1, "name": "x"}
    rows = await store._read(lambda conn: conn.execute(f"EXPLAIN QUERY PLAN {index.rows}", values).fetchall())
    return " / ".join(str(row[3]) for row in rows)


async def steps(folder: Path, count: int, where: JobFilter) -> int:
    """Tens of instructions of the database for the second page, where so many jobs fit."""
    counted = 0

    def tick() -> bool:
        nonlocal counted
        counted += 1
        return False

    def read(conn: apsw.Connection) -> JobPage:
        conn.set_progress_handler(tick, 10)
        return listing.list_jobs(conn, TENANT, where, LATER, first.cursor, 20, 100)

    async with SqliteStore(folder / f"{count}.db") as store:
        await store.add_jobs(new_jobs(count, key="k"), now_ms=T0)
        for job in await claim(store, count):
            outcome_of = archive if where.state is JobState.ARCHIVED else partial(retry, dt_ms=T0 + 10)
            end = outcome_of(job, code=Code.FAILED, fingerprint="clock")
            await store.release_jobs(OWNER, [end], now_ms=T0)
        first = await store.list_jobs(TENANT, where, now_ms=LATER, limit=20)
        assert len((await store._read(read)).records) == 20
    return counted


@pytest.mark.parametrize("state", [JobState.ARCHIVED, JobState.WAITING])
@pytest.mark.parametrize("named", [{"key": "k"}, {"failure": "clock"}], ids=str)
async def test_a_page_costs_the_same_however_many_fit(tmp_path: Path, state: JobState, named: dict[str, Any]) -> None:
    where = JobFilter(state)._replace(**named)
    few, many = await steps(tmp_path, 150, where), await steps(tmp_path, 900, where)
    assert 0 < many <= few * 1.2
