"""The jobs of a request are added once, with the key that says so."""

import asyncio

import pytest

from store.base import Binding, Store
from store.errors import InvalidValue
from store.values.scoreboard import DAY_MS
from tests.support.jobs import T0, TENANT, claim, job_id, new_job, new_jobs

MINE = Binding(TENANT, "key", b"mine", "added", T0 + DAY_MS, ("more", b"what else"))


async def standing(store: Store, *keys: str, tenant: str = TENANT, now_ms: int = T0) -> list[bytes | None]:
    return [await store.get_once(tenant, key, now_ms=now_ms) for key in keys]


async def ids_of(store: Store, count: int) -> list[str]:
    """Of the first jobs, those that are in the store."""
    return sorted(await store.get_states(TENANT, [job_id(number) for number in range(count)], now_ms=T0))


async def test_jobs_come_with_their_key_and_the_note_that_they_are_there(store: Store) -> None:
    assert await store.add_jobs_once(MINE, new_jobs(2), now_ms=T0) == b"mine"
    assert await standing(store, "key", "more", "added") == [b"mine", b"what else", b""]
    assert [job.id for job in await claim(store, 5)] == [job_id(0), job_id(1)]


async def test_a_key_that_is_bound_adds_nothing(store: Store) -> None:
    await store.add_jobs_once(MINE, [new_job(0)], now_ms=T0)
    other = MINE._replace(value=b"another", done="added too", more=None)
    assert await store.add_jobs_once(other, [new_job(1)], now_ms=T0) == b"mine"
    assert await ids_of(store, 2) == [job_id(0)]
    assert await standing(store, "key", "added too") == [b"mine", None]


async def test_also_one_that_was_bound_without_jobs(store: Store) -> None:
    await store.put_once(TENANT, "key", b"before", expires_ms=T0 + 9, now_ms=T0)
    assert await store.add_jobs_once(MINE, [new_job(0)], now_ms=T0) == b"before"
    assert await ids_of(store, 1) == []
    assert await store.add_jobs_once(MINE, [new_job(0)], now_ms=T0 + 9) == b"mine", "its time is over"
    assert await ids_of(store, 1) == [job_id(0)]


async def test_of_many_at_once_one_adds_its_jobs(store: Store) -> None:
    async def add(number: int) -> bytes:
        binding = MINE._replace(value=b"%d" % number, done=f"added {number}", more=None)
        return await store.add_jobs_once(binding, [new_job(number)], now_ms=T0)

    answers = await asyncio.gather(*map(add, range(10)))
    (winner,) = {int(answer) for answer in answers}
    assert await ids_of(store, 10) == [job_id(winner)]


async def test_a_key_is_of_its_tenant(store: Store) -> None:
    await store.add_jobs_once(MINE, [new_job(0)], now_ms=T0)
    theirs = MINE._replace(tenant="other", value=b"theirs")
    assert await store.add_jobs_once(theirs, [new_job(1, jobtype="other-thumb")], now_ms=T0) == b"theirs"
    assert await standing(store, "key", tenant="other") == [b"theirs"]


async def test_what_is_refused_leaves_the_key_free(store: Store) -> None:
    with pytest.raises(InvalidValue):
        await store.add_jobs_once(MINE, [new_job(0), new_job(1, unique="name")], now_ms=T0)
    assert await standing(store, "key", "more", "added") == [None, None, None]
    for wrong in (
        MINE._replace(tenant="A"),
        MINE._replace(key=""),
        MINE._replace(done=""),
        MINE._replace(value=b"x" * (1024 * 1024 + 1)),
        MINE._replace(more=("", b"")),
    ):
        with pytest.raises(InvalidValue):
            await store.add_jobs_once(wrong, [new_job(0)], now_ms=T0)
    assert await ids_of(store, 2) == []
