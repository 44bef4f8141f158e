"""Jobs of a store that repeat, and what can be done with them."""

from typing import Any

from store.base import (
    Code,
    Creation,
    Job,
    JobChange,
    JobRecord,
    JobState,
    Pause,
    Rearm,
    Store,
    Timing,
)
from tests.support.jobs import OWNER, T0, TENANT, claim, claim_one, job_id, new_job, outcome

HOURLY = "FINISHED, +1 HOUR"
HOUR_MS = 3_600_000
PAUSE = Pause(T0 + 5, "k1")


def rearm(job: Job, dt_ms: int, code: Code = Code.OK, **said: Any) -> Rearm:
    return Rearm(job.id, job.token, dt_ms, outcome(code)._replace(**said))


async def add(store: Store, number: int = 1, **fields: Any) -> None:
    await store.create_jobs([Creation(new_job(number, repeat=HOURLY, **fields))], now_ms=T0)


async def read(store: Store, number: int = 1, now_ms: int = T0) -> JobRecord:
    record = await store.get_job(TENANT, job_id(number), now_ms=now_ms)
    assert record is not None
    return record


async def rounds(store: Store, number: int = 1) -> list[tuple[int, Code]]:
    return [(it.planned_ms, it.code) for it in (await read(store, number)).schedule.rounds]


async def change(store: Store, number: int = 1, now_ms: int = T0 + 5, **said: Any) -> JobState:
    return await store.update_job(TENANT, job_id(number), JobChange(**said), now_ms=now_ms)


async def run_round(store: Store, now_ms: int, next_ms: int, code: Code = Code.OK, **said: Any) -> None:
    job = await claim_one(store, now_ms=now_ms)
    report = await store.release_jobs(OWNER, [rearm(job, next_ms, code, **said)], now_ms=now_ms + 1)
    assert report.applied == 1


async def waiting(store: Store, now_ms: int) -> list[str]:
    return [job.id for job in await claim(store, 10, now_ms=now_ms)]


async def counts(store: Store, now_ms: int) -> tuple[int, int, int, int]:
    (row,) = await store.get_counters(TENANT, now_ms=now_ms)
    return row.waiting, row.deferred, row.running, row.blocked


async def extra(store: Store, now_ms: int = T0 + 10) -> JobState:
    return await change(store, now_ms=now_ms, dt_ms=now_ms, timing=Timing.EXTRA)
