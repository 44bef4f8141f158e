"""Single jobs of a tenant: updates, cancel, replay, delete, position in the queue."""

import pytest

from store.base import Code, Creation, JobChange, JobFilter, JobState, Lease, Store
from store.errors import Conflict, InvalidValue, NotFound
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
    job_id,
    new_job,
    new_jobs,
    retry,
)


async def test_jobs_are_created_all_or_none(store: Store) -> None:
    await store.create_job(new_job(1, unique="taken"), now_ms=T0)
    await claim_one(store)
    bad = [new_job(5, unique="taken"), new_job(5, parent=job_id(9))]
    for refused in bad:
        batch = [Creation(job) for job in (new_job(2), new_job(3, unique="free"), refused, new_job(4))]
        with pytest.raises((Conflict, NotFound)):
            await store.create_jobs(batch, now_ms=T0)
        assert await store.get_states(TENANT, [job_id(n) for n in (2, 3, 4, 5)], now_ms=T0) == {}
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    assert (counters.waiting, counters.running) == (0, 1)


async def test_jobs_that_are_created_together_are_different_and_no_relatives(store: Store) -> None:
    """Nobody could say which one is meant; and a job that is not in yet cannot get a child."""
    first = new_job(1)
    child = new_job(2, parent=first.id)
    bad = [
        ([first, new_job(2), first._replace(parent=job_id(9))], "appears twice"),
        ([first, child], "created in the same call"),
        ([child, first], "created in the same call"),
    ]
    for batch, why in bad:
        with pytest.raises(InvalidValue, match=why):
            await store.create_jobs([Creation(job) for job in batch], now_ms=T0)
    assert await store.get_counters(TENANT, now_ms=T0) == []


async def test_creating_the_same_id_again_changes_nothing(store: Store) -> None:
    assert (await store.create_job(new_job(1, unique="u"), now_ms=T0)).created
    report = await store.create_job(new_job(1, unique="u", data=b"other"), now_ms=T0)
    assert (report.id, report.created) == (job_id(1), False)
    assert (await claim_one(store)).data == b"payload 1"


async def test_update_moves_a_waiting_job(store: Store) -> None:
    await store.add_jobs(new_jobs(3), now_ms=T0)
    assert (
        await store.update_job(TENANT, job_id(2), JobChange(data=b"new", dt_ms=T0 - 1), now_ms=T0) == JobState.WAITING
    )
    assert await store.update_job(TENANT, job_id(0), JobChange(dt_ms=T0 + 50), now_ms=T0) == JobState.DEFERRED
    first, second = await claim(store)
    assert (first.id, first.data, first.due_ms) == (job_id(2), b"new", T0 - 1)
    assert second.id == job_id(1)
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    assert (counters.waiting, counters.deferred, counters.running) == (0, 1, 2)


