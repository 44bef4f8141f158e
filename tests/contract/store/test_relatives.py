"""Parents and children: who waits for whom, who wakes whom."""

import pytest

from store.base import Code, JobChange, JobState, Store
from store.errors import Conflict, InvalidValue, NotFound
from tests.support.jobs import (
    LEASE_MS,
    OWNER,
    T0,
    TENANT,
    archive,
    claim,
    claim_one,
    ids,
    job_id,
    new_job,
    new_jobs,
    retry,
)
from tests.support.relatives import CHILD, end, found, parent_with_children, parent_with_replayed_child
from tests.support.store_audit import check_counters


async def states(store: Store, *numbers: int, now_ms: int = T0) -> list[JobState]:
    found = await store.get_states(TENANT, [job_id(n) for n in numbers], now_ms=now_ms)
    return [found[job_id(n)] for n in numbers]


async def running(store: Store, jobtype: str) -> int:
    counters = {c.jobtype: c for c in await store.get_counters(TENANT, now_ms=T0)}
    return counters[jobtype].running


async def test_children_run_after_their_parent_and_wake_it(store: Store) -> None:
    parent_id = await parent_with_children(store, 2)
    assert await claim(store, jobtype=CHILD) == []
    record = await store.get_job(TENANT, parent_id, now_ms=T0)
    assert record is not None
    assert (record.children, record.pending_children) == (2, 2)
    report = await store.release_jobs(OWNER, [archive(record.job)], now_ms=T0)
    assert (report.applied, report.paused) == (1, (parent_id,))
    assert await states(store, 0, 1, 2) == [JobState.PAUSED, JobState.WAITING, JobState.WAITING]
    assert {c.jobtype: c.ok for c in await store.get_counters(TENANT, now_ms=T0)} == {"acme-thumb": 0, CHILD: 0}
    await end(store, CHILD)
    assert await states(store, 0) == [JobState.PAUSED]
    await end(store, CHILD, Code.FAILED, now_ms=T0 + 5)
    assert await states(store, 0, now_ms=T0 + 5) == [JobState.WAITING]
    parent = await claim_one(store, now_ms=T0 + 5)
    assert (parent.attempts, parent.token, parent.due_ms) == (1, 2, T0 + 5)
    await store.release_jobs(OWNER, [archive(parent)], now_ms=T0 + 6)
    assert await states(store, 0) == [JobState.ARCHIVED]
    counters = {c.jobtype: c for c in await store.get_counters(TENANT, now_ms=T0)}
    assert (counters[CHILD].ok, counters[CHILD].failed, counters["acme-thumb"].ok) == (1, 1, 1)
    assert {c.blocked for c in counters.values()} == {0}


async def test_a_held_child_waits_from_when_its_parent_lets_it_in(store: Store) -> None:
    """Neither its age nor its retry window counts the run of the parent."""
    hour_ms = 3_600_000
    parent = await parent_with_children(store, 1)
    later = new_job(2, jobtype=CHILD, parent=parent, dt_ms=T0 + 2 * hour_ms)
    await store.create_job(later, now_ms=T0)
    await store.release_jobs(OWNER, [archive((await found(store, 0)).job)], now_ms=T0 + hour_ms)
    old = await store.expire_jobs(now_ms=T0 + hour_ms, done_before_ms=0, waiting_before_ms=T0 + hour_ms)
    assert old.abandoned == 0
    (child,) = await claim(store, jobtype=CHILD, now_ms=T0 + hour_ms)
    assert (child.id, child.window_ms, child.scheduled_ms) == (job_id(1), T0 + hour_ms, T0)
    (child,) = await claim(store, jobtype=CHILD, now_ms=T0 + 2 * hour_ms)
    assert (child.window_ms, child.scheduled_ms) == (T0 + 2 * hour_ms, T0 + 2 * hour_ms)
    await check_counters(store, TENANT, T0 + 2 * hour_ms)


async def test_a_unique_name_does_not_move_between_parents(store: Store) -> None:
    await store.add_jobs(new_jobs(2), now_ms=T0)
    first, second = await claim(store)
    await store.create_job(new_job(5, jobtype=CHILD, unique="u", parent=first.id), now_ms=T0)
    for parent in (second.id, ""):
        with pytest.raises(Conflict, match=f"a child of job {first.id}"):
            await store.create_job(new_job(6, jobtype=CHILD, unique="u", parent=parent, data=b"other"), now_ms=T0)
    report = await store.create_job(new_job(7, jobtype=CHILD, unique="u", parent=first.id, data=b"new"), now_ms=T0)
    assert (report.id, report.created) == (job_id(5), False)
    record = await store.get_job(TENANT, second.id, now_ms=T0)
    assert record is not None
    assert record.children == 0


