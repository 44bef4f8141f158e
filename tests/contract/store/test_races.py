"""Races by construction (tests/support/races.py): between any two steps of a verb another store does any other verb."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from store.base import Archive, Binding, Code, JobChange, Lease, Retry, Store, Unclaim
from tests.support.jobs import LEASE_MS, OWNER, T0, TENANT, archive, claim, claim_one, job_id, new_job, outcome
from tests.support.races import ALL_PAIRS, Arena, Scene, Serial, Verb, meet

pytestmark = pytest.mark.slow

NOW = T0 + LEASE_MS + 1
"""The lease of the running job has lapsed, and nobody has noticed yet."""
RUNNING, WAITING, ENDED, NAMED, NAMED_TOO = range(5)
TOKEN = 1
NAME = "the only one"


async def set_up(store: Store) -> None:
    await store.add_jobs([new_job(RUNNING), new_job(ENDED)], now_ms=T0)
    _, ended = await claim(store)
    await store.release_jobs(OWNER, [archive(ended, result=b"r")], now_ms=T0)
    for number in (NAMED, NAMED_TOO):  # one after the other, as they must
        await store.create_job(new_job(number, unique=NAME), now_ms=T0)
        await store.release_jobs(OWNER, [archive(await claim_one(store))], now_ms=T0)
    await store.add_jobs([new_job(WAITING)], now_ms=T0)


async def claim_all(store: Store) -> Any:
    return [(job.id, job.token, job.attempts) for job in await claim(store, now_ms=NOW, owner="b2")]


async def renew(store: Store) -> Any:
    return await store.renew_locks(OWNER, [Lease(job_id(RUNNING), TOKEN)], lease_ms=LEASE_MS, now_ms=NOW)


async def end(store: Store) -> Any:
    ended = Archive(job_id(RUNNING), TOKEN, outcome(result=b"r"))
    return await store.release_jobs(OWNER, [ended], now_ms=NOW)


async def try_again(store: Store) -> Any:
    again = Retry(job_id(RUNNING), TOKEN, NOW + 5000, outcome(Code.RETRY))
    return await store.release_jobs(OWNER, [again], now_ms=NOW)


async def give_back(store: Store) -> Any:
    return await store.release_jobs(OWNER, [Unclaim(job_id(RUNNING), TOKEN)], now_ms=NOW)


async def expire(store: Store) -> Any:
    return await store.expire_locks(now_ms=NOW)


async def purge(store: Store) -> Any:
    return await store.expire_jobs(now_ms=NOW, done_before_ms=NOW, waiting_before_ms=0)


async def abandon(store: Store) -> Any:
    return await store.expire_jobs(now_ms=NOW, done_before_ms=0, waiting_before_ms=NOW)


async def replay(store: Store) -> Any:
    return await store.replay_jobs(TENANT, [job_id(ENDED)], dt_ms=NOW, now_ms=NOW)


async def replay_named(store: Store) -> Any:
    return await store.replay_jobs(TENANT, [job_id(NAMED)], dt_ms=NOW, now_ms=NOW)


async def replay_named_too(store: Store) -> Any:
    return await store.replay_jobs(TENANT, [job_id(NAMED_TOO)], dt_ms=NOW, now_ms=NOW)


async def cancel(store: Store) -> Any:
    return await store.cancel_job(TENANT, job_id(WAITING), now_ms=NOW)


async def put_off(store: Store) -> Any:
    return await store.update_job(TENANT, job_id(WAITING), JobChange(dt_ms=NOW + 9000), now_ms=NOW)


async def delete(store: Store) -> Any:
    return await store.delete_jobs(TENANT, [job_id(ENDED)], now_ms=T0)


async def create(store: Store) -> Any:
    return await store.create_job(new_job(10, unique=NAME), now_ms=NOW)


async def create_too(store: Store) -> Any:
    return await store.create_job(new_job(11, unique=NAME), now_ms=NOW)


async def add(store: Store) -> Any:
    return await store.add_jobs([new_job(12), new_job(WAITING)], now_ms=NOW)


async def show(store: Store) -> Any:
    return await store.add_running_jobs(OWNER, [new_job(13)], lease_ms=LEASE_MS, now_ms=NOW)


async def end_straight(store: Store) -> Any:
    ended = Archive(job_id(13), TOKEN, outcome(result=b"r"))
    return await store.add_ended_jobs(OWNER, [new_job(13)], [ended], now_ms=NOW)


async def end_shown(store: Store) -> Any:
    ended = Archive(job_id(RUNNING), TOKEN, outcome(result=b"r"))
    return await store.add_ended_jobs(OWNER, [new_job(RUNNING)], [ended], now_ms=NOW)


async def add_again(store: Store) -> Any:
    """As a journal that is read again does."""
    return await store.add_jobs([new_job(13)], now_ms=NOW)


async def try_again_straight(store: Store) -> Any:
    again = Retry(job_id(13), TOKEN, NOW + 5000, outcome(Code.RETRY))
    return await store.add_ended_jobs(OWNER, [new_job(13)], [again], now_ms=NOW)


async def remember(store: Store) -> Any:
    return await store.put_once(TENANT, "key", b"one", expires_ms=NOW + 1000, now_ms=NOW)


async def remember_other(store: Store) -> Any:
    return await store.put_once(TENANT, "key", b"two", expires_ms=NOW + 1000, now_ms=NOW)


async def add_bound(store: Store) -> Any:
    binding = Binding(TENANT, "key", b"three", "done", NOW + 1000, ("more", b""))
    return await store.add_jobs_once(binding, [new_job(14)], now_ms=NOW)


async def take_over(store: Store) -> Any:
    """The lease is expired, and the same owner gets the job once more."""
    await store.expire_locks(now_ms=NOW)
    return [(job.id, job.token) for job in await claim(store, 1, now_ms=NOW)]


async def replay_and_end(store: Store) -> Any:
    """What has ended long ago runs and ends again."""
    await store.replay_jobs(TENANT, [job_id(ENDED)], dt_ms=T0 - 1, now_ms=NOW)
    jobs = await claim(store, 1, now_ms=NOW)
    return await store.release_jobs(OWNER, [archive(job) for job in jobs], now_ms=NOW)


async def replay_and_cancel(store: Store) -> Any:
    """What has ended begins anew with another payload and without its result, and ends again without a delivery."""
    await store.replay_jobs(TENANT, [job_id(ENDED)], dt_ms=NOW, now_ms=NOW, data=b"another and longer payload")
    return await store.cancel_job(TENANT, job_id(ENDED), now_ms=NOW)


VERBS: list[Verb] = [
    claim_all, renew, end, try_again, give_back, expire, purge, abandon, replay, replay_named, cancel, put_off, delete,
    create, add, remember, show, end_straight, try_again_straight, end_shown, add_again, add_bound,
]  # fmt: skip
BETWEEN: list[Verb] = [
    *VERBS,
    replay_named_too,
    create_too,
    remember_other,
    take_over,
    replay_and_end,
    replay_and_cancel,
]
"""Also more than one verb in a row."""
ALWAYS: dict[Verb, list[Verb]] = {purge: [replay_and_cancel], delete: [replay_and_cancel]}
"""Pairs that are met also when not all are."""
WEAKER = {(one, other) for one in (delete, replay) for other in (replay_and_end, replay_and_cancel)}
"""A job that has moved since it was read is left alone, also when it has ended again."""


def others(one: Verb, arena: Arena) -> list[Verb]:
    """All, or one in twelve."""
    if ALL_PAIRS or arena.is_quick:
        return BETWEEN
    return [*BETWEEN[VERBS.index(one) % 12 :: 12], *ALWAYS.get(one, [])]


SCENE = Scene(set_up, NOW)


@pytest.fixture(scope="module")
def serial() -> Serial:
    return {}


@pytest.fixture
async def arena(store_url: str) -> AsyncIterator[Arena]:
    async with AsyncExitStack() as stack:
        yield Arena(SCENE, store_url, stack)


@pytest.mark.parametrize("one", VERBS, ids=lambda verb: verb.__name__)
async def test_between_two_steps_anything_may_happen(one: Verb, arena: Arena, tmp_path: Path, serial: Serial) -> None:
    for other in others(one, arena):
        is_weaker = (one, other) in WEAKER
        if await meet(arena, one, other, serial, tmp_path, is_weaker=is_weaker) == 1:
            return  # it is one step, whatever comes between
