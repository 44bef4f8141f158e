"""Families that are larger than a step: other tenants are not held up by them, and no child is forgotten."""

import pytest

from store.base import Code, JobState, Rearm, Store, Unclaim
from store.errors import Conflict
from store.url import open_store
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, claim_one, job_id, new_job, outcome
from tests.support.store_audit import check_counters

CHILD = "acme-child"
STEP = 3
MANY = 8


class Died(Exception):
    pass


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.sqlite.queue.families.MAX_CHILDREN", STEP)
    monkeypatch.setattr("store.mongo.queue.relatives.MAX_CHILDREN", STEP)
    monkeypatch.setattr("store.mongo.queue.relatives._CHUNK", STEP)


async def make_family(store: Store) -> None:
    """Job 0 runs, and has children 1..MANY, which are held."""
    await store.add_jobs([new_job(0)], now_ms=T0)
    await claim_one(store)
    await add_children(store, 0, range(1, MANY + 1))


async def add_children(store: Store, parent: int, numbers: range, jobtype: str = CHILD) -> None:
    for number in numbers:
        await store.create_job(new_job(number, jobtype=jobtype, parent=job_id(parent)), now_ms=T0)


async def end(store: Store, number: int, code: Code = Code.OK) -> None:
    record = await store.get_job(TENANT, job_id(number), now_ms=T0)
    assert record is not None
    await store.release_jobs(OWNER, [archive(record.job, code)], now_ms=T0)


async def count(store: Store, state: JobState, numbers: range = range(1, MANY + 1)) -> int:
    """How many of these are in that state."""
    states = await store.get_states(TENANT, [job_id(number) for number in numbers], now_ms=T0)
    return list(states.values()).count(state)


