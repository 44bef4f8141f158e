"""Between any two steps of runs that end together, with the jobs that they made, another store does something with one
of them: each run still ends once, with all of its jobs or none of them."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from store.base import Code, ConsumerRecord, Job, JobState, ReleaseReport, Store
from store.errors import Conflict, NotFound
from store.mongo import MongoStore
from store.mongo.server import schema
from store.mongo.server.ledger import LAPSE_MS
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, claim_one, job_id, making, new_job, new_jobs, retry
from tests.support.store_audit import check_counters
from tests.support.turns import interleave, open_pair

pytestmark = pytest.mark.slow

NUMBERED = "acme-numbered"
PLAIN = "acme-plain"
MAKERS = 4
Verb = Callable[[int, Store], Awaitable[object]]


def makers_type(number: int) -> str:
    return f"acme-m{number}"


async def end_all(number: int, makers: list[Job], store: Store) -> ReleaseReport:
    """Two that end plainly, one that is tried again, and one that waits for its child."""
    first, second, again, parent = makers
    ends = [
        making(archive(first), new_job(number + 10, jobtype=NUMBERED), new_job(number + 11, jobtype=PLAIN)),
        making(archive(second, Code.FAILED), new_job(number + 12, jobtype=NUMBERED)),
        making(retry(again, T0 + 9 * LAPSE_MS), new_job(number + 13, jobtype=PLAIN)),
        making(archive(parent), new_job(number + 14, jobtype=PLAIN, parent=parent.id)),
    ]
    return await store.release_with_jobs(OWNER, ends, now_ms=T0)


async def add_child(number: int, store: Store) -> None:
    with suppress(Conflict, NotFound):
        await store.create_job(new_job(number + 20, jobtype=PLAIN, parent=job_id(number)), now_ms=T0)


async def cancel(number: int, store: Store) -> None:
    with suppress(Conflict):
        await store.cancel_job(TENANT, job_id(number), now_ms=T0, running=True)


async def do_upkeep(_number: int, store: Store) -> None:
    await store.expire_locks(now_ms=T0)


async def add_numbered(number: int, store: Store) -> None:
    await store.add_jobs([new_job(number + 20, jobtype=NUMBERED)], now_ms=T0)


@pytest.mark.parametrize("other", [add_child, cancel, do_upkeep, add_numbered])
async def test_each_run_ends_once_with_all_that_it_made_or_nothing(mongo_url: str, other: Verb) -> None:
    async with open_pair(mongo_url) as pair, MongoStore(mongo_url) as raw:
        store, stop_at, was_stopped = pair.other, 0, True
        await store.set_consumer(ConsumerRecord(TENANT, "stage", NUMBERED, "{}", T0))
        while was_stopped:
            stop_at += 1
            number = 100 * stop_at
            await store.add_jobs(new_jobs(MAKERS, number, jobtype=makers_type(number)), now_ms=T0)
            makers = await claim(store, MAKERS, jobtype=makers_type(number))
            do_other: Callable[[Store], Awaitable[Any]] = partial(other, number)
            report, _, was_stopped = await interleave(pair, partial(end_all, number, makers), do_other, stop_at)
            assert set(report.stale) <= {job_id(number)}, "only of the first one somebody else did something"
            assert await raw.collections.jobs.count_documents({"s": schema.HIDDEN}) == 0, f"step {stop_at}"
            await store.expire_locks(now_ms=T0 + 2 * LAPSE_MS)
            made = await store.get_states(TENANT, [job_id(number + n) for n in range(10, 15)], now_ms=T0)
            first = {job_id(number + 10): JobState.PAUSED, job_id(number + 11): JobState.WAITING}
            others = {
                job_id(number + 12): JobState.PAUSED,
                job_id(number + 13): JobState.WAITING,
                job_id(number + 14): JobState.WAITING,
            }
            assert made == (others if report.stale else first | others), f"step {stop_at}"
            makers_now = await store.get_states(TENANT, [job.id for job in makers], now_ms=T0)
            child = (await store.get_states(TENANT, [job_id(number + 20)], now_ms=T0)).get(job_id(number + 20))
            waits = other is add_child and child is not None
            assert list(makers_now.values()) == [
                JobState.PAUSED if waits else JobState.ARCHIVED,
                JobState.ARCHIVED,
                JobState.DEFERRED,
                JobState.PAUSED,
            ], f"step {stop_at}"
            if waits:
                assert child is JobState.WAITING, "its parent waits for it"
            await check_counters(store, TENANT, T0)
            head = (await store.get_index_state(TENANT, NUMBERED)).head
            numbered = [await store.get_job_at(TENANT, NUMBERED, seq, now_ms=T0) for seq in range(1, head + 1)]
            assert None not in numbered, f"step {stop_at}: a number is nobody's"
        assert stop_at > 8, "it was stopped before many steps"


async def end_with(number: int, job: Job, store: Store) -> ReleaseReport:
    ended = making(archive(job), new_job(number, jobtype=PLAIN))
    return await store.release_with_jobs(OWNER, [ended], now_ms=T0)


async def test_of_two_reports_of_one_run_the_jobs_of_one_appear(mongo_url: str) -> None:
    """As a worker sends them to two daemons."""
    async with open_pair(mongo_url) as pair:
        store, stop_at, was_stopped = pair.other, 0, True
        while was_stopped:
            stop_at += 1
            number = 100 * stop_at
            await store.add_jobs([new_job(number)], now_ms=T0)
            job = await claim_one(store)
            one, other = (partial(end_with, number + n, job) for n in (1, 2))
            first, second, was_stopped = await interleave(pair, one, other, stop_at)
            assert first.applied + second.applied == 1
            made = await store.get_states(TENANT, [job_id(number + n) for n in (1, 2)], now_ms=T0)
            assert list(made) == [job_id(number + (1 if first.applied else 2))], f"step {stop_at}"
        assert stop_at > 5, "it was stopped before many steps"


async def make_siblings(number: int, parent: Job, child: Job, store: Store) -> ReleaseReport:
    siblings = new_jobs(2, number + 10, jobtype=PLAIN, parent=parent.id)
    return await store.release_with_jobs(OWNER, [making(archive(child), *siblings)], now_ms=T0)


async def end_parent(parent: Job, store: Store) -> None:
    await store.release_jobs(OWNER, [archive(parent)], now_ms=T0)


async def test_siblings_of_a_run_are_not_held_by_a_parent_that_ends_meanwhile(mongo_url: str) -> None:
    """A child that was replayed runs beside its parent."""
    async with open_pair(mongo_url) as pair:
        store, stop_at, was_stopped = pair.other, 0, True
        while was_stopped:
            stop_at += 1
            number = 100 * stop_at
            parents, children = f"acme-p{number}", f"acme-c{number}"
            await store.add_jobs([new_job(number, jobtype=parents)], now_ms=T0)
            parent = await claim_one(store, jobtype=parents)
            first = making(archive(parent), new_job(number + 1, jobtype=children, parent=parent.id))
            await store.release_with_jobs(OWNER, [first], now_ms=T0)
            await store.release_jobs(OWNER, [archive(await claim_one(store, jobtype=children))], now_ms=T0)
            parent = await claim_one(store, jobtype=parents)
            await store.replay_jobs(TENANT, [job_id(number + 1)], dt_ms=T0, now_ms=T0)
            child = await claim_one(store, jobtype=children)
            make = partial(make_siblings, number, parent, child)
            _, _, was_stopped = await interleave(pair, make, partial(end_parent, parent), stop_at)
            states = await store.get_states(TENANT, [job_id(number + n) for n in (0, 10, 11)], now_ms=T0)
            assert list(states.values()) == [JobState.PAUSED, JobState.WAITING, JobState.WAITING], f"step {stop_at}"
        assert stop_at > 8, "it was stopped before many steps"
