"""Unique names of a numbered type: no index waits for a name that a job behind it has."""

import pytest

from store.base import Code, ConsumerRecord, JobState, Store, WindowMove
from store.errors import Conflict
from tests.support.jobs import JOBTYPE, LEASE_MS, OWNER, T0, TENANT, archive, claim_one, job_id, new_job
from tests.support.store_audit import check_counters

FIRST, SECOND, THIRD = (job_id(number) for number in (1, 2, 3))


@pytest.fixture
async def token(store: Store) -> int:
    """Index 1 has failed, and 2 has its name now. The leader has let in 1 only."""
    await store.set_consumer(ConsumerRecord(TENANT, "verify", JOBTYPE, "{}", T0))
    (record,) = await store.lead_consumers(OWNER, lease_ms=LEASE_MS, now_ms=T0)
    await store.create_job(new_job(1, unique="x"), now_ms=T0)
    await let_in(store, record.token, 1)
    await store.release_jobs(OWNER, [archive(await claim_one(store), Code.FAILED)], now_ms=T0)
    assert (await store.create_job(new_job(2, unique="x"), now_ms=T0)).created
    return record.token


async def let_in(store: Store, token: int, released: int) -> None:
    move = WindowMove(TENANT, "verify", token, 0, released, 0, skip_failed=False, note="")
    await store.move_window(move, now_ms=T0)


async def replay(store: Store, *ids: str) -> tuple[str, ...]:
    return await store.replay_jobs(TENANT, ids, dt_ms=T0, now_ms=T0)


@pytest.mark.usefixtures("token")
async def test_an_index_takes_its_name_back_from_one_that_is_held_behind_it(store: Store) -> None:
    assert await replay(store, FIRST) == (FIRST,)
    states = await store.get_states(TENANT, [FIRST, SECOND], now_ms=T0)
    assert states == {FIRST: JobState.WAITING, SECOND: JobState.PAUSED}
    records = [await store.get_job(TENANT, one, now_ms=T0) for one in (FIRST, SECOND)]
    assert [record.job.unique for record in records if record is not None] == ["x", ""]
    report = await store.create_job(new_job(3, unique="x"), now_ms=T0)
    assert (report.id, report.created) == (FIRST, False)
    await check_counters(store, TENANT, T0)


@pytest.mark.usefixtures("token")
async def test_the_name_stays_with_the_index_that_took_it_back(store: Store) -> None:
    await replay(store, FIRST)
    job = await claim_one(store)
    with pytest.raises(Conflict):
        await store.create_job(new_job(3, unique="x"), now_ms=T0)
    await store.release_jobs(OWNER, [archive(job)], now_ms=T0)
    assert (await store.create_job(new_job(3, unique="x"), now_ms=T0)).created


async def test_a_name_stays_with_a_job_that_may_run(store: Store, token: int) -> None:
    await let_in(store, token, 2)
    assert await replay(store, FIRST) == ()
    await store.release_jobs(OWNER, [archive(await claim_one(store))], now_ms=T0)
    assert await replay(store, FIRST) == (FIRST,)


async def test_an_index_does_not_take_the_name_of_one_before_it(store: Store, token: int) -> None:
    await let_in(store, token, 2)
    await store.release_jobs(OWNER, [archive(await claim_one(store), Code.FAILED)], now_ms=T0)
    assert await replay(store, FIRST, SECOND) == (FIRST,)