async def cancel_and_die(store: Store, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object, **__: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr("store.sqlite.queue.families.carry_on", die)
        patched.setattr("store.mongo.queue.relatives.follow", die)
        with pytest.raises(Died):
            await store.cancel_job(TENANT, job_id(number), now_ms=T0)


async def test_who_cancels_a_parent_has_cancelled_them_all(store: Store) -> None:
    """Also theirs, which are more than a step themselves."""
    await make_family(store)
    await end(store, 0)
    await store.expire_locks(now_ms=T0)
    running, child = await claim(store, jobtype=CHILD, limit=2)
    assert (running.id, child.id) == (job_id(1), job_id(2))
    grandchildren = range(20, 20 + MANY)
    await add_children(store, 2, grandchildren, "acme-grandchild")
    await end(store, 2)
    await store.expire_locks(now_ms=T0)
    assert await count(store, JobState.WAITING, grandchildren) == MANY
    await store.cancel_job(TENANT, job_id(0), now_ms=T0)
    assert await count(store, JobState.ARCHIVED) == MANY - 1
    assert await count(store, JobState.ARCHIVED, grandchildren) == MANY
    await check_counters(store, TENANT, T0)
    await end(store, 1)
    record = await store.get_job(TENANT, job_id(0), now_ms=T0)
    assert record is not None
    assert (record.state, record.pending_children) == (JobState.ARCHIVED, 0)


async def test_a_cancel_that_was_interrupted_is_carried_on(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_family(store)
    await end(store, 0)
    await store.expire_locks(now_ms=T0)
    await cancel_and_die(store, 0, monkeypatch)
    assert await count(store, JobState.WAITING) >= MANY - STEP
    await check_counters(store, TENANT, T0)
    async with open_store(store_url) as another:
        await another.expire_locks(now_ms=T0)
        assert await count(another, JobState.ARCHIVED) == MANY
        await check_counters(another, TENANT, T0)


async def test_a_parent_is_not_queued_again_before_its_children_are_cancelled(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cancels them late would reach the children of its next run."""
    await make_family(store)
    await end(store, 0)
    await store.expire_locks(now_ms=T0)
    await cancel_and_die(store, 0, monkeypatch)
    assert await store.replay_jobs(TENANT, [job_id(0)], dt_ms=T0, now_ms=T0) == ()
    with pytest.raises(Conflict, match="children are still being cancelled"):
        await store.move_job(TENANT, job_id(0), "acme-other", dt_ms=T0, now_ms=T0)
    await store.expire_locks(now_ms=T0)
    assert await store.replay_jobs(TENANT, [job_id(0)], dt_ms=T0, now_ms=T0) == (job_id(0),)
    assert await count(store, JobState.ARCHIVED) == MANY


async def test_the_children_of_a_parent_that_ended_well_start_in_steps(store: Store, store_url: str) -> None:
    await make_family(store)
    await end(store, 0)
    started = await count(store, JobState.WAITING)
    assert 0 < started < MANY
    assert await count(store, JobState.PAUSED) == MANY - started
    await check_counters(store, TENANT, T0)
    async with open_store(store_url) as another:
        await another.expire_locks(now_ms=T0)
        await check_counters(another, TENANT, T0)
    for job in await claim(store, jobtype=CHILD, limit=MANY):
        await store.release_jobs(OWNER, [archive(job)], now_ms=T0)
    assert await count(store, JobState.ARCHIVED) == MANY
    parent = await claim_one(store)  # its last child has woken it
    await store.release_jobs(OWNER, [archive(parent)], now_ms=T0)
    await check_counters(store, TENANT, T0)


async def test_who_cancels_a_parent_of_which_some_children_have_not_started(store: Store) -> None:
    await make_family(store)
    await end(store, 0)
    await store.cancel_job(TENANT, job_id(0), now_ms=T0)
    assert await count(store, JobState.ARCHIVED) == MANY
    await store.expire_locks(now_ms=T0)
    assert await claim(store, jobtype=CHILD) == []
    await check_counters(store, TENANT, T0)


async def test_a_step_that_comes_late_does_not_reach_the_children_of_the_next_run(store: Store) -> None:
    await make_family(store)
    await end(store, 0)
    for number in range(1, MANY + 1):
        await store.cancel_job(TENANT, job_id(number), now_ms=T0)
    parent = await claim_one(store)
    await store.create_job(new_job(30, jobtype=CHILD, parent=parent.id), now_ms=T0)
    await store.expire_locks(now_ms=T0)
    assert await count(store, JobState.PAUSED, range(30, 31)) == 1
    await check_counters(store, TENANT, T0)


async def test_the_held_children_of_a_parent_that_failed_never_run(store: Store) -> None:
    await make_family(store)
    await end(store, 0, Code.FAILED)
    assert await count(store, JobState.PAUSED) > 0
    assert await claim(store, jobtype=CHILD) == []
    await check_counters(store, TENANT, T0)
    await store.expire_locks(now_ms=T0)
    assert await count(store, JobState.ARCHIVED) == MANY
    await check_counters(store, TENANT, T0)


@pytest.mark.parametrize("next_ms", [T0, T0 + 1000])
async def test_a_failed_round_is_followed_by_the_next_when_its_children_are_cancelled(
    store: Store, next_ms: int
) -> None:
    await make_family(store)
    record = await store.get_job(TENANT, job_id(0), now_ms=T0)
    assert record is not None
    report = await store.release_jobs(
        OWNER, [Rearm(job_id(0), record.job.token, next_ms, outcome(Code.FAILED))], now_ms=T0
    )
    assert report.paused == ()
    assert await claim(store, now_ms=next_ms) == []
    await check_counters(store, TENANT, T0)
    await store.expire_locks(now_ms=T0)
    assert await count(store, JobState.ARCHIVED) == MANY
    await check_counters(store, TENANT, T0)
    parent = await claim_one(store, now_ms=next_ms)
    assert (parent.due_ms, parent.attempts) == (next_ms, 1)
    assert (await store.release_jobs(OWNER, [archive(parent)], now_ms=next_ms)).paused == ()


async def test_a_store_that_is_moved_has_nothing_left_to_do(store: Store) -> None:
    """Another store has no note of it."""
    await make_family(store)
    await end(store, 0, Code.FAILED)
    await store.begin_export(now_ms=T0)
    assert await count(store, JobState.ARCHIVED) == MANY


async def test_the_cancel_of_a_child_that_has_not_freed_all_of_its_children_yet_reaches_them(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One step finds the child twice: as one that is cancelled, and as a parent whose children may run."""
    await make_family(store)
    await end(store, 0)
    await store.expire_locks(now_ms=T0)
    others = [job for job in await claim(store, jobtype=CHILD, limit=MANY) if job.id != job_id(MANY)]
    await store.release_jobs(OWNER, [Unclaim(job.id, job.token) for job in others], now_ms=T0)
    grandchildren = range(20, 50)
    await add_children(store, MANY, grandchildren, "acme-grandchild")
    await end(store, MANY)
    await cancel_and_die(store, 0, monkeypatch)
    for _ in grandchildren:
        await store.expire_locks(now_ms=T0)
    assert await count(store, JobState.ARCHIVED) == MANY
    assert await count(store, JobState.ARCHIVED, grandchildren) == len(grandchildren)
    await check_counters(store, TENANT, T0)


async def test_a_round_that_is_planned_for_later_comes_then_also_if_somebody_cancels_the_children_that_are_left(
    store: Store,
) -> None:
    await make_family(store)
    record = await store.get_job(TENANT, job_id(0), now_ms=T0)
    assert record is not None
    later_ms = T0 + 86_400_000
    release = Rearm(job_id(0), record.job.token, later_ms, outcome(Code.FAILED))
    await store.release_jobs(OWNER, [release], now_ms=T0)
    for number in range(1, MANY + 1):
        await store.cancel_job(TENANT, job_id(number), now_ms=T0)
    assert await claim(store, now_ms=T0) == []
    await store.expire_locks(now_ms=T0)
    await check_counters(store, TENANT, T0)
    assert (await claim_one(store, now_ms=later_ms)).due_ms == later_ms


async def test_who_cancels_a_parent_once_more_carries_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    await make_family(store)
    await end(store, 0)
    await store.expire_locks(now_ms=T0)
    await cancel_and_die(store, 0, monkeypatch)
    await store.cancel_job(TENANT, job_id(0), now_ms=T0)
    assert await count(store, JobState.ARCHIVED) == MANY
    await check_counters(store, TENANT, T0)


async def test_a_parent_can_be_deleted_while_its_children_are_cancelled(store: Store) -> None:
    await make_family(store)
    await end(store, 0, Code.FAILED)
    assert await store.delete_jobs(TENANT, [job_id(0)], now_ms=T0) == 1
    await store.expire_locks(now_ms=T0)
    assert await count(store, JobState.ARCHIVED) == MANY
    await check_counters(store, TENANT, T0)


async def test_upkeep_comes_back_from_a_large_family_before_it_is_done(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.sqlite.roles.queue._FAMILY_STEPS", 1)
    monkeypatch.setattr("store.mongo.queue.expire._MOST_FOLLOWED", STEP)
    await make_family(store)
    await end(store, 0, Code.FAILED)
    done = [await count(store, JobState.ARCHIVED)]
    while done[-1] < MANY:
        await store.expire_locks(now_ms=T0)
        done.append(await count(store, JobState.ARCHIVED))
        assert 0 < done[-1] - done[-2] <= STEP
    assert len(done) > 2
    await check_counters(store, TENANT, T0)
