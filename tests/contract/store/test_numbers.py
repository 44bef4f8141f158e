"""Numbers of jobs within their tenant: ascending from 1, kept for life, given once."""

import asyncio

import pytest

from store.base import JobFilter, JobState, Store, Tenant
from store.errors import InvalidValue
from tests.support.jobs import OWNER, T0, TENANT, archive, claim_one, new_job, new_jobs


async def test_numbers_ascend_from_1_in_the_order_asked_for(store: Store) -> None:
    await store.add_jobs(new_jobs(4), now_ms=T0)
    ids = [new_job(number).id for number in range(4)]
    assert await store.number_jobs(TENANT, [ids[2]]) == {ids[2]: 1}
    assert await store.number_jobs(TENANT, [ids[3], ids[2], ids[0]]) == {ids[3]: 2, ids[2]: 1, ids[0]: 3}
    assert await store.number_jobs(TENANT, ids[:3]) == {ids[0]: 3, ids[1]: 4, ids[2]: 1}
    assert [await store.find_numbered(TENANT, number) for number in range(1, 6)] == [
        ids[2],
        ids[3],
        ids[0],
        ids[1],
        None,
    ]


async def test_each_tenant_counts_for_itself_and_sees_its_own_only(store: Store) -> None:
    await store.add_jobs([*new_jobs(2), *new_jobs(2, 10, jobtype="other-x")], now_ms=T0)
    mine, foreign = new_job(0).id, new_job(10).id
    assert await store.number_jobs(TENANT, [foreign, mine, "no-such-job"]) == {mine: 1}
    assert await store.number_jobs("other", [foreign]) == {foreign: 1}
    assert await store.find_numbered(TENANT, 1) == mine
    assert await store.find_numbered("other", 1) == foreign
    assert await store.find_numbered("third", 1) is None


async def test_a_job_keeps_its_number_and_shows_it_while_it_goes_through_its_states(store: Store) -> None:
    await store.add_jobs(new_jobs(1), now_ms=T0)
    job_id = new_job(0).id
    assert (await store.list_jobs(TENANT, JobFilter(JobState.WAITING), now_ms=T0)).records[0].number is None
    await store.number_jobs(TENANT, [job_id])
    job = await claim_one(store)
    await store.release_jobs(OWNER, [archive(job, result=b"r")], now_ms=T0)
    record = await store.get_job(TENANT, job_id, now_ms=T0)
    assert record is not None
    assert record.number == 1
    assert (await store.list_jobs(TENANT, JobFilter(JobState.ARCHIVED), now_ms=T0)).records[0].number == 1
    await store.replay_jobs(TENANT, [job_id], dt_ms=T0, now_ms=T0)
    assert await store.number_jobs(TENANT, [job_id]) == {job_id: 1}


async def test_a_number_goes_with_its_job_and_is_never_given_again(store: Store) -> None:
    await store.add_jobs(new_jobs(2), now_ms=T0)
    first, second = new_job(0).id, new_job(1).id
    await store.number_jobs(TENANT, [first])
    await store.cancel_job(TENANT, first, now_ms=T0)
    assert await store.delete_jobs(TENANT, [first], now_ms=T0) == 1
    assert await store.find_numbered(TENANT, 1) is None
    assert await store.number_jobs(TENANT, [first, second]) == {second: 2}
    await store.cancel_job(TENANT, second, now_ms=T0)
    while (
        await store.expire_jobs(done_before_ms=T0 + 2, failed_before_ms=T0 + 2, waiting_before_ms=0, now_ms=T0 + 2)
    ).more:
        pass
    assert await store.find_numbered(TENANT, 2) is None
    await store.add_jobs(new_jobs(1, 5), now_ms=T0)
    assert await store.number_jobs(TENANT, [new_job(5).id]) == {new_job(5).id: 3}


async def test_numbers_go_with_their_tenant(store: Store) -> None:
    await store.create_tenant(Tenant(TENANT, T0))
    await store.add_jobs([*new_jobs(2), *new_jobs(1, 10, jobtype="other-x")], now_ms=T0)
    await store.number_jobs(TENANT, [new_job(0).id, new_job(1).id])
    await store.number_jobs("other", [new_job(10).id])
    while (await store.delete_tenant(TENANT)).more:
        pass
    assert await store.find_numbered(TENANT, 1) is None
    assert await store.find_numbered("other", 1) == new_job(10).id
    await store.add_jobs(new_jobs(1, 20), now_ms=T0)
    assert await store.number_jobs(TENANT, [new_job(20).id]) == {new_job(20).id: 1}


async def test_callers_at_the_same_time_agree_on_every_number(store: Store) -> None:
    await store.add_jobs(new_jobs(20), now_ms=T0)
    ids = [new_job(number).id for number in range(20)]
    answers = await asyncio.gather(*(store.number_jobs(TENANT, ids[place:] + ids[:place]) for place in range(0, 20, 4)))
    assert all(answer == answers[0] for answer in answers)
    assert len(set(answers[0].values())) == 20
    for job_id, number in answers[0].items():
        assert await store.find_numbered(TENANT, number) == job_id


async def test_numbers_that_are_taken_are_no_jobs_and_follow_each_other(store: Store) -> None:
    await store.add_jobs(new_jobs(2), now_ms=T0)
    first, second = (new_job(number).id for number in range(2))
    assert await store.take_numbers(TENANT, 3) == 1
    assert await store.number_jobs(TENANT, [first]) == {first: 4}
    assert sorted(await asyncio.gather(*(store.take_numbers(TENANT, 2) for _ in range(3)))) == [5, 7, 9]
    assert await store.number_jobs(TENANT, [first, second]) == {first: 4, second: 11}
    assert await store.find_numbered(TENANT, 2) is None
    assert await store.take_numbers("other", 1) == 1


async def test_what_cannot_be_a_number_or_an_id_is_refused_or_left_out(store: Store) -> None:
    assert await store.number_jobs(TENANT, []) == {}
    assert await store.number_jobs(TENANT, ["a b", "\ud800"]) == {}
    for number in (0, -1, 1 << 63):
        with pytest.raises(InvalidValue, match="number"):
            await store.find_numbered(TENANT, number)
    for count in (0, 10_001):
        with pytest.raises(InvalidValue, match="count"):
            await store.take_numbers(TENANT, count)
    with pytest.raises(InvalidValue, match="tenant"):
        await store.number_jobs("A", [])
    with pytest.raises(InvalidValue, match="tenant"):
        await store.take_numbers("A", 1)
    with pytest.raises(InvalidValue, match="at most"):
        await store.number_jobs(TENANT, ["x"] * 10_001)
