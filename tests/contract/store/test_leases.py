"""Leases: renewed by their owner, lapsing by the clock that is passed in, recovered by anyone."""

from collections.abc import Sequence

import pytest

from store.base import Code, JobState, Lease, Retry, Store
from store.errors import InvalidValue
from store.values.jobs import LOST, MOST_ATTEMPTS, NOT_ENDED_IN_TIME, Attempt
from tests.support.jobs import (
    JOBTYPE,
    LEASE_MS,
    OWNER,
    T0,
    TENANT,
    archive,
    claim,
    claim_one,
    ids,
    new_job,
    new_jobs,
    outcome,
    retry,
)

DAY_MS = 86_400_000


async def state_of_job(store: Store, job_id: str, now_ms: int) -> JobState:
    states = await store.get_states(TENANT, [job_id], now_ms=now_ms)
    return states[job_id]


async def test_a_renewed_lease_lasts_longer(store: Store) -> None:
    await store.add_jobs(new_jobs(2), now_ms=T0)
    kept, lost = await claim(store)
    report = await store.renew_locks(OWNER, [Lease(kept.id, kept.token)], lease_ms=LEASE_MS, now_ms=T0 + 20_000)
    assert (report.renewed, report.fixed, report.stale) == (1, (), ())
    later = T0 + LEASE_MS
    assert await state_of_job(store, kept.id, later) == JobState.RUNNING
    assert await state_of_job(store, lost.id, later) == JobState.LAPSED
    assert await store.expire_locks(now_ms=later) == 1
    assert await state_of_job(store, lost.id, later) == JobState.WAITING
    assert await store.expire_locks(now_ms=T0 + 20_000 + LEASE_MS - 1) == 0
    assert await store.expire_locks(now_ms=T0 + 20_000 + LEASE_MS) == 1


async def test_the_owner_can_see_which_deliveries_it_has_and_until_when(store: Store) -> None:
    await store.add_jobs(new_jobs(5), now_ms=T0)
    kept, renewed, over, other_token = await claim(store, limit=4)
    (of_another,) = await claim(store, owner="b2")
    await store.renew_locks(OWNER, [Lease(renewed.id, renewed.token)], lease_ms=LEASE_MS, now_ms=T0 + 7)
    await store.release_jobs(OWNER, [archive(over)], now_ms=T0)
    asked = [Lease(job.id, job.token) for job in (kept, renewed, over, of_another)]
    asked += [Lease(other_token.id, other_token.token + 1), Lease("gone", 1)]
    kept_ms, renewed_ms = T0 + LEASE_MS, T0 + 7 + LEASE_MS
    assert await store.get_leases(OWNER, asked) == {asked[0]: kept_ms, asked[1]: renewed_ms}
    assert await store.get_leases(OWNER, []) == {}
    await store.expire_locks(now_ms=kept_ms)
    assert await store.get_leases(OWNER, asked) == {asked[1]: renewed_ms}


async def history(store: Store, job_id: str) -> Sequence[Attempt]:
    record = await store.get_job(TENANT, job_id, now_ms=T0)
    assert record is not None
    return record.history


