"""What a claim from a type with keys costs SQLite: neither the backlog nor keys that may not run."""

from pathlib import Path

import apsw

from store.sqlite import SqliteStore
from tests.support.jobs import OWNER, T0, archive, claim, new_job

TAKEN = 5


async def cost(folder: Path, blocked: int, backlog: int) -> int:
    """Instructions of the database for a claim of some jobs beside keys whose cap is reached."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    async with SqliteStore(folder / f"{blocked}.db") as store:
        for round_ in range(backlog):
            jobs = [new_job(round_ * blocked + n, key=f"k{n}") for n in range(blocked)]
            await store.add_jobs(jobs, now_ms=T0)
        assert len(await claim(store, blocked, max_per_key=1)) == blocked
        assert await claim(store, max_per_key=1) == []
        await store.add_jobs([new_job(900_000 + n, key=f"free{n}") for n in range(TAKEN)], now_ms=T0)

        def watch(conn: apsw.Connection) -> None:
            conn.set_progress_handler(count, 10)

        await store._write(lambda tx: watch(tx.conn))
        taken = await claim(store, TAKEN, max_per_key=1)
        await store.release_jobs(OWNER, [archive(job) for job in taken], now_ms=T0)
        assert len(taken) == TAKEN
    return steps


async def test_keys_that_may_not_run_cost_a_claim_nothing(tmp_path: Path) -> None:
    few = await cost(tmp_path, blocked=20, backlog=2)
    many = await cost(tmp_path, blocked=300, backlog=3)
    assert few > 0
    assert many <= few * 1.2
