"""The end of a run that made new jobs: both are recorded, or neither."""

import pytest

from store.base import Code, ConsumerRecord, Creation, EndOfRun, Finish, Job, JobState, NewJob, Rearm, Store
from store.errors import Conflict, InvalidValue, NotFound
from tests.support.jobs import (
    JOBTYPE,
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
    outcome,
    retry,
)

CHILD = "acme-child"


async def running(store: Store, number: int = 0) -> Job:
    await store.add_jobs([new_job(number)], now_ms=T0)
    return await claim_one(store)


async def end(store: Store, release: EndOfRun, *new: NewJob, owner: str = OWNER, now_ms: int = T0) -> tuple[str, ...]:
    """Returns what was stale."""
    report = await store.release_with_jobs(owner, release, [Creation(job) for job in new], now_ms=now_ms)
    return report.stale


async def states(store: Store, *numbers: int) -> list[JobState | None]:
    found = await store.get_states(TENANT, [job_id(n) for n in numbers], now_ms=T0)
    return [found.get(job_id(n)) for n in numbers]


async def test_a_parent_that_made_children_waits_for_them_and_is_told_how_many(store: Store) -> None:
    parent = await running(store)
    children = new_jobs(2, 1, jobtype=CHILD, parent=parent.id)
    report = await store.release_with_jobs(OWNER, archive(parent), [Creation(child) for child in children], now_ms=T0)
    assert (report.applied, report.stale, report.paused) == (1, (), (parent.id,))
    assert await states(store, 0, 1, 2) == [JobState.PAUSED, JobState.WAITING, JobState.WAITING]
    first, second = await claim(store, jobtype=CHILD)
    assert first.parent == parent.id
    await store.release_jobs(OWNER, [archive(first), archive(second, Code.FAILED)], now_ms=T0)
    again = await claim_one(store)
    assert (again.id, again.children, again.attempts) == (parent.id, 2, 1)
    counters = {row.jobtype: row for row in await store.get_counters(TENANT, now_ms=T0)}
    assert (counters[CHILD].ok, counters[CHILD].failed, counters[CHILD].blocked, counters[JOBTYPE].blocked) == (
        1,
        1,
        0,
        0,
    )


async def test_children_of_a_run_that_did_not_end_well_are_cancelled(store: Store) -> None:
    parent = await running(store)
    await end(store, archive(parent, Code.FAILED), new_job(1, jobtype=CHILD, parent=parent.id))
    assert await states(store, 0, 1) == [JobState.ARCHIVED, JobState.ARCHIVED]
    child = await store.get_job(TENANT, job_id(1), now_ms=T0)
    assert child is not None
    assert child.outcome is not None
    assert child.outcome.code == Code.CANCELLED


async def test_children_of_a_run_that_is_tried_again_are_held(store: Store) -> None:
    parent = await running(store)
    await end(store, retry(parent, T0), new_job(1, jobtype=CHILD, parent=parent.id))
    assert await states(store, 0, 1) == [JobState.WAITING, JobState.PAUSED]
    again = await claim_one(store)
    assert again.children == 1
    await end(store, archive(again), new_job(2, jobtype=CHILD, parent=parent.id))
    assert await states(store, 0, 1, 2) == [JobState.PAUSED, JobState.WAITING, JobState.WAITING]


async def test_a_round_that_made_children_waits_for_them_and_goes_on(store: Store) -> None:
    parent = await running(store)
    release = Rearm(parent.id, parent.token, T0 + 50, outcome(), b"next")
    await end(store, release, new_job(1, jobtype=CHILD, parent=parent.id))
    assert await states(store, 0, 1) == [JobState.PAUSED, JobState.WAITING]
    child = await claim_one(store, jobtype=CHILD)
    await store.release_jobs(OWNER, [archive(child)], now_ms=T0)
    again = await claim_one(store)
    assert (again.id, again.data) == (parent.id, b"next")


@pytest.mark.parametrize("size", [10, 300_000])
async def test_a_parent_that_is_paused_carries_data_on_to_its_next_run(store: Store, size: int) -> None:
    parent = await running(store)
    state = b"x" * size
    finish = Finish(parent.id, parent.token, outcome(), state)
    await end(store, finish, new_job(1, jobtype=CHILD, parent=parent.id))
    assert (await store.get_usage(TENANT)).size_bytes == size + len(b"payload 1")
    child = await claim_one(store, jobtype=CHILD)
    await store.release_jobs(OWNER, [archive(child)], now_ms=T0)
    again = await claim_one(store)
    assert again.data == state
    report = await store.release_jobs(OWNER, [Finish(again.id, again.token, outcome(), b"lost")], now_ms=T0)
    assert report.paused == ()
    record = await store.get_job(TENANT, parent.id, now_ms=T0)
    assert record is not None
    assert (record.state, record.job.data) == (JobState.ARCHIVED, state)


async def test_children_that_others_added_count_for_what_is_carried_on(store: Store) -> None:
    parent = await running(store)
    await store.create_job(new_job(1, jobtype=CHILD, parent=parent.id), now_ms=T0)
    report = await store.release_jobs(OWNER, [Finish(parent.id, parent.token, outcome(), b"on")], now_ms=T0)
    assert report.paused == (parent.id,)
    record = await store.get_job(TENANT, parent.id, now_ms=T0)
    assert record is not None
    assert record.job.data == b"on"