async def test_a_worker_updates_the_data_of_its_own_delivery_only(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    job = await claim_one(store)
    assert (
        await store.update_job(TENANT, job.id, JobChange(token=job.token, data=b"50 %"), now_ms=T0) == JobState.RUNNING
    )
    with pytest.raises(Conflict):
        await store.update_job(TENANT, job.id, JobChange(token=job.token + 1, data=b"no"), now_ms=T0)
    with pytest.raises(Conflict):
        await store.update_job(TENANT, job.id, JobChange(dt_ms=T0 + 1), now_ms=T0)
    await store.release_jobs(OWNER, [archive(job)], now_ms=T0)
    with pytest.raises(Conflict):
        await store.update_job(TENANT, job.id, JobChange(data=b"late"), now_ms=T0)
    record = await store.get_job(TENANT, job.id, now_ms=T0)
    assert record is not None
    assert record.job.data == b"50 %"


async def test_a_job_at_rest_is_updated_and_one_that_runs_is_not(store: Store) -> None:
    await store.add_jobs([new_job(1, dt_ms=T0 + 1000)], now_ms=T0)
    assert (
        await store.update_job(TENANT, job_id(1), JobChange(data=b"new", at_rest=True), now_ms=T0) == JobState.DEFERRED
    )
    job = await claim_one(store, now_ms=T0 + 1000)
    assert job.data == b"new"
    for now_ms in (T0 + 1000, T0 + 1000 + LEASE_MS):
        with pytest.raises(Conflict, match="is running"):
            await store.update_job(TENANT, job_id(1), JobChange(data=b"newer", at_rest=True), now_ms=now_ms)
    await store.release_jobs(OWNER, [retry(job, T0 + 9000)], now_ms=T0 + 1001)
    await store.update_job(TENANT, job_id(1), JobChange(data=b"newest", at_rest=True), now_ms=T0 + 1001)
    assert (await claim_one(store, now_ms=T0 + 9000)).data == b"newest"


@pytest.mark.parametrize("unique", ["", "nightly"])
@pytest.mark.parametrize("size", [3, 400_000])
async def test_a_job_is_replayed_with_other_data(store: Store, unique: str, size: int) -> None:
    await store.create_job(new_job(1, unique=unique, data=b"o" * 400_000), now_ms=T0)
    await store.release_jobs(OWNER, [archive(await claim_one(store))], now_ms=T0)
    data = b"n" * size
    assert await store.replay_jobs(TENANT, [job_id(1)], dt_ms=T0, now_ms=T0, data=data) == (job_id(1),)
    assert (await claim_one(store)).data == data
    assert (await store.get_usage(TENANT)).size_bytes == size
    assert await store.replay_jobs(TENANT, [job_id(1)], dt_ms=T0, now_ms=T0, data=b"too late") == ()
    record = await store.get_job(TENANT, job_id(1), now_ms=T0)
    assert record is not None
    assert record.job.data == data


async def test_payloads_can_grow_and_shrink(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    for size_bytes in (100_000, 10, 200_000, 5):
        await store.update_job(TENANT, job_id(1), JobChange(data=b"x" * size_bytes), now_ms=T0)
        assert (await store.get_usage(TENANT)).size_bytes == size_bytes
        record = await store.get_job(TENANT, job_id(1), now_ms=T0)
        assert record is not None
        assert record.job.data == b"x" * size_bytes


async def test_cancel_only_what_has_not_started(store: Store) -> None:
    await store.add_jobs([*new_jobs(2), new_job(2, dt_ms=T0 + 100)], now_ms=T0)
    running = await claim_one(store)
    with pytest.raises(Conflict, match=f"job {running.id} is running: cancel it, or wait until it has ended"):
        await store.cancel_job(TENANT, running.id, now_ms=T0)
    for number in (1, 2):
        await store.cancel_job(TENANT, job_id(number), now_ms=T0 + 3)
    await store.cancel_job(TENANT, job_id(1), now_ms=T0 + 9)
    record = await store.get_job(TENANT, job_id(1), now_ms=T0)
    assert record is not None
    assert record.outcome is not None
    assert (record.state, record.outcome.code, record.done_ms) == (
        JobState.ARCHIVED,
        Code.CANCELLED,
        T0 + 3,
    )
    await store.release_jobs(OWNER, [archive(running)], now_ms=T0)
    with pytest.raises(Conflict, match=f"job {running.id} has ended: there is nothing to cancel"):
        await store.cancel_job(TENANT, running.id, now_ms=T0)
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    assert (counters.waiting, counters.deferred, counters.running, counters.cancelled) == (0, 0, 0, 2)


async def test_cancel_of_a_running_job_ends_its_delivery(store: Store) -> None:
    await store.create_job(new_job(1), now_ms=T0)
    running = await claim_one(store)
    await store.create_job(new_job(2, parent=running.id), now_ms=T0)
    await store.cancel_job(TENANT, running.id, now_ms=T0 + 1, running=True)
    renewed = await store.renew_locks(OWNER, [Lease(running.id, running.token)], lease_ms=1000, now_ms=T0 + 2)
    released = await store.release_jobs(OWNER, [archive(running)], now_ms=T0 + 3)
    assert (renewed.renewed, renewed.stale, released.applied, released.stale) == (0, (running.id,), 0, (running.id,))
    for job in (running.id, job_id(2)):
        record = await store.get_job(TENANT, job, now_ms=T0 + 3)
        assert record is not None
        assert record.outcome is not None
        assert (record.state, record.outcome.code, record.done_ms) == (JobState.ARCHIVED, Code.CANCELLED, T0 + 1)
    (counters,) = await store.get_counters(TENANT, now_ms=T0 + 3)
    assert (counters.running, counters.blocked, counters.ok, counters.cancelled) == (0, 0, 0, 2)
    assert await store.replay_jobs(TENANT, [running.id], dt_ms=T0 + 4, now_ms=T0 + 4) == (running.id,)
    again = await claim_one(store, now_ms=T0 + 5)
    assert again.token == running.token + 1


async def test_replay_runs_an_archived_job_again(store: Store) -> None:
    await store.add_jobs(new_jobs(3), now_ms=T0)
    done, other, _ = await claim(store)
    await store.release_jobs(OWNER, [archive(done, Code.FAILED, result=b"bad"), archive(other)], now_ms=T0)
    asked = [done.id, job_id(2), "unknown", done.id]
    assert await store.replay_jobs(TENANT, asked, dt_ms=T0 + 50, now_ms=T0 + 1) == (done.id,)
    assert await store.replay_jobs(TENANT, asked, dt_ms=T0 + 50, now_ms=T0 + 1) == ()
    record = await store.get_job(TENANT, done.id, now_ms=T0 + 1)
    assert record is not None
    assert record.outcome is not None
    assert (record.state, record.outcome.code, record.outcome.result) == (
        JobState.DEFERRED,
        Code.FAILED,
        None,
    )
    again = await claim_one(store, now_ms=T0 + 50)
    assert (again.id, again.token, again.attempts, again.data) == (done.id, 2, 1, done.data)
    await store.release_jobs(OWNER, [archive(again)], now_ms=T0 + 60)
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    assert (counters.failed, counters.ok, counters.deferred) == (1, 2, 0)


async def test_replay_leaves_out_a_name_that_is_taken(store: Store) -> None:
    await store.create_job(new_job(1, unique="u"), now_ms=T0)
    await store.cancel_job(TENANT, job_id(1), now_ms=T0)
    await store.create_job(new_job(2, unique="u"), now_ms=T0)
    assert await store.replay_jobs(TENANT, [job_id(1)], dt_ms=T0, now_ms=T0) == ()
    await store.cancel_job(TENANT, job_id(2), now_ms=T0)
    assert await store.replay_jobs(TENANT, [job_id(1), job_id(2)], dt_ms=T0, now_ms=T0) == (job_id(1),)


async def test_delete_removes_archived_jobs_only(store: Store) -> None:
    await store.add_jobs(new_jobs(3), now_ms=T0)
    job = await claim_one(store)
    await store.release_jobs(OWNER, [archive(job, result=b"x" * 5000)], now_ms=T0)
    assert await store.delete_jobs(TENANT, [job.id, job.id, job_id(1), "unknown"], now_ms=T0) == 1
    assert await store.get_job(TENANT, job.id, now_ms=T0) is None
    usage = await store.get_usage(TENANT)
    assert (usage.jobs, usage.size_bytes) == (2, len(b"payload 1") * 2)


async def test_a_foreign_id_is_as_good_as_none(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    assert await store.get_job("other", job_id(1), now_ms=T0) is None
    assert await store.get_states("other", [job_id(1)], now_ms=T0) == {}
    assert await store.get_position("other", job_id(1), now_ms=T0) is None
    for verb in (
        store.cancel_job("other", job_id(1), now_ms=T0),
        store.update_job("other", job_id(1), JobChange(), now_ms=T0),
    ):
        with pytest.raises(NotFound):
            await verb
    await store.cancel_job(TENANT, job_id(1), now_ms=T0)
    assert await store.replay_jobs("other", [job_id(1)], dt_ms=T0, now_ms=T0) == ()
    assert await store.delete_jobs("other", [job_id(1)], now_ms=T0) == 0
    with pytest.raises(InvalidValue):
        await store.set_type_paused("other", "acme-thumb", paused=True)


async def test_position_counts_what_is_claimed_before(store: Store) -> None:
    jobs = [
        new_job(1, dt_ms=T0 - 5),
        new_job(2, dt_ms=T0 - 9),
        new_job(3, priority=1000),
        new_job(4, priority=0),
        new_job(5, dt_ms=T0 + 5, priority=1000),
        new_job(6, dt_ms=T0 - 5, domain="d"),
    ]
    await store.add_jobs(jobs, now_ms=T0)
    positions = [await store.get_position(TENANT, job.id, now_ms=T0) for job in jobs]
    assert positions == [2, 1, 0, 4, None, 3]
    assert await store.get_position(TENANT, job_id(4), now_ms=T0, cap=2) == 2
    assert ids(await claim(store, 1)) == [job_id(3)]
    assert await store.get_position(TENANT, job_id(3), now_ms=T0) is None


@pytest.mark.parametrize("before", ["archived", "waiting", "deferred"])
@pytest.mark.parametrize("data", [None, b"new", b"n" * 300_000])
async def test_a_job_moves_to_another_type(store: Store, before: str, data: bytes | None) -> None:
    due_ms = T0 + 500 if before == "deferred" else T0
    await store.add_jobs([new_job(0, priority=1000, domain="d", dt_ms=due_ms)], now_ms=T0)
    if before == "archived":
        job = await claim_one(store)
        await store.release_jobs(OWNER, [archive(job, Code.FAILED, result=b"r" * 300_000, log=b"l")], now_ms=T0)
    await store.move_job(TENANT, job_id(0), "acme-other", dt_ms=T0 + 10, now_ms=T0, data=data)
    assert await claim(store, now_ms=T0 + 600) == []
    rows = {row.jobtype: row for row in await store.get_counters(TENANT, now_ms=T0)}
    assert (rows["acme-other"].deferred, rows["acme-other"].waiting) == (1, 0)
    old = rows.get(JOBTYPE)
    assert old is None or (old.waiting, old.deferred, old.running) == (0, 0, 0)
    assert [row.jobtype for row in await store.get_waiting_jobtypes(now_ms=T0 + 10)] == ["acme-other"]
    moved = await claim_one(store, jobtype="acme-other", now_ms=T0 + 10)
    assert (moved.id, moved.data, moved.priority, moved.domain) == (job_id(0), data or b"payload 0", 1000, "d")
    assert moved.attempts == 1
    usage = await store.get_usage(TENANT)
    assert (usage.jobs, usage.size_bytes) == (1, len(data or b"payload 0") + (1 if before == "archived" else 0))
    await store.release_jobs(OWNER, [archive(moved)], now_ms=T0 + 20)
    page = await store.list_jobs(TENANT, JobFilter(JobState.ARCHIVED, "acme-other"), now_ms=T0 + 20)
    assert [record.job.id for record in page.records] == [job_id(0)]
    assert await store.delete_jobs(TENANT, [job_id(0)], now_ms=T0) == 1
    assert (await store.get_usage(TENANT)).size_bytes == 0


async def test_a_running_job_moves_for_who_holds_it(store: Store) -> None:
    await store.add_jobs([new_job(0)], now_ms=T0)
    job = await claim_one(store)
    for token in (job.token + 1, None):
        with pytest.raises(Conflict):
            await store.move_job(TENANT, job.id, "acme-other", dt_ms=T0, now_ms=T0, token=token)
    await store.move_job(TENANT, job.id, "acme-other", dt_ms=T0 + 10, now_ms=T0, data=b"new", token=job.token)
    report = await store.release_jobs(OWNER, [archive(job)], now_ms=T0)
    assert report.stale == (job.id,), "that delivery is over"
    with pytest.raises(Conflict):
        await store.move_job(TENANT, job.id, JOBTYPE, dt_ms=T0, now_ms=T0, token=job.token)
    rows = {row.jobtype: row for row in await store.get_counters(TENANT, now_ms=T0)}
    assert (rows["acme-other"].deferred, rows["acme-other"].running, rows["acme-other"].waiting) == (1, 0, 0)
    old = rows.get(JOBTYPE)
    assert old is None or (old.waiting, old.deferred, old.running) == (0, 0, 0)
    moved = await claim_one(store, jobtype="acme-other", now_ms=T0 + 10)
    assert (moved.id, moved.data, moved.attempts) == (job.id, b"new", 1)
    await store.release_jobs(OWNER, [archive(moved)], now_ms=T0 + 20)
    usage = await store.get_usage(TENANT)
    assert (usage.jobs, usage.size_bytes) == (1, len(b"new"))


async def test_what_is_bound_to_its_type_or_not_at_rest_does_not_move(store: Store) -> None:
    await store.create_job(new_job(0, unique="u"), now_ms=T0)
    await store.add_jobs([new_job(1, indexed=True), new_job(2, jobtype="acme-b")], now_ms=T0)
    await claim_one(store, jobtype="acme-b")
    for number in (0, 1, 2):
        with pytest.raises(Conflict):
            await store.move_job(TENANT, job_id(number), "acme-other", dt_ms=T0, now_ms=T0)
    with pytest.raises(NotFound):
        await store.move_job(TENANT, job_id(9), "acme-other", dt_ms=T0, now_ms=T0)
    with pytest.raises(InvalidValue):
        await store.move_job(TENANT, job_id(0), "zeta-other", dt_ms=T0, now_ms=T0)
    assert len(await claim(store)) == 2
