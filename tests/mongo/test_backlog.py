"""What a verb reads does not grow with the backlog: counted by the server, for the commands that were really sent."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from store.base import Code, JobFilter, JobState
from store.mongo import MongoStore
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, new_job, retry
from tests.support.mongo_commands import CommandLog
from tests.support.mongo_examined import examined
from tests.support.mongo_server import shared_server
from tests.support.stores import mongo_database

pytestmark = pytest.mark.slow

FEW, MANY = 300, 6000
TYPES = 3
QUIET = "quiet"
TAKEN = 40
NOW = T0 + MANY + 1000

Verb = Callable[[MongoStore], Awaitable[object]]


async def take_and_give_back(store: MongoStore) -> None:
    jobs = await claim(store, TAKEN, jobtype=f"{TENANT}-type0", now_ms=NOW)
    assert len(jobs) == TAKEN
    await store.release_jobs(OWNER, [archive(job) for job in jobs], now_ms=NOW)


async def take_from_domains(store: MongoStore) -> None:
    assert len(await claim(store, 3, jobtype=f"{TENANT}-limited", now_ms=NOW)) == 3


async def list_two_pages(store: MongoStore) -> None:
    cursor = None
    for _ in range(2):
        page = await store.list_jobs(TENANT, JobFilter(JobState.WAITING), now_ms=NOW, cursor=cursor, limit=TAKEN)
        assert len(page.records) == TAKEN
        cursor = page.cursor


async def list_of_a_quiet_tenant(store: MongoStore) -> None:
    page = await store.list_jobs(QUIET, JobFilter(JobState.WAITING), now_ms=NOW, limit=TAKEN)
    assert len(page.records) == 4


async def list_schedules(store: MongoStore) -> None:
    page = await store.list_repeating(TENANT, now_ms=NOW, limit=TAKEN)
    page = await store.list_repeating(TENANT, now_ms=NOW, cursor=page.cursor, limit=TAKEN)
    assert len(page.records) == TAKEN


def list_by(where: JobFilter) -> Verb:
    """Two pages of it."""

    async def verb(store: MongoStore) -> None:
        page = await store.list_jobs(TENANT, where, now_ms=NOW, limit=TAKEN)
        page = await store.list_jobs(TENANT, where, now_ms=NOW, cursor=page.cursor, limit=TAKEN)
        assert len(page.records) == TAKEN

    return verb


VERBS: dict[str, Verb] = {
    "claim and release": take_and_give_back,
    "claim of a type with domains": take_from_domains,
    "get_waiting_jobtypes": lambda store: store.get_waiting_jobtypes(now_ms=NOW),
    "get_counters": lambda store: store.get_counters(None, now_ms=NOW),
    "get_counters of a tenant": lambda store: store.get_counters(TENANT, now_ms=NOW),
    "list_jobs": list_two_pages,
    "list_jobs of a quiet tenant": list_of_a_quiet_tenant,
    "list_repeating": list_schedules,
    "list_jobs by key": list_by(JobFilter(JobState.WAITING, f"{TENANT}-keyed", key="crowd")),
    "expire_locks": lambda store: store.expire_locks(now_ms=NOW),
    "expire_jobs": lambda store: store.expire_jobs(now_ms=NOW, done_before_ms=T0 - 1, waiting_before_ms=T0 - 1),
}


async def fill(store: MongoStore, waiting: int) -> None:
    """The backlog, and a few jobs in every other state."""
    jobs = [new_job(n, jobtype=f"{TENANT}-type{n % TYPES}", dt_ms=T0 + n) for n in range(waiting)]
    jobs += [new_job(100_000 + n, jobtype=f"{TENANT}-limited", dt_ms=T0, domain="api") for n in range(waiting // 2)]
    jobs += [new_job(200_000 + n, jobtype=f"{QUIET}-type{n % 2}", dt_ms=T0 + waiting) for n in range(4)]
    jobs += [new_job(300_000 + n, jobtype=f"{TENANT}-daily", dt_ms=T0 + n, repeat="DAILY") for n in range(waiting // 3)]
    jobs += [new_job(400_000 + n, jobtype=f"{TENANT}-keyed", dt_ms=T0 + n, key="crowd") for n in range(waiting // 3)]
    for start in range(0, len(jobs), 1000):
        await store.add_jobs(jobs[start : start + 1000], now_ms=NOW)
    before = NOW - 10
    taken = await claim(store, 15, jobtype=f"{TENANT}-type1", now_ms=before)
    await store.release_jobs(OWNER, [archive(job) for job in taken[:5]], now_ms=before)
    await store.release_jobs(OWNER, [retry(job, before + 1) for job in taken[5:10]], now_ms=before)


async def fill_with_ended(store: MongoStore, count: int) -> None:
    """All of one key, and with one name and one error."""
    for n in range(0, count, 100):
        jobs = [new_job(i, jobtype=f"{TENANT}-bad", key="crowd") for i in range(n, n + 100)]
        await store.add_jobs(jobs, now_ms=T0)
        taken = await claim(store, 100, jobtype=f"{TENANT}-bad")
        ends = [archive(job, Code.FAILED, fingerprint="clock", message="wrong time") for job in taken]
        assert (await store.release_jobs(OWNER, ends, now_ms=T0 + n)).applied == 100


FAILED = JobFilter(JobState.ARCHIVED, f"{TENANT}-bad", frozenset({Code.FAILED}))
ENDED_VERBS: dict[str, Verb] = {
    "list_jobs by failure": list_by(FAILED._replace(failure="clock")),
    "list_jobs by key": list_by(FAILED._replace(key="crowd")),
}


async def measured(
    url: str, waiting: int, verbs: dict[str, Verb] = VERBS, filled: Callable[[MongoStore, int], Awaitable[None]] = fill
) -> dict[str, int]:
    log = CommandLog()
    counts = {}
    async with MongoStore(url, listeners=[log]) as store:
        await filled(store, waiting)
        for name, verb in verbs.items():
            log.sent.clear()
            await verb(store)
            database = urlsplit(url).path.strip("/")
            counts[name] = await asyncio.to_thread(examined, shared_server(), database, list(log.sent))
    return counts


async def test_no_verb_reads_more_when_more_is_waiting(tmp_path: Path) -> None:
    async with mongo_database(tmp_path) as small, mongo_database(tmp_path) as big:
        few, many = await measured(small, FEW), await measured(big, MANY)
    assert {name: (few[name], many[name]) for name in VERBS if many[name] > 1.5 * few[name] + 20} == {}


async def test_a_page_by_failure_or_key_costs_the_same_however_many_have_it(tmp_path: Path) -> None:
    async with mongo_database(tmp_path) as small, mongo_database(tmp_path) as big:
        few = await measured(small, FEW, ENDED_VERBS, fill_with_ended)
        many = await measured(big, 10 * FEW, ENDED_VERBS, fill_with_ended)
    assert {name: (few[name], many[name]) for name in few if many[name] > 1.5 * few[name] + 20} == {}
