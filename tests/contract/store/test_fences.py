"""A delivery belongs to one owner and one token: whoever has another of either changes nothing, whatever he tries.

On a second store object, too: what the first remembers of its own claims must not be what decides.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from store.base import Code, Job, JournalPosition, Lease, Rearm, Release, Store, Unclaim
from store.url import open_store
from tests.support.jobs import LEASE_MS, OWNER, T0, TENANT, archive, claim_one, ids, new_job, new_jobs, outcome, retry
from tests.support.store_audit import check_counters
from tests.support.turns import interleave, open_pair

LATER = T0 + LEASE_MS
PATIENCE_S = 30

RELEASES: dict[str, Callable[[Job], Release]] = {
    "archive": lambda job: archive(job, result=b"late"),
    "archive a big result": lambda job: archive(job, result=b"late" * 100_000),
    "retry": lambda job: retry(job, T0 + 5),
    "rearm": lambda job: Rearm(job.id, job.token, T0 + 5, outcome()),
    "unclaim": lambda job: Unclaim(job.id, job.token),
}


@pytest.fixture
async def other(store_url: str, store: Store) -> AsyncIterator[Store]:
    """Another object on the same database."""
    async with open_store(store_url) as opened:
        yield opened


@pytest.mark.parametrize("kind", RELEASES)
async def test_a_delivery_is_released_by_its_owner_alone(store: Store, other: Store, kind: str) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    job = await claim_one(store)
    before = await store.get_job(TENANT, job.id, now_ms=T0)
    for each in (store, other):
        async with asyncio.timeout(PATIENCE_S):
            report = await each.release_jobs("zz", [RELEASES[kind](job)], now_ms=T0)
        assert (report.applied, report.stale) == (0, (job.id,))
    assert await store.get_job(TENANT, job.id, now_ms=T0) == before
    await check_counters(store, TENANT, T0)


@pytest.mark.parametrize("kind", RELEASES)
async def test_an_old_delivery_is_not_released_by_the_same_owner(store: Store, other: Store, kind: str) -> None:
    """The lease lapsed, and the owner got the job once more: the object that remembers the first is behind."""
    await store.add_jobs([new_job(1)], now_ms=T0)
    old = await claim_one(store)
    await other.expire_locks(now_ms=LATER)
    new = await claim_one(other, now_ms=LATER)
    before = await store.get_job(TENANT, old.id, now_ms=LATER)
    for each in (store, other):
        async with asyncio.timeout(PATIENCE_S):
            report = await each.release_jobs(OWNER, [RELEASES[kind](old)], now_ms=LATER)
        assert (report.applied, report.stale) == (0, (old.id,))
    assert await store.get_job(TENANT, old.id, now_ms=LATER) == before
    assert (await other.release_jobs(OWNER, [RELEASES[kind](new)], now_ms=LATER)).applied == 1
    await check_counters(store, TENANT, LATER)


async def test_a_lease_is_renewed_by_its_owner_with_its_token_alone(store: Store, other: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    old = await claim_one(store)
    await store.expire_locks(now_ms=LATER)
    new = await claim_one(store, now_ms=LATER)
    before = await store.get_job(TENANT, new.id, now_ms=LATER)
    for each in (store, other):
        for owner, lease in (("zz", Lease(new.id, new.token)), (OWNER, Lease(old.id, old.token))):
            report = await each.renew_locks(owner, [lease], lease_ms=10 * LEASE_MS, now_ms=LATER)
            assert (report.renewed, report.stale) == (0, (new.id,))
    assert await store.get_job(TENANT, new.id, now_ms=LATER) == before
    assert await store.expire_locks(now_ms=LATER + LEASE_MS) == 1


async def test_one_stale_release_of_a_batch_leaves_the_others_alone(store: Store, other: Store) -> None:
    await store.add_jobs(new_jobs(6), now_ms=T0)
    jobs = [await claim_one(store) for _ in range(6)]
    await other.release_jobs(OWNER, [archive(jobs[2], Code.FAILED)], now_ms=T0)
    report = await store.release_jobs(OWNER, [archive(job) for job in jobs], now_ms=T0)
    assert (report.applied, report.stale) == (5, (jobs[2].id,))
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    assert (counters.ok, counters.failed) == (5, 1)
    await check_counters(store, TENANT, T0)


async def test_the_journal_position_is_never_ahead_of_the_jobs(store_url: str) -> None:
    """Whoever reads the position at any step of an insertion finds all jobs before it."""
    stop_at, was_stopped = 0, True
    async with open_pair(store_url) as pair:
        while was_stopped:
            stop_at += 1
            add, look = partial(_add_up_to, stop_at), partial(_is_behind, stop_at)
            _, is_right, was_stopped = await interleave(pair, add, look, stop_at)
            assert is_right, f"before step {stop_at}"


async def _add_up_to(number: int, store: Store) -> bool:
    await store.add_jobs(new_jobs(3, 10 * number), now_ms=T0, position=_position(number))
    return True


async def _is_behind(number: int, store: Store) -> bool:
    position = await store.get_journal_position("reader")
    states = await store.get_states(TENANT, ids(new_jobs(3, 10 * number)), now_ms=T0)
    return position != _position(number) or len(states) == 3


def _position(number: int) -> JournalPosition:
    return JournalPosition("reader", str(number), 4096, 0)