async def test_a_child_does_not_repeat(store: Store) -> None:
    """Its parent would wait for it for ever."""
    parent_id = await parent_with_children(store, 1)
    with pytest.raises(InvalidValue, match="cannot repeat"):
        await store.create_job(new_job(5, jobtype=CHILD, parent=parent_id, repeat="FINISHED, +1 HOUR"), now_ms=T0)


async def test_a_parent_that_failed_takes_its_held_children_along(store: Store) -> None:
    parent_id = await parent_with_children(store, 2)
    record = await store.get_job(TENANT, parent_id, now_ms=T0)
    assert record is not None
    await store.release_jobs(OWNER, [archive(record.job, Code.FAILED)], now_ms=T0)
    assert await states(store, 0, 1, 2) == [JobState.ARCHIVED] * 3
    counters = {c.jobtype: c for c in await store.get_counters(TENANT, now_ms=T0)}
    assert (counters[CHILD].cancelled, counters[CHILD].blocked) == (2, 0)
    child = await store.get_job(TENANT, job_id(1), now_ms=T0)
    assert child is not None
    assert child.outcome is not None
    assert (child.outcome.code, child.outcome.exitcode) == (Code.CANCELLED, 499)


async def test_cancelling_the_last_child_wakes_the_parent(store: Store) -> None:
    parent_id = await parent_with_children(store, 1)
    record = await store.get_job(TENANT, parent_id, now_ms=T0)
    assert record is not None
    await store.release_jobs(OWNER, [archive(record.job)], now_ms=T0)
    await store.cancel_job(TENANT, job_id(1), now_ms=T0 + 1)
    assert await states(store, 0, 1, now_ms=T0 + 1) == [JobState.WAITING, JobState.ARCHIVED]


async def test_a_parent_whose_children_are_gone_before_it_ends_is_archived(store: Store) -> None:
    parent_id = await parent_with_children(store, 1)
    await store.cancel_job(TENANT, job_id(1), now_ms=T0)
    record = await store.get_job(TENANT, parent_id, now_ms=T0)
    assert record is not None
    assert (record.children, record.pending_children) == (1, 0)
    report = await store.release_jobs(OWNER, [archive(record.job)], now_ms=T0)
    assert report.paused == ()
    assert await states(store, 0) == [JobState.ARCHIVED]


async def test_children_stay_held_while_their_parent_is_retried(store: Store) -> None:
    parent_id = await parent_with_children(store, 1)
    record = await store.get_job(TENANT, parent_id, now_ms=T0)
    assert record is not None
    await store.release_jobs(OWNER, [retry(record.job, T0)], now_ms=T0)
    assert await states(store, 0, 1) == [JobState.WAITING, JobState.PAUSED]
    await claim_one(store)
    await store.expire_locks(now_ms=T0 + LEASE_MS)
    assert await states(store, 0, 1, now_ms=T0 + LEASE_MS) == [JobState.WAITING, JobState.PAUSED]


async def test_a_child_can_add_siblings_for_its_paused_parent(store: Store) -> None:
    parent_id = await parent_with_children(store, 1)
    record = await store.get_job(TENANT, parent_id, now_ms=T0)
    assert record is not None
    await store.release_jobs(OWNER, [archive(record.job)], now_ms=T0)
    sibling = new_job(2, jobtype=CHILD, parent=parent_id)
    assert (await store.create_job(sibling, now_ms=T0)).state == JobState.WAITING
    await end(store, CHILD)
    assert await states(store, 0) == [JobState.PAUSED]
    await end(store, CHILD)
    assert await states(store, 0) == [JobState.WAITING]


async def test_a_held_child_is_not_woken_by_its_own_child(store: Store) -> None:
    await parent_with_children(store, 1)
    grandchild = new_job(2, jobtype="acme-grand", parent=job_id(1))
    assert (await store.create_job(grandchild, now_ms=T0)).state == JobState.WAITING
    await end(store, "acme-grand")
    assert await states(store, 0, 1, 2) == [JobState.RUNNING, JobState.PAUSED, JobState.ARCHIVED]


