"""A batch costs a fixed number of round trips, whatever its size and its outcomes."""

import pytest

from store.base import Code, ConsumerRecord, Job, Lease, Rearm, Release, Unclaim
from store.mongo import MongoStore
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, making, new_jobs, outcome, retry
from tests.support.mongo_commands import CommandLog

pytestmark = pytest.mark.slow

BATCH = 500


def every_kind(number: int, job: Job) -> Release:
    """The seven ways in which a delivery can end, in turn."""
    kinds: list[Release] = [
        archive(job, result=b"fine"),
        archive(job, Code.FAILED, log=b"no", fingerprint="bad input", message="no such file"),
        archive(job, Code.ABANDONED),
        retry(job, T0 + 5000),
        retry(job, T0, Code.ERROR, fingerprint=f"crash {number % 3}", message="boom"),
        Unclaim(job.id, job.token),
        Rearm(job.id, job.token, T0 + 1000, outcome(result=b"round"), data=b"next round"),
    ]
    return kinds[number % len(kinds)]


async def test_a_batch_of_every_outcome_takes_six_round_trips(store: MongoStore, commands: CommandLog) -> None:
    await store.add_jobs(new_jobs(2 * BATCH), now_ms=T0)
    commands.sent.clear()
    jobs = await claim(store, BATCH)
    report = await store.release_jobs(OWNER, [every_kind(i, job) for i, job in enumerate(jobs)], now_ms=T0)
    assert len(jobs) == report.applied == BATCH
    assert len(commands.sent) <= 6, commands.names


async def test_a_batch_that_another_object_claimed_takes_one_more(store: MongoStore, mongo_url: str) -> None:
    await store.add_jobs(new_jobs(BATCH), now_ms=T0)
    first, *jobs = await claim(store, BATCH)
    log = CommandLog()
    async with MongoStore(mongo_url, listeners=[log]) as other:
        await other.release_jobs(OWNER, [archive(first)], now_ms=T0)  # the first change of an object takes a writer
        log.sent.clear()
        report = await other.release_jobs(OWNER, [archive(job) for job in jobs], now_ms=T0)
        assert report.applied == BATCH - 1
        assert log.names == ["find", "update", "update", "update"]


async def test_renewing_a_batch_takes_one(store: MongoStore, commands: CommandLog) -> None:
    await store.add_jobs(new_jobs(BATCH), now_ms=T0)
    jobs = await claim(store, BATCH)
    commands.sent.clear()
    leases = [Lease(job.id, job.token) for job in jobs]
    report = await store.renew_locks(OWNER, leases, lease_ms=1000, now_ms=T0)
    assert report.renewed == BATCH
    assert commands.names == ["update"]


async def test_writes_are_majority_and_journaled(store: MongoStore, commands: CommandLog) -> None:
    await store.add_jobs(new_jobs(3), now_ms=T0)
    jobs = await claim(store)
    await store.release_jobs(OWNER, [archive(job) for job in jobs], now_ms=T0)
    changes = [command for command in commands.sent if next(iter(command)) in {"insert", "update", "delete"}]
    assert changes
    assert {(c["writeConcern"]["w"], c["writeConcern"]["j"]) for c in changes} == {("majority", True)}


async def trips_of_makers(store: MongoStore, commands: CommandLog, count: int, first: int, **changes: str) -> int:
    """Round trips of so many runs that end together, each with two new jobs."""
    await store.add_jobs(new_jobs(count, first), now_ms=T0)
    makers = await claim(store, count)
    new = [new_jobs(2, first + count + 2 * n, jobtype="acme-child", **changes) for n in range(count)]
    ends = [making(archive(maker), *made) for maker, made in zip(makers, new, strict=True)]
    commands.sent.clear()
    assert (await store.release_with_jobs(OWNER, ends, now_ms=T0)).applied == count
    return len(commands.sent)


@pytest.mark.parametrize("changes", [{}, {"domain": "api"}, {"key": "ada"}])
async def test_runs_that_made_jobs_end_in_as_many_round_trips_as_one(
    store: MongoStore, commands: CommandLog, changes: dict[str, str]
) -> None:
    await store.set_consumer(ConsumerRecord(TENANT, "stage", "acme-child", "{}", T0))
    await trips_of_makers(store, commands, 1, 0, **changes)  # the first change of an object takes a writer
    alone = await trips_of_makers(store, commands, 1, 1000, **changes)
    assert await trips_of_makers(store, commands, 100, 2000, **changes) <= alone, commands.names
