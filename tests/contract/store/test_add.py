"""Adding jobs in bulk: idempotent by id, with the journal's position."""

import pytest

from store.base import AddReport, JobState, JournalPosition, NewJob, Store
from store.errors import InvalidValue
from store.names import MAX_BATCH, MAX_DATA_BYTES
from tests.support.jobs import JOBTYPE, T0, TENANT, archive, claim, claim_one, ids, job_id, new_job, new_jobs


async def test_added_jobs_are_there_with_all_their_fields(store: Store) -> None:
    job = NewJob(
        job_id(1),
        JOBTYPE,
        b"\x00data",
        dt_ms=T0 + 5,
        create_ms=T0 - 5,
        priority=1000,
        domain="api.example.com",
        options='{"a": 1}',
        retry_after_ms=1234,
        repeat="finished, +1 hour",
    )
    assert await store.add_jobs([job], now_ms=T0) == AddReport(1, 0)
    record = await store.get_job(TENANT, job.id, now_ms=T0)
    assert record is not None
    assert record.state == JobState.DEFERRED
    assert record.outcome is None
    assert record.data_bytes == 5
    kept = record.job
    for field in ("id", "jobtype", "data", "dt_ms", "create_ms", "priority", "domain", "options", "repeat"):
        assert getattr(kept, field) == getattr(job, field), field
    assert (kept.lock, kept.token, kept.attempts, kept.due_ms, kept.seq) == ("", 0, 0, T0 + 5, None)
    assert kept.retry_after_ms == 1234


async def test_adding_again_changes_nothing_whatever_the_state(store: Store) -> None:
    jobs = new_jobs(4)
    assert await store.add_jobs(jobs, now_ms=T0) == AddReport(4, 0)
    first, second, _ = await claim(store, 3)
    await store.release_jobs("a1", [archive(first)], now_ms=T0)
    changed = [job._replace(data=b"other", priority=1000) for job in jobs]
    assert await store.add_jobs([*changed, new_job(9)], now_ms=T0 + 1) == AddReport(1, 4)
    record = await store.get_job(TENANT, second.id, now_ms=T0)
    assert record is not None
    assert (record.state, record.job.data, record.job.token) == (JobState.RUNNING, second.data, second.token)
    assert (await store.get_usage(TENANT)).jobs == 5
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    assert (counters.waiting, counters.running, counters.ok) == (2, 2, 1)


async def test_the_first_of_two_with_one_id_stands(store: Store) -> None:
    twice = [new_job(1, data=b"first"), new_job(1, data=b"second"), new_job(2)]
    assert await store.add_jobs(twice, now_ms=T0) == AddReport(2, 1)
    assert [job.data for job in await claim(store)] == [b"first", b"payload 2"]
    assert (await store.get_usage(TENANT)).size_bytes == len(b"first") + len(b"payload 2")


async def test_the_position_moves_with_the_jobs(store: Store) -> None:
    assert await store.get_journal_position("j1") is None
    place = JournalPosition("j1", "000001.log", 4096, 17)
    await store.add_jobs(new_jobs(2), now_ms=T0, position=place)
    assert await store.get_journal_position("j1") == place
    further = place._replace(offset=8192, line=40)
    assert await store.add_jobs([], now_ms=T0, position=further) == AddReport(0, 0)
    assert await store.get_journal_position("j1") == further
    assert await store.get_journal_position("j2") is None


async def test_a_refused_batch_adds_nothing_and_does_not_move_the_position(store: Store) -> None:
    place = JournalPosition("j1", "000001.log", 1, 1)
    with pytest.raises(InvalidValue):
        await store.add_jobs([new_job(1), new_job(2, priority=7)], now_ms=T0, position=place)
    assert await store.get_job(TENANT, job_id(1), now_ms=T0) is None
    assert await store.get_journal_position("j1") is None


@pytest.mark.parametrize(
    "changes",
    [
        {"id": ""},
        {"id": "a b"},
        {"id": "x" * 65},
        {"jobtype": "acme"},
        {"jobtype": "Acme-thumb"},
        {"jobtype": "acme-a|b"},
        {"jobtype": "acme-"},
        {"jobtype": "acme-thumb\n"},
        {"priority": 1},
        {"dt_ms": -1},
        {"dt_ms": 1 << 62},
        {"create_ms": -1},
        {"domain": "a\nb"},
        {"options": "\ud800"},
        {"retry_after_ms": 0},
        {"unique": "name"},
        {"parent": job_id(7)},
        {"data": b"x" * (MAX_DATA_BYTES + 1)},
    ],
    ids=",".join,
)
async def test_malformed_jobs_are_refused(store: Store, changes: dict[str, object]) -> None:
    with pytest.raises(InvalidValue):
        await store.add_jobs([new_job(1, **changes)], now_ms=T0)
    assert await store.get_counters(None, now_ms=T0) == []


async def test_a_batch_has_a_bound(store: Store) -> None:
    with pytest.raises(InvalidValue):
        await store.add_jobs(new_jobs(MAX_BATCH + 1), now_ms=T0)


async def test_jobs_of_many_types_and_tenants_in_one_batch(store: Store) -> None:
    jobs = [new_job(n, jobtype=f"t{n % 3}-type{n % 5}") for n in range(60)]
    await store.add_jobs(jobs, now_ms=T0)
    waiting = await store.get_waiting_jobtypes(now_ms=T0)
    assert [w.jobtype for w in waiting] == sorted({job.jobtype for job in jobs})
    assert {w.waiting for w in waiting} == {4}
    claimed = await claim(store, jobtype="t1-type4")
    assert ids(claimed) == [job.id for job in jobs if job.jobtype == "t1-type4"]


async def test_a_job_that_was_removed_can_be_added_again(store: Store) -> None:
    await store.add_jobs([new_job(1)], now_ms=T0)
    await store.release_jobs("a1", [archive(await claim_one(store))], now_ms=T0)
    assert await store.delete_jobs(TENANT, [job_id(1)], now_ms=T0) == 1
    assert await store.add_jobs([new_job(1)], now_ms=T0) == AddReport(1, 0)


async def test_indexed_jobs_that_are_added_again_take_no_number(store: Store) -> None:
    jobs = new_jobs(3, indexed=True)
    await store.add_jobs(jobs, now_ms=T0)
    assert await store.add_jobs(jobs, now_ms=T0) == (0, 3)
    assert await store.add_jobs([*jobs, new_job(9, indexed=True)], now_ms=T0) == (1, 3)
    assert (await store.get_index_state(TENANT, JOBTYPE)).head == 4
    record = await store.get_job_at(TENANT, JOBTYPE, 4, now_ms=T0)
    assert record is not None
    assert record.job.id == new_job(9).id