async def test_a_child_makes_a_sibling_and_its_parent_waits_for_both(store: Store) -> None:
    parent = await running(store)
    await end(store, archive(parent), new_job(1, jobtype=CHILD, parent=parent.id))
    child = await claim_one(store, jobtype=CHILD)
    await end(store, archive(child), new_job(2, jobtype=CHILD, parent=parent.id))
    assert await states(store, 0, 1, 2) == [JobState.PAUSED, JobState.ARCHIVED, JobState.WAITING]
    sibling = await claim_one(store, jobtype=CHILD)
    await store.release_jobs(OWNER, [archive(sibling)], now_ms=T0)
    assert (await claim_one(store)).children == 2


async def test_what_one_new_job_is_refused_for_changes_nothing(store: Store) -> None:
    await store.create_job(new_job(7, jobtype=CHILD, unique="u"), now_ms=T0)
    await claim_one(store, jobtype=CHILD)
    parent = await running(store)
    fine = new_job(1, jobtype=CHILD, parent=parent.id)
    for wrong, error in (
        (new_job(2, jobtype=CHILD, unique="u"), Conflict),
        (new_job(2, jobtype=CHILD, parent=job_id(99)), NotFound),
        (new_job(2, jobtype=CHILD, priority=7), InvalidValue),
    ):
        with pytest.raises(error):
            await end(store, archive(parent), fine, wrong)
    assert await states(store, 0, 1, 2) == [JobState.RUNNING, None, None]
    assert await end(store, archive(parent), fine) == ()


async def test_an_end_that_is_written_again_makes_nothing_twice(store: Store) -> None:
    parent = await running(store)
    new = [new_job(1, jobtype=CHILD, parent=parent.id), new_job(2, jobtype=CHILD)]
    assert await end(store, archive(parent), *new) == ()
    assert await end(store, archive(parent), *new) == (parent.id,)
    assert await end(store, archive(parent), *new_jobs(2, 3, jobtype=CHILD)) == (parent.id,)
    assert ids(await claim(store, jobtype=CHILD)) == [job_id(1), job_id(2)]
    found = await store.get_job(TENANT, parent.id, now_ms=T0)
    assert found is not None
    assert (found.children, found.pending_children) == (1, 1)


async def test_an_owner_that_lost_the_job_makes_nothing(store: Store) -> None:
    parent = await running(store)
    new = new_job(1, jobtype=CHILD, parent=parent.id)
    assert await end(store, archive(parent), new, owner="b2") == (parent.id,)
    await store.expire_locks(now_ms=T0, owner=OWNER)
    assert await end(store, archive(parent), new) == (parent.id,)
    assert await states(store, 1) == [None]
    assert (await claim_one(store)).children == 0


async def test_a_unique_name_that_waits_is_changed_and_not_made_twice(store: Store) -> None:
    maker = await running(store)
    await store.create_job(new_job(5, jobtype=CHILD, unique="u", priority=1000), now_ms=T0)
    named = new_job(1, jobtype=CHILD, unique="u", data=b"new")
    await store.release_with_jobs(OWNER, archive(maker), [Creation(named, frozenset({"priority"}))], now_ms=T0)
    (job,) = await claim(store, jobtype=CHILD)
    assert (job.id, job.data, job.priority) == (job_id(5), b"new", 1000)


async def test_a_listing_of_children_has_the_beginning_of_their_results(store: Store) -> None:
    parent = await running(store)
    await end(store, archive(parent), *new_jobs(3, 1, jobtype=CHILD, parent=parent.id))
    small, large = await claim(store, 2, jobtype=CHILD)
    big = b"x" * 300_000
    await store.release_jobs(OWNER, [archive(small, result=b"small"), archive(large, result=big)], now_ms=T0)
    page = await store.list_children(TENANT, parent.id, now_ms=T0, max_bytes=10)
    results = [record.outcome and record.outcome.result for record in page.records]
    assert results == [b"small", b"x" * 10, None]
    assert [record.result_bytes for record in page.records] == [5, 300_000, 0]
    page = await store.list_children(TENANT, parent.id, now_ms=T0)
    assert [record.outcome and record.outcome.result for record in page.records] == [None, None, None]


async def test_a_child_of_a_type_with_a_consumer_is_numbered_and_not_held(store: Store) -> None:
    await store.set_consumer(ConsumerRecord(TENANT, "stage", CHILD, "{}", T0))
    parent = await running(store)
    await end(store, archive(parent), *new_jobs(2, 1, jobtype=CHILD, parent=parent.id))
    assert [(job.id, job.seq) for job in await claim(store, jobtype=CHILD)] == [(job_id(1), 1), (job_id(2), 2)]
    assert (await store.get_index_state(TENANT, CHILD)).head == 2


async def test_a_job_cannot_be_made_twice_by_one_run(store: Store) -> None:
    parent = await running(store)
    child = new_job(1, jobtype=CHILD, parent=parent.id)
    with pytest.raises(InvalidValue, match="appears twice"):
        await end(store, archive(parent), child, child)
    assert await states(store, 0, 1) == [JobState.RUNNING, None]
