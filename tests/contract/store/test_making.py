"""The end of a run that made new jobs: both are recorded, or neither."""

import pytest

from store.base import (
    Code,
    ConsumerRecord,
    Creation,
    EndOfRun,
    Finish,
    Job,
    JobState,
    MakingEnd,
    NewJob,
    Rearm,
    Store,
    WindowMove,
)
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
    making,
    new_job,
    new_jobs,
    outcome,
    retry,
)
from tests.support.store_audit import check_counters

CHILD = "acme-child"


async def running(store: Store, number: int = 0) -> Job:
    await store.add_jobs([new_job(number)], now_ms=T0)
    return await claim_one(store)


async def end(store: Store, release: EndOfRun, *new: NewJob, owner: str = OWNER, now_ms: int = T0) -> tuple[str, ...]:
    """Returns what was stale."""
    report = await store.release_with_jobs(owner, [making(release, *new)], now_ms=now_ms)
    return report.stale


async def states(store: Store, *numbers: int) -> list[JobState | None]:
    found = await store.get_states(TENANT, [job_id(n) for n in numbers], now_ms=T0)
    return [found.get(job_id(n)) for n in numbers]


async def test_a_parent_that_made_children_waits_for_them_and_is_told_how_many(store: Store) -> None:
    parent = await running(store)
    children = new_jobs(2, 1, jobtype=CHILD, parent=parent.id)
    report = await store.release_with_jobs(OWNER, [making(archive(parent), *children)], now_ms=T0)
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


async def test_a_child_that_finds_its_name_taken_by_a_sibling_is_not_counted(store: Store) -> None:
    parent = await running(store)
    twins = [new_job(n, jobtype=CHILD, unique="u", data=b"%d" % n, parent=parent.id) for n in (1, 2)]
    await end(store, archive(parent), *twins)
    assert await states(store, 0, 1, 2) == [JobState.PAUSED, JobState.WAITING, None]
    record = await store.get_job(TENANT, parent.id, now_ms=T0)
    assert record is not None
    assert (record.children, record.pending_children) == (1, 1)
    assert (await claim_one(store, jobtype=CHILD)).data == b"2"
    await check_counters(store, TENANT, T0)


async def test_a_unique_name_that_waits_is_changed_and_not_made_twice(store: Store) -> None:
    maker = await running(store)
    await store.create_job(new_job(5, jobtype=CHILD, unique="u", priority=1000), now_ms=T0)
    named = new_job(1, jobtype=CHILD, unique="u", data=b"new")
    end = MakingEnd(archive(maker), [Creation(named, frozenset({"priority"}))])
    await store.release_with_jobs(OWNER, [end], now_ms=T0)
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


async def many_running(store: Store, count: int) -> list[Job]:
    await store.add_jobs(new_jobs(count), now_ms=T0)
    return await claim(store, count)


async def test_runs_that_end_together_make_their_jobs_each(store: Store) -> None:
    """Plain ones, children, a failure, a retry, and a delivery that is lost, in one call."""
    first, parent, failed, again, lost = await many_running(store, 5)
    await store.expire_locks(now_ms=T0, owner=OWNER)
    lost_again = {job.id: job for job in await claim(store, owner=OWNER)}
    first, parent, failed, again = (lost_again[job.id] for job in (first, parent, failed, again))
    ends = [
        making(archive(first), *new_jobs(2, 10, jobtype=CHILD)),
        making(archive(parent), new_job(12, jobtype=CHILD, parent=parent.id), new_job(13, jobtype=CHILD)),
        making(archive(failed, Code.FAILED), new_job(14, jobtype=CHILD, parent=failed.id)),
        making(retry(again, T0), new_job(15, jobtype=CHILD, parent=again.id)),
        making(archive(lost), new_job(16, jobtype=CHILD)),
    ]
    report = await store.release_with_jobs(OWNER, ends, now_ms=T0)
    assert (report.applied, report.stale, report.paused) == (4, (lost.id,), (parent.id,))
    ended, waiting, paused = JobState.ARCHIVED, JobState.WAITING, JobState.PAUSED
    assert await states(store, 0, 1, 2, 3, 4) == [ended, paused, ended, waiting, JobState.RUNNING]
    assert await states(store, *range(10, 17)) == [waiting, waiting, waiting, waiting, ended, paused, None]
    await check_counters(store, TENANT, T0)
    assert (await store.release_with_jobs(OWNER, ends, now_ms=T0)).stale == tuple(end.release.id for end in ends)
    await check_counters(store, TENANT, T0)


