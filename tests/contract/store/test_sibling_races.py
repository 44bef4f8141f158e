"""Races of children by construction (tests/support/races.py): the last child of a parent that waits ends while others
are added, or while the parent is cancelled, and the other way round."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from store.base import Archive, Code, Retry, Store
from tests.support.jobs import LEASE_MS, OWNER, T0, TENANT, archive, claim, claim_one, job_id, making, new_job, outcome
from tests.support.races import ALL_PAIRS, Arena, Scene, Serial, Verb, meet

pytestmark = pytest.mark.slow

NOW = T0 + LEASE_MS + 1
"""The lease of the child has lapsed, and nobody has noticed yet."""
PARENT, CHILD, SIBLING, NAMED, NAMED_TOO, MADE, GRANDCHILD = range(7)
TOKEN = 1
CHILDREN = "acme-child"
NAME = "the only one"


async def set_up(store: Store) -> None:
    """A parent that waits for its child, which runs."""
    await store.add_jobs([new_job(PARENT)], now_ms=T0)
    parent = await claim_one(store)
    await store.create_job(new_job(CHILD, jobtype=CHILDREN, parent=parent.id), now_ms=T0)
    await store.release_jobs(OWNER, [archive(parent)], now_ms=T0)
    await claim_one(store, jobtype=CHILDREN)


async def add(store: Store, number: int, **more: Any) -> Any:
    sibling = new_job(number, jobtype=CHILDREN, parent=job_id(PARENT), **more)
    return await store.create_job(sibling, now_ms=NOW)


async def add_sibling(store: Store) -> Any:
    return await add(store, SIBLING)


async def add_named(store: Store) -> Any:
    return await add(store, NAMED, unique=NAME)


async def add_named_too(store: Store) -> Any:
    return await add(store, NAMED_TOO, unique=NAME)


async def end_child(store: Store, code: Code = Code.OK) -> Any:
    return await store.release_jobs(OWNER, [Archive(job_id(CHILD), TOKEN, outcome(code))], now_ms=NOW)


async def fail_child(store: Store) -> Any:
    return await end_child(store, Code.FAILED)


async def try_child_again(store: Store) -> Any:
    again = Retry(job_id(CHILD), TOKEN, NOW + 5000, outcome(Code.RETRY))
    return await store.release_jobs(OWNER, [again], now_ms=NOW)


async def cancel_child(store: Store) -> Any:
    return await store.cancel_job(TENANT, job_id(CHILD), now_ms=NOW, running=True)


async def make_sibling(store: Store) -> Any:
    """The run of the child ends with one."""
    ended = Archive(job_id(CHILD), TOKEN, outcome())
    sibling = new_job(MADE, jobtype=CHILDREN, parent=job_id(PARENT))
    return await store.release_with_jobs(OWNER, [making(ended, sibling)], now_ms=NOW)


async def make_grandchild(store: Store) -> Any:
    ended = Archive(job_id(CHILD), TOKEN, outcome())
    grandchild = new_job(GRANDCHILD, jobtype=CHILDREN, parent=job_id(CHILD))
    return await store.release_with_jobs(OWNER, [making(ended, grandchild)], now_ms=NOW)


async def expire(store: Store) -> Any:
    return await store.expire_locks(now_ms=NOW)


async def cancel_parent(store: Store) -> Any:
    return await store.cancel_job(TENANT, job_id(PARENT), now_ms=NOW)


async def end_and_replay_child(store: Store) -> Any:
    await end_child(store)
    return await store.replay_jobs(TENANT, [job_id(CHILD)], dt_ms=NOW, now_ms=NOW)


async def end_child_and_run_parent(store: Store) -> Any:
    await end_child(store)
    return [job.token for job in await claim(store, now_ms=NOW)]


async def end_child_and_parent(store: Store) -> Any:
    await end_child(store)
    return await store.release_jobs(OWNER, [archive(job) for job in await claim(store, now_ms=NOW)], now_ms=NOW)


async def end_child_and_fail_parent(store: Store) -> Any:
    await end_child(store)
    jobs = await claim(store, now_ms=NOW)
    return await store.release_jobs(OWNER, [archive(job, Code.FAILED) for job in jobs], now_ms=NOW)


async def cancel_and_delete_parent(store: Store) -> Any:
    await cancel_parent(store)
    return await store.delete_jobs(TENANT, [job_id(PARENT)], now_ms=NOW)


async def cancel_and_replay_parent(store: Store) -> Any:
    await cancel_parent(store)
    return await store.replay_jobs(TENANT, [job_id(PARENT)], dt_ms=NOW, now_ms=NOW)


VERBS: list[Verb] = [
    end_child, fail_child, try_child_again, cancel_child, make_sibling, make_grandchild, expire, cancel_parent,
    add_sibling, add_named,
]  # fmt: skip
BETWEEN: list[Verb] = [
    *VERBS,
    add_named_too,
    end_and_replay_child,
    end_child_and_run_parent,
    end_child_and_parent,
    end_child_and_fail_parent,
    cancel_and_delete_parent,
    cancel_and_replay_parent,
]
"""Also more than one verb in a row."""
ENDS: set[Verb] = {end_child, fail_child, cancel_child, make_sibling, make_grandchild}
MAKES: set[Verb] = {make_sibling, make_grandchild}
ALWAYS: dict[Verb, list[Verb]] = {add_sibling: [cancel_parent], add_named: [cancel_and_delete_parent]}
"""Pairs that are met also when not all are."""


def is_weaker(one: Verb, other: Verb) -> bool:
    """Whoever ends a child that another has just ended may find that its parent has not been woken yet. A run that has
    ended meanwhile may be told that its new jobs are refused instead, and a sibling of a parent that was cancelled is
    left out. A child that joined a run that was cancelled belongs to the next one. And a grandchild that is cancelled
    before it is freed was never due."""
    is_refused = one in MAKES and other in {*ENDS, cancel_parent, cancel_and_delete_parent}
    return is_refused or (one in ENDS and other not in VERBS) or other is cancel_and_replay_parent


def others(one: Verb, arena: Arena) -> list[Verb]:
    """All, or one in six."""
    if ALL_PAIRS or arena.is_quick:
        return BETWEEN
    return [*BETWEEN[VERBS.index(one) % 6 :: 6], *ALWAYS.get(one, [])]


@pytest.fixture(scope="module")
def serial() -> Serial:
    return {}


@pytest.fixture
async def arena(store_url: str) -> AsyncIterator[Arena]:
    async with AsyncExitStack() as stack:
        yield Arena(Scene(set_up, NOW), store_url, stack)


@pytest.mark.parametrize("one", VERBS, ids=lambda verb: verb.__name__)
async def test_the_last_child_ends_while_its_family_changes(
    one: Verb, arena: Arena, tmp_path: Path, serial: Serial
) -> None:
    for other in others(one, arena):
        await meet(arena, one, other, serial, tmp_path, is_weaker=is_weaker(one, other))