async def test_a_run_that_was_lost_is_in_the_history(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    lost = await claim_one(store, owner="a1")
    await store.expire_locks(now_ms=T0 + LEASE_MS)
    run = Attempt(
        1,
        T0,
        1000 * LEASE_MS,
        Code.ERROR,
        503,
        "the run was lost: its lease lapsed before its end was reported",
        0,
        "a1",
    )
    assert await history(store, lost.id) == (run,)
    failed = await claim_one(store)
    await store.release_jobs(OWNER, [retry(failed, T0, message="boom")], now_ms=T0)
    assert [(run.number, run.message) for run in await history(store, lost.id)] == [(1, LOST.message), (2, "boom")]


async def test_a_run_with_a_fixed_lease_is_not_said_to_be_lost(store: Store) -> None:
    await store.add_jobs([new_job(1, retry_after_ms=5000)], now_ms=T0)
    job = await claim_one(store)
    await store.expire_locks(now_ms=T0 + 5000)
    assert [run.message for run in await history(store, job.id)] == [NOT_ENDED_IN_TIME]


async def test_the_last_runs_that_were_lost_are_kept(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    runs: Sequence[Attempt] = ()
    for _ in range(MOST_ATTEMPTS + 2):
        job = await claim_one(store)
        await store.expire_locks(now_ms=T0 + LEASE_MS)
        runs = await history(store, job.id)
    assert [run.number for run in runs] == list(range(3, MOST_ATTEMPTS + 3))


@pytest.mark.parametrize("start", [0, 3_600_000])
async def test_a_run_before_its_time_that_was_lost_is_in_the_history(store: Store, start: int) -> None:
    job = new_job(1, dt_ms=T0 + start)
    await store.add_running_jobs(OWNER, [job], lease_ms=LEASE_MS, now_ms=T0)
    assert await store.expire_locks(now_ms=T0 + LEASE_MS, owner=OWNER) == 1
    record = await store.get_job(TENANT, job.id, now_ms=T0 + LEASE_MS)
    assert record is not None
    assert record.state is (JobState.DEFERRED if start else JobState.WAITING)
    assert [(run.number, run.started_ms, run.daemon) for run in record.history] == [(1, T0, OWNER)]


async def test_all_lapsed_leases_are_recovered_in_steps(store: Store) -> None:
    await store.add_jobs(new_jobs(25), now_ms=T0)
    claimed = await claim(store)
    later = T0 + LEASE_MS
    steps = [await store.expire_locks(now_ms=later, limit=10) for _ in range(4)]
    assert steps == [10, 10, 5, 0]
    again = await claim(store, now_ms=later, owner="b2")
    assert ids(again) == ids(claimed)
    assert {(job.token, job.attempts, job.due_ms) for job in again} == {(2, 2, T0)}


async def test_the_leases_of_an_owner_that_is_gone_end_at_once(store: Store) -> None:
    await store.add_jobs(new_jobs(3), now_ms=T0)
    mine = await claim(store, limit=2)
    (other,) = await claim(store, owner="b2")
    assert [await store.expire_locks(now_ms=T0, owner=OWNER, limit=1) for _ in range(3)] == [1, 1, 0]
    assert await state_of_job(store, other.id, T0) == JobState.RUNNING
    again = await claim(store, owner="b2")
    assert ids(again) == ids(mine)
    assert {(job.token, job.attempts, job.due_ms) for job in again} == {(2, 2, T0)}


async def test_whoever_lost_a_lease_changes_nothing_and_is_told(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    old = await claim_one(store)
    later = T0 + LEASE_MS
    await store.expire_locks(now_ms=later)
    lease = Lease(old.id, old.token)
    assert (await store.renew_locks(OWNER, [lease], lease_ms=1, now_ms=later)).stale == (old.id,)
    report = await store.release_jobs(OWNER, [archive(old, result=b"late")], now_ms=later)
    assert (report.applied, report.stale) == (0, (old.id,))
    new = await claim_one(store, now_ms=later, owner=OWNER)  # the same owner, another delivery
    before = await store.get_job(TENANT, old.id, now_ms=later)
    for late in (archive(old), Retry(old.id, old.token, T0, outcome(code=outcome().code.RETRY))):
        assert (await store.release_jobs(OWNER, [late], now_ms=later)).stale == (old.id,)
    assert (await store.release_jobs("zz", [archive(new)], now_ms=later)).stale == (old.id,)
    assert await store.get_job(TENANT, old.id, now_ms=later) == before
    assert (await store.release_jobs(OWNER, [archive(new)], now_ms=later)).applied == 1


async def test_a_lapsed_lease_that_nobody_took_is_still_its_owners(store: Store) -> None:
    await store.add_jobs(new_jobs(2), now_ms=T0)
    one, two = await claim(store)
    later = T0 + 10 * LEASE_MS
    assert (await store.renew_locks(OWNER, [Lease(one.id, 1)], lease_ms=LEASE_MS, now_ms=later)).renewed == 1
    assert (await store.release_jobs(OWNER, [archive(two)], now_ms=later)).applied == 1
    assert await store.expire_locks(now_ms=later) == 0


async def test_a_fixed_visibility_timeout_is_not_renewed(store: Store) -> None:
    await store.add_jobs([new_job(1, retry_after_ms=5_000), new_job(2)], now_ms=T0)
    fixed, plain = await claim(store)
    assert (fixed.dt_ms, plain.dt_ms) == (T0 + 5_000, T0 + LEASE_MS)
    leases = [Lease(fixed.id, fixed.token), Lease(plain.id, plain.token), Lease("unknown", 1)]
    report = await store.renew_locks(OWNER, leases, lease_ms=LEASE_MS, now_ms=T0 + 1_000)
    assert (report.renewed, report.fixed, report.stale) == (1, (fixed.id,), ("unknown",))
    assert await store.expire_locks(now_ms=T0 + 5_000) == 1


async def test_only_one_of_two_late_reports_counts(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    job = await claim_one(store)
    report = await store.release_jobs(OWNER, [archive(job)], now_ms=T0)
    again = await store.release_jobs(OWNER, [archive(job)], now_ms=T0)
    assert ((report.applied, report.stale), (again.applied, again.stale)) == ((1, ()), (0, (job.id,)))
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    assert counters.ok == 1


async def test_malformed_renewals_are_refused(store: Store) -> None:
    with pytest.raises(InvalidValue):
        await store.renew_locks(OWNER, [], lease_ms=0, now_ms=T0)
    with pytest.raises(InvalidValue):
        await store.renew_locks("NOT A SYSID", [], lease_ms=1, now_ms=T0)


async def test_a_lease_that_was_taken_while_the_clock_was_ahead_lasts_as_long_as_it_would_from_now(
    store: Store,
) -> None:
    ahead = T0 + 3_600_000
    await store.add_jobs(new_jobs(1), now_ms=T0)
    held = await claim_one(store, now_ms=ahead)
    assert await cut(store, T0) == 1
    assert await cut(store, T0) == 0, "it is not cut again and again"
    assert await store.expire_locks(now_ms=T0 + LEASE_MS - 1) == 0
    assert await store.expire_locks(now_ms=T0 + LEASE_MS) == 1
    assert ids(await claim(store, now_ms=T0 + LEASE_MS, owner="b2")) == [held.id]


@pytest.mark.parametrize("claimed_ms", [T0, T0 + 29 * DAY_MS])
async def test_a_lease_that_was_renewed_while_the_clock_was_ahead_ends_within_the_longest(
    store: Store, claimed_ms: int
) -> None:
    await store.add_jobs(new_jobs(1), now_ms=T0)
    held = await claim_one(store, now_ms=claimed_ms)
    await store.renew_locks(OWNER, [Lease(held.id, held.token)], lease_ms=LEASE_MS, now_ms=T0 + 30 * DAY_MS)
    assert await cut(store, T0) == 1
    assert await cut(store, T0) == 0
    assert await store.expire_locks(now_ms=T0 + DAY_MS - 1) == 0
    assert await store.expire_locks(now_ms=T0 + DAY_MS) == 1


async def test_a_long_lease_is_left_alone(store: Store) -> None:
    """Whose clock was right, or some seconds ahead."""
    await store.add_jobs([*new_jobs(2), new_job(2, retry_after_ms=300 * DAY_MS)], now_ms=T0)
    taken = await store.claim_jobs(JOBTYPE, 3, owner=OWNER, lease_ms=DAY_MS, now_ms=T0 + 30_000)
    assert len(taken) == 3
    assert await cut(store, T0) == 0


async def test_a_fixed_lease_of_a_clock_that_was_ahead_keeps_its_length(store: Store) -> None:
    await store.add_jobs([new_job(1, retry_after_ms=300 * DAY_MS)], now_ms=T0)
    await claim_one(store, now_ms=T0 + 30 * DAY_MS)
    assert await cut(store, T0) == 1
    assert await store.expire_locks(now_ms=T0 + 300 * DAY_MS - 1) == 0
    assert await store.expire_locks(now_ms=T0 + 300 * DAY_MS) == 1


async def test_leases_are_cut_in_steps(store: Store) -> None:
    await store.add_jobs(new_jobs(3), now_ms=T0)
    await claim(store, 3, now_ms=T0 + DAY_MS)
    assert [await cut(store, T0, limit=2) for _ in range(3)] == [2, 1, 0]


async def cut(store: Store, now_ms: int, limit: int = 1000) -> int:
    return await store.cut_leases(now_ms=now_ms, longest_ms=DAY_MS, limit=limit)