async def test_a_replayed_child_does_not_count_twice(store: Store) -> None:
    parent_id = await parent_with_children(store, 2)
    record = await store.get_job(TENANT, parent_id, now_ms=T0)
    assert record is not None
    await store.release_jobs(OWNER, [archive(record.job)], now_ms=T0)
    first = await end(store, CHILD)
    assert await store.replay_jobs(TENANT, [first], dt_ms=T0 - 10, now_ms=T0) == (first,)
    assert await end(store, CHILD) == first
    assert await states(store, 0) == [JobState.PAUSED]
    await end(store, CHILD)
    assert await states(store, 0) == [JobState.WAITING]


async def paused_with_a_failed_child(store: Store) -> tuple[str, str]:
    """A parent that waits for its second child, and the first one, which has failed."""
    parent_id = await parent_with_children(store, 2)
    await store.release_jobs(OWNER, [archive((await found(store, 0)).job)], now_ms=T0)
    return parent_id, await end(store, CHILD, Code.FAILED)


async def start_again(store: Store, how: str, child_id: str, dt_ms: int) -> None:
    if how == "replay":
        assert await store.replay_jobs(TENANT, [child_id], dt_ms=dt_ms, now_ms=T0) == (child_id,)
    else:
        await store.move_job(TENANT, child_id, "acme-other", dt_ms=dt_ms, now_ms=T0)


@pytest.mark.parametrize("how", ["replay", "move"])
async def test_a_parent_waits_for_a_child_that_runs_again(store: Store, how: str) -> None:
    _, first = await paused_with_a_failed_child(store)
    await start_again(store, how, first, T0 + 10)
    assert (await found(store, 0)).pending_children == 2
    await end(store, CHILD)
    assert await states(store, 0) == [JobState.PAUSED]
    assert await end(store, CHILD if how == "replay" else "acme-other", now_ms=T0 + 10) == first
    assert await states(store, 0, now_ms=T0 + 10) == [JobState.WAITING]
    assert (await found(store, 0)).pending_children == 0
    await check_counters(store, TENANT, T0 + 10)


@pytest.mark.parametrize("how", ["replay", "move"])
async def test_a_child_that_is_to_run_again_is_cancelled_with_its_parent(store: Store, how: str) -> None:
    parent_id, first = await paused_with_a_failed_child(store)
    await start_again(store, how, first, T0 + 10)
    await store.cancel_job(TENANT, parent_id, now_ms=T0)
    assert await states(store, 0, 1, 2) == [JobState.ARCHIVED] * 3
    await check_counters(store, TENANT, T0)


async def test_a_child_runs_again_without_a_parent_that_is_over(store: Store) -> None:
    parent_id, first = await paused_with_a_failed_child(store)
    await store.cancel_job(TENANT, parent_id, now_ms=T0)
    await start_again(store, "replay", first, T0)
    assert (await found(store, 0)).pending_children == 0
    assert await end(store, CHILD) == first
    assert await states(store, 0) == [JobState.ARCHIVED]


async def test_who_cannot_be_a_parent(store: Store) -> None:
    await store.add_jobs(new_jobs(2), now_ms=T0)
    with pytest.raises(NotFound):
        await store.create_job(new_job(9, parent="nobody"), now_ms=T0)
    with pytest.raises(Conflict):
        await store.create_job(new_job(9, parent=job_id(0)), now_ms=T0)
    job = await claim_one(store)
    with pytest.raises(NotFound):
        await store.create_job(new_job(9, jobtype="other-child", parent=job.id), now_ms=T0)
    await store.release_jobs(OWNER, [archive(job)], now_ms=T0)
    with pytest.raises(Conflict):
        await store.create_job(new_job(9, parent=job.id), now_ms=T0)
    assert await store.get_job(TENANT, job_id(9), now_ms=T0) is None


async def test_children_are_listed_in_order_in_pages(store: Store) -> None:
    parent_id = await parent_with_children(store, 5)
    first = await store.list_children(TENANT, parent_id, now_ms=T0, limit=3)
    assert first.cursor is not None
    rest = await store.list_children(TENANT, parent_id, now_ms=T0, limit=3, cursor=first.cursor)
    assert ids([r.job for r in (*first.records, *rest.records)]) == [job_id(n) for n in range(1, 6)]
    assert rest.cursor is None
    assert {r.job.parent for r in first.records} == {parent_id}
    assert (await store.list_children("other", parent_id, now_ms=T0)).records == ()


