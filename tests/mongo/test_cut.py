"""A process dies at any of its commands: what it was told is true, and the rest is mended by the next one.

One scenario of all that changes jobs is run again and again, and cut at another command each time. Then a second
process does the upkeep, and everything must fit: what was acknowledged is there, the counters are what a count of
the jobs gives, relatives do not wait for each other in vain, and all that is left can be run to its end.
"""

import contextlib
import os
from collections import Counter
from urllib.parse import urlsplit

import pytest

from store.base import (
    Code,
    JobChange,
    JobFilter,
    JobRecord,
    JobState,
    JournalPosition,
    NewJob,
    Rearm,
    Release,
    Unclaim,
)
from store.errors import StoreUnavailable
from store.mongo import MongoStore
from store.mongo.server.ledger import LAPSE_MS
from store.values.scoreboard import DAY_MS
from tests.support.jobs import (
    OWNER,
    T0,
    TENANT,
    archive,
    claim,
    claim_one,
    job_id,
    making,
    new_job,
    new_jobs,
    outcome,
    retry,
)
from tests.support.mongo_cut import CutProxy

pytestmark = pytest.mark.slow

PARENT = f"{TENANT}-parent"
CHILD = f"{TENANT}-child"
ROUNDS = f"{TENANT}-rounds"
FIRST = 8  # before it the store is being opened
LAST = 296
STRIDE = 1 if os.environ.get("FUNCTORY_ALL_CUTS") else 29
LATER = T0 + 2 * LAPSE_MS


class Promises:
    """What calls that returned have promised."""

    def __init__(self) -> None:
        self.exist: set[str] = set()
        self.ended: dict[str, Code] = {}
        self.gone: set[str] = set()


def relative(number: int, jobtype: str, parent: str = "") -> NewJob:
    return new_job(number, jobtype=jobtype, parent=parent)


async def scenario(store: MongoStore, promises: Promises) -> None:
    """Everything that changes jobs. Each acknowledgement is noted when it has come."""
    plain = [*new_jobs(6), new_job(6, dt_ms=T0 + 60_000), new_job(7, data=b"x" * 300_000)]
    await store.add_jobs(plain, now_ms=T0, position=JournalPosition("a1", "seg", 10, 1))
    promises.exist |= {job.id for job in plain}
    unique = new_job(20, unique="nightly")
    await store.create_job(unique, now_ms=T0)
    promises.exist.add(unique.id)
    await store.create_job(new_job(21, unique="nightly", data=b"newer"), now_ms=T0)

    jobs = await claim(store, 5)
    ok, failed, again, back, _lost = jobs
    releases: list[Release] = [
        archive(ok, result=b"r" * 300_000),
        archive(failed, Code.FAILED, fingerprint="f", message="m"),
        retry(again, T0 + 1000),
        Unclaim(back.id, back.token),
    ]
    await store.release_jobs(OWNER, releases, now_ms=T0)
    promises.ended |= {ok.id: Code.OK, failed.id: Code.FAILED}

    await family_that_ends_well(store, promises)
    await family_that_fails(store, promises)

    await store.cancel_job(TENANT, job_id(6), now_ms=T0)
    promises.ended[job_id(6)] = Code.CANCELLED
    await store.update_job(TENANT, back.id, JobChange(data=b"changed", dt_ms=T0 + 50), now_ms=T0)
    del promises.ended[job_id(6)]  # from here on it may be queued again
    assert await store.replay_jobs(TENANT, [job_id(6)], dt_ms=T0 + 10, now_ms=T0) == (job_id(6),)
    promises.exist.discard(failed.id)  # and this one may be gone
    del promises.ended[failed.id]
    await store.delete_jobs(TENANT, [failed.id], now_ms=T0)
    promises.gone.add(failed.id)
    await store.expire_locks(now_ms=T0 + 45_000)
    await family_of_rounds(store, promises)
    await family_that_is_made(store, promises)


async def family_that_is_made(store: MongoStore, promises: Promises) -> None:
    """A run that makes a child and a job with a name, and a child that makes a sibling."""
    await store.create_job(relative(60, PARENT), now_ms=T0)
    promises.exist.add(job_id(60))
    parent = await claim_one(store, jobtype=PARENT)
    new = [relative(61, CHILD, parent.id), new_job(62, jobtype=CHILD, unique="made")]
    await store.release_with_jobs(OWNER, [making(archive(parent), *new)], now_ms=T0)
    promises.exist |= {job_id(61), job_id(62)}
    child = await claim_one(store, jobtype=CHILD)
    sibling = relative(63, CHILD, parent.id)
    await store.release_with_jobs(OWNER, [making(archive(child), sibling)], now_ms=T0)
    promises.ended[child.id] = Code.OK
    promises.exist.add(job_id(63))


async def family_of_rounds(store: MongoStore, promises: Promises) -> None:
    """A repeating parent: a round that fails with a child, and one that ends well with another."""
    await store.create_job(relative(50, ROUNDS), now_ms=T0)
    promises.exist.add(job_id(50))
    parent = await claim_one(store, jobtype=ROUNDS)
    await store.create_job(relative(51, CHILD, parent.id), now_ms=T0)
    failed = Rearm(parent.id, parent.token, T0, outcome(Code.FAILED), b"second round")
    await store.release_jobs(OWNER, [failed], now_ms=T0)
    promises.ended[job_id(51)] = Code.CANCELLED
    parent = await claim_one(store, jobtype=ROUNDS)
    assert parent.data == b"second round"
    await store.create_job(relative(52, CHILD, parent.id), now_ms=T0)
    report = await store.release_jobs(OWNER, [Rearm(parent.id, parent.token, T0, outcome())], now_ms=T0)
    assert report.paused == (parent.id,)
    await store.release_jobs(OWNER, [archive(await claim_one(store, jobtype=CHILD))], now_ms=T0)
    promises.ended[job_id(52)] = Code.OK
    parent = await claim_one(store, jobtype=ROUNDS)
    await store.release_jobs(OWNER, [Rearm(parent.id, parent.token, T0 + 1000, outcome())], now_ms=T0)