async def test_if_one_of_several_ends_is_refused_none_is_recorded(store: Store) -> None:
    await store.create_job(new_job(20, jobtype=CHILD, unique="u"), now_ms=T0)
    await claim_one(store, jobtype=CHILD)
    one, other = await many_running(store, 2)
    fine = making(archive(one), new_job(10, jobtype=CHILD), new_job(11, jobtype=CHILD, parent=one.id))
    for wrong, error in (
        (new_job(12, jobtype=CHILD, unique="u"), Conflict),
        (new_job(12, jobtype=CHILD, parent=job_id(99)), NotFound),
        (new_job(12, jobtype=CHILD, parent=one.id), InvalidValue),
        (new_job(10, jobtype=CHILD), InvalidValue),
    ):
        with pytest.raises(error):
            await store.release_with_jobs(OWNER, [fine, making(archive(other), wrong)], now_ms=T0)
    assert await states(store, 0, 1, 10, 11, 12) == [JobState.RUNNING, JobState.RUNNING, None, None, None]
    await check_counters(store, TENANT, T0)
    assert (await store.release_with_jobs(OWNER, [fine], now_ms=T0)).applied == 1


async def test_of_two_runs_that_end_together_the_later_one_replaces_what_the_first_named(store: Store) -> None:
    one, other = await many_running(store, 2)
    named = [new_job(n, jobtype=CHILD, unique="u", data=b"%d" % n) for n in (10, 11)]
    ends = [making(archive(one), named[0], new_job(12, jobtype=CHILD)), making(archive(other), named[1])]
    assert (await store.release_with_jobs(OWNER, ends, now_ms=T0)).applied == 2
    assert [(job.id, job.data) for job in await claim(store, jobtype=CHILD)] == [
        (job_id(10), b"11"),
        (job_id(12), b"payload 12"),
    ]
    await check_counters(store, TENANT, T0)


async def test_children_and_their_siblings_end_together(store: Store) -> None:
    parent = await running(store)
    await end(store, archive(parent), *new_jobs(2, 1, jobtype=CHILD, parent=parent.id))
    children = await claim(store, 2, jobtype=CHILD)
    ends = [
        making(archive(child), new_job(number, jobtype=CHILD, parent=parent.id))
        for number, child in enumerate(children, 10)
    ]
    assert (await store.release_with_jobs(OWNER, ends, now_ms=T0)).applied == 2
    assert await states(store, 0, 10, 11) == [JobState.PAUSED, JobState.WAITING, JobState.WAITING]
    await store.release_jobs(OWNER, [archive(job) for job in await claim(store, 2, jobtype=CHILD)], now_ms=T0)
    again = await claim_one(store)
    assert (again.id, again.children) == (parent.id, 4)
    await check_counters(store, TENANT, T0)


async def test_what_runs_that_end_together_made_is_numbered_in_their_order(store: Store) -> None:
    await store.set_consumer(ConsumerRecord(TENANT, "stage", CHILD, "{}", T0))
    makers = await many_running(store, 3)
    ends = [making(archive(maker), *new_jobs(2, 10 + 2 * n, jobtype=CHILD)) for n, maker in enumerate(makers)]
    assert (await store.release_with_jobs(OWNER, ends, now_ms=T0)).applied == 3
    records = [await store.get_job_at(TENANT, CHILD, seq, now_ms=T0) for seq in range(1, 7)]
    assert [record and record.job.id for record in records] == [job_id(n) for n in range(10, 16)]
    assert [record and record.state for record in records] == [JobState.PAUSED] * 6
    await check_counters(store, TENANT, T0)
    assert len((await store.release_with_jobs(OWNER, ends, now_ms=T0)).stale) == 3
    (consumer,) = await store.lead_consumers(OWNER, lease_ms=1000, now_ms=T0)
    move = WindowMove(TENANT, "stage", consumer.token, 0, 2, 0, skip_failed=False, note="")
    assert (await store.move_window(move, now_ms=T0)).head == 6
    assert ids(await claim(store, jobtype=CHILD)) == [job_id(10), job_id(11)]
    await check_counters(store, TENANT, T0)