async def test_who_cancels_a_parent_that_waits_for_children_cancels_those_that_do_not_run(store: Store) -> None:
    parent = await parent_with_children(store, 3)
    await store.update_job(TENANT, job_id(3), JobChange(dt_ms=T0 + 5), now_ms=T0)
    await store.release_jobs(OWNER, [archive((await found(store, 0)).job)], now_ms=T0)
    running = await claim_one(store, jobtype=CHILD)
    assert running.id == job_id(1)
    await store.cancel_job(TENANT, parent, now_ms=T0)
    assert await states(store, 0, 1, 2, 3) == [
        JobState.ARCHIVED,
        JobState.RUNNING,
        JobState.ARCHIVED,
        JobState.ARCHIVED,
    ]
    await check_counters(store, TENANT, T0)
    await store.release_jobs(OWNER, [archive(running)], now_ms=T0)
    codes = [record.outcome.code for n in range(4) if (record := await found(store, n)).outcome]
    assert codes == [Code.CANCELLED, Code.OK, Code.CANCELLED, Code.CANCELLED]


async def test_a_cancelled_parent_takes_children_with_it_that_wait_for_their_own(store: Store) -> None:
    parent = await parent_with_children(store, 1)
    await store.release_jobs(OWNER, [archive((await found(store, 0)).job)], now_ms=T0)
    child = await claim_one(store, jobtype=CHILD)
    await store.create_job(new_job(2, jobtype="acme-grandchild", parent=child.id), now_ms=T0)
    await store.release_jobs(OWNER, [archive(child)], now_ms=T0)
    assert await states(store, 0, 1, 2) == [JobState.PAUSED, JobState.PAUSED, JobState.WAITING]
    await store.cancel_job(TENANT, parent, now_ms=T0)
    assert await states(store, 0, 1, 2) == [JobState.ARCHIVED] * 3
    await check_counters(store, TENANT, T0)


@pytest.mark.parametrize("next_ms", [T0, T0 + 1000])
async def test_the_next_round_of_a_job_waits_for_children_that_were_replayed(store: Store, next_ms: int) -> None:
    await parent_with_replayed_child(store, next_ms)
    await store.expire_locks(now_ms=T0)
    assert await states(store, 0, 1) == [JobState.PAUSED, JobState.WAITING]
    await end(store, CHILD)
    await check_counters(store, TENANT, T0)
    assert (await claim_one(store, now_ms=next_ms)).due_ms == next_ms


async def test_a_job_that_is_cancelled_before_its_next_round_forgets_when_that_was_planned(store: Store) -> None:
    parent_id = await parent_with_replayed_child(store, T0 + 1000)
    await store.cancel_job(TENANT, parent_id, now_ms=T0)
    assert await store.replay_jobs(TENANT, [parent_id], dt_ms=T0, now_ms=T0) == (parent_id,)
    parent = await claim_one(store)
    await store.create_job(new_job(2, jobtype=CHILD, parent=parent_id), now_ms=T0)
    await store.release_jobs(OWNER, [archive(parent)], now_ms=T0)
    await end(store, CHILD)
    assert (await claim_one(store)).id == parent_id
    await check_counters(store, TENANT, T0)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_a_child_that_is_replayed_with_its_parent_runs_on_its_own(store: Store, order: tuple[int, int]) -> None:
    """Its parent was over at the call."""
    await parent_with_children(store, 1)
    await store.release_jobs(OWNER, [archive((await found(store, 0)).job)], now_ms=T0)
    await end(store, CHILD, Code.FAILED)
    parent = await claim_one(store)
    await store.release_jobs(OWNER, [archive(parent, Code.FAILED)], now_ms=T0)
    both = tuple(job_id(number) for number in order)
    assert await store.replay_jobs(TENANT, both, dt_ms=T0, now_ms=T0) == both
    assert (await found(store, 0)).pending_children == 0
    await end(store, parent.jobtype)
    assert await states(store, 0, 1) == [JobState.ARCHIVED, JobState.WAITING]
    await check_counters(store, TENANT, T0)
