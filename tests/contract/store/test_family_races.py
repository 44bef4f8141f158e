"""Races of parents and children by construction (tests/support/races.py): a child is added while its parent ends, or is
deleted, and the other way round."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from store.base import Archive, Code, Rearm, Retry, Store, Unclaim
from tests.support.jobs import LEASE_MS, OWNER, T0, TENANT, claim_one, job_id, making, new_job, outcome
from tests.support.races import ALL_PAIRS, Arena, Scene, Serial, Verb, meet, result_of
from tests.support.turns import interleave
from vocabulary.states import JobState

pytestmark = pytest.mark.slow

NOW = T0 + LEASE_MS + 1
"""The lease of the parent has lapsed, and nobody has noticed yet."""
PARENT, OLDER, CHILD, NAMED, NAMED_TOO, MADE = range(6)
TOKEN = 1
CHILDREN = "acme-child"
NAME = "the only one"


async def set_up(store: Store) -> None:
    await store.add_jobs([new_job(PARENT)], now_ms=T0)
    await claim_one(store)


async def set_up_with_child(store: Store) -> None:
    await set_up(store)
    await add(store, OLDER)


async def add(store: Store, number: int, **more: Any) -> Any:
    child = new_job(number, jobtype=CHILDREN, parent=job_id(PARENT), **more)
    return await store.create_job(child, now_ms=NOW)


async def add_child(store: Store) -> Any:
    return await add(store, CHILD)


async def add_named(store: Store) -> Any:
    return await add(store, NAMED, unique=NAME)


async def add_named_too(store: Store) -> Any:
    return await add(store, NAMED_TOO, unique=NAME)


async def end(store: Store, code: Code = Code.OK) -> Any:
    return await store.release_jobs(OWNER, [Archive(job_id(PARENT), TOKEN, outcome(code))], now_ms=NOW)


async def fail(store: Store) -> Any:
    return await end(store, Code.FAILED)


async def end_round(store: Store, code: Code = Code.OK) -> Any:
    return await store.release_jobs(OWNER, [Rearm(job_id(PARENT), TOKEN, NOW + 5000, outcome(code))], now_ms=NOW)


async def fail_round(store: Store) -> Any:
    return await end_round(store, Code.FAILED)


async def try_again(store: Store) -> Any:
    return await store.release_jobs(OWNER, [Retry(job_id(PARENT), TOKEN, NOW + 5000, outcome(Code.RETRY))], now_ms=NOW)


async def give_back(store: Store) -> Any:
    return await store.release_jobs(OWNER, [Unclaim(job_id(PARENT), TOKEN)], now_ms=NOW)


async def expire(store: Store) -> Any:
    return await store.expire_locks(now_ms=NOW)


async def cancel(store: Store) -> Any:
    return await store.cancel_job(TENANT, job_id(PARENT), now_ms=NOW, running=True)


async def fail_and_delete(store: Store) -> Any:
    await fail(store)
    return await store.delete_jobs(TENANT, [job_id(PARENT)], now_ms=NOW)


async def fail_and_replay(store: Store) -> Any:
    await fail(store)
    return await store.replay_jobs(TENANT, [job_id(PARENT)], dt_ms=NOW, now_ms=NOW)


async def fail_and_run_again(store: Store) -> Any:
    await fail_and_replay(store)
    return (await claim_one(store, now_ms=NOW)).token


async def make_child(store: Store) -> Any:
    """Its run ends with one."""
    ended = Archive(job_id(PARENT), TOKEN, outcome())
    child = new_job(MADE, jobtype=CHILDREN, parent=job_id(PARENT))
    return await store.release_with_jobs(OWNER, [making(ended, child)], now_ms=NOW)


async def purge(store: Store) -> Any:
    await fail(store)
    return await store.expire_jobs(now_ms=NOW + 1, done_before_ms=NOW + 1, waiting_before_ms=0)


async def cancel_child(store: Store) -> Any:
    return await store.cancel_job(TENANT, job_id(OLDER), now_ms=NOW)


ENDS: list[Verb] = [end, fail, end_round, fail_round, try_again, give_back, cancel, make_child, expire]
ADDS: list[Verb] = [add_child, add_named]
BETWEEN: list[Verb] = [*ENDS, *ADDS, add_named_too, fail_and_delete, fail_and_replay, fail_and_run_again, purge]
"""Also more than one verb in a row."""
MET_BY: dict[Verb, list[Verb]] = dict.fromkeys(ADDS, BETWEEN) | {one: [*ADDS, cancel_child] for one in ENDS}
ALWAYS: dict[Verb, list[Verb]] = {add_child: [fail_round, try_again, give_back, expire], add_named: [add_named_too]}
"""Pairs that are met also when not all are."""


def others(one: Verb, arena: Arena) -> list[Verb]:
    if ALL_PAIRS or arena.is_quick:
        return MET_BY[one]
    return [*MET_BY[one][list(MET_BY).index(one) % 6 :: 6], *ALWAYS.get(one, [])]


def is_weaker(one: Verb, other: Verb, arena: Arena) -> bool:
    """A child that had joined the run that failed belongs to the next one. One whose parent has just failed with others
    may be the one that the next round waits for. A child that is cancelled before it is freed was never due. And a
    child is purged a step later."""
    pair = {one, other}
    is_weaker_always = bool(pair & {fail_and_replay, purge, cancel_child})
    return is_weaker_always or (fail_round in pair and arena.scene.set_up is set_up_with_child)


@pytest.fixture(scope="module")
def serial() -> dict[str, Serial]:
    return {}


@pytest.fixture(params=[set_up, set_up_with_child], ids=lambda scene: scene.__name__)
async def arena(request: pytest.FixtureRequest, store_url: str) -> AsyncIterator[Arena]:
    async with AsyncExitStack() as stack:
        yield Arena(Scene(request.param, NOW), store_url, stack)


@pytest.mark.parametrize("one", MET_BY, ids=lambda verb: verb.__name__)
async def test_a_child_is_added_while_its_parent_ends(
    one: Verb, arena: Arena, tmp_path: Path, serial: dict[str, Serial]
) -> None:
    known = serial.setdefault(arena.scene.set_up.__name__, {})
    for other in others(one, arena):
        if await meet(arena, one, other, known, tmp_path, is_weaker=is_weaker(one, other, arena)) == 1:
            return  # it is one step, whatever comes between


@pytest.mark.parametrize("one", [end, end_round, make_child], ids=lambda verb: verb.__name__)
async def test_a_parent_runs_again_whose_last_child_is_cancelled_while_it_ends(one: Verb, store_url: str) -> None:
    async with AsyncExitStack() as stack:
        arena, was_stopped, stop_at = Arena(Scene(set_up_with_child, NOW), store_url, stack), True, 1
        while was_stopped:
            pair = await arena.fresh_pair()
            stop_at += 1
            _, _, was_stopped = await interleave(
                pair, partial(result_of, one), partial(result_of, cancel_child), stop_at
            )
            children = (await pair.other.list_children(TENANT, job_id(PARENT), now_ms=NOW)).records
            waits_for = [each for each in children if each.state is not JobState.ARCHIVED]
            parent = await pair.other.get_job(TENANT, job_id(PARENT), now_ms=NOW)
            assert parent is not None
            assert (parent.state is JobState.PAUSED) == bool(waits_for), f"before step {stop_at}"