async def family_that_ends_well(store: MongoStore, promises: Promises) -> None:
    await store.create_job(relative(30, PARENT), now_ms=T0)
    parent = await claim_one(store, jobtype=PARENT)
    for number in (31, 32):
        await store.create_job(relative(number, CHILD, parent.id), now_ms=T0)
        promises.exist.add(job_id(number))
    report = await store.release_jobs(OWNER, [archive(parent)], now_ms=T0)
    assert report.paused == (parent.id,)
    children = await claim(store, jobtype=CHILD)
    await store.release_jobs(OWNER, [archive(children[0]), archive(children[1], Code.FAILED)], now_ms=T0)
    promises.ended |= {children[0].id: Code.OK, children[1].id: Code.FAILED}
    parent = await claim_one(store, jobtype=PARENT)
    await store.release_jobs(OWNER, [archive(parent)], now_ms=T0)
    promises.ended[parent.id] = Code.OK


async def family_that_fails(store: MongoStore, promises: Promises) -> None:
    await store.create_job(relative(40, PARENT), now_ms=T0)
    parent = await claim_one(store, jobtype=PARENT)
    await store.create_job(relative(41, CHILD, parent.id), now_ms=T0)
    promises.exist.add(job_id(41))
    await store.release_jobs(OWNER, [archive(parent, Code.FAILED)], now_ms=T0)
    promises.ended |= {parent.id: Code.FAILED, job_id(41): Code.CANCELLED}


async def all_jobs(store: MongoStore, now_ms: int) -> list[JobRecord]:
    records: list[JobRecord] = []
    for state in JobState:
        page = await store.list_jobs(TENANT, JobFilter(state), now_ms=now_ms, limit=1000)
        records += page.records
    return records


async def check_counters(store: MongoStore, now_ms: int) -> None:
    """Ensures: the counters are what counting the jobs gives."""
    counted = {row.jobtype: row for row in await store.get_counters(TENANT, now_ms=now_ms)}
    records = await all_jobs(store, now_ms)
    states = Counter((record.job.jobtype, record.state) for record in records)
    for jobtype, row in counted.items():
        assert row.waiting == states[jobtype, JobState.WAITING], (jobtype, row)
        assert row.deferred == states[jobtype, JobState.DEFERRED], (jobtype, row)
        assert row.running == states[jobtype, JobState.RUNNING] + states[jobtype, JobState.LAPSED], (
            jobtype,
            row,
        )
        assert row.blocked == states[jobtype, JobState.PAUSED], (jobtype, row)
    usage = await store.get_usage(TENANT)
    assert usage.jobs == len(records)
    assert usage.size_bytes == sum(record.data_bytes + record.result_bytes for record in records)
    events = Counter[str]()
    for row in counted.values():
        events.update({code.value: getattr(row, code.value) for code in Code})
    in_buckets = Counter[str]()
    for bucket in await store.get_buckets(TENANT, width_ms=DAY_MS, since_ms=0, until_ms=LATER + DAY_MS):
        in_buckets.update({code.value: getattr(bucket, code.value) for code in Code})
    assert +events == +in_buckets


async def check_promises(store: MongoStore, promises: Promises) -> None:
    for promised in promises.exist:
        assert await store.get_job(TENANT, promised, now_ms=LATER) is not None, promised
    for promised, code in promises.ended.items():
        record = await store.get_job(TENANT, promised, now_ms=LATER)
        assert record is not None
        assert record.outcome is not None
        assert (record.state, record.outcome.code) == (JobState.ARCHIVED, code), promised
    for promised in promises.gone:
        assert await store.get_job(TENANT, promised, now_ms=LATER) is None, promised


async def mend(store: MongoStore, now_ms: int) -> None:
    for _ in range(3):
        await store.expire_locks(now_ms=now_ms)


async def run_to_the_end(store: MongoStore) -> None:
    """All that is left can be claimed and ended, and then nothing waits."""
    for turn in range(20):
        now_ms = LATER + turn * 1000
        for waiting in await store.get_waiting_jobtypes(now_ms=now_ms):
            jobs = await claim(store, jobtype=waiting.jobtype, now_ms=now_ms)
            await store.release_jobs(OWNER, [archive(job) for job in jobs], now_ms=now_ms)
    left = [record for record in await all_jobs(store, LATER) if record.state != JobState.ARCHIVED]
    assert left == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("cut_at", range(FIRST, LAST, STRIDE))
async def test_whatever_the_command_at_which_it_dies(mongo_url: str, cut_at: int, *, after: bool) -> None:
    async with MongoStore(mongo_url):
        pass  # the collections and indexes
    parts = urlsplit(mongo_url)
    assert parts.port is not None
    promises = Promises()
    async with CutProxy("127.0.0.1", parts.port, cut_at=cut_at, after=after) as proxy:
        url = f"mongodb://127.0.0.1:{proxy.port}{parts.path}?serverSelectionTimeoutMS=150&directConnection=true"
        dying = MongoStore(url)
        with contextlib.suppress(StoreUnavailable):
            await dying.open()
            await scenario(dying, promises)
        reached = proxy.is_cut()
        await dying.close()
    async with MongoStore(mongo_url) as store:
        await mend(store, LATER)
        await check_promises(store, promises)
        await check_counters(store, LATER)
        await run_to_the_end(store)
        await check_counters(store, LATER + DAY_MS)
    assert reached or cut_at > LAST - 20, "the scenario sends fewer commands than this suite supposes"
