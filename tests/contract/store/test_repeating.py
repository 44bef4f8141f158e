"""The jobs of a tenant that repeat: which they are, in an order that stays true while rounds come and go."""

import pytest

from store.base import Creation, JobRecord, JobState, Rearm, Store
from store.errors import InvalidValue
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, claim_one, job_id, new_job, outcome

HOURLY = "FINISHED, +1 HOUR"
HOUR_MS = 3_600_000


async def everything(store: Store, *, limit: int = 100, now_ms: int = T0) -> list[JobRecord]:
    page = await store.list_repeating(TENANT, now_ms=now_ms, limit=limit)
    records = [*page.records]
    while page.cursor is not None:
        assert len(page.records) == limit
        page = await store.list_repeating(TENANT, now_ms=now_ms, cursor=page.cursor, limit=limit)
        records += page.records
    return records


async def add(store: Store, *jobtypes: str, begin: int = 1) -> None:
    jobs = [new_job(n, jobtype=jobtype, repeat=HOURLY) for n, jobtype in enumerate(jobtypes, begin)]
    await store.add_jobs(jobs, now_ms=T0)


@pytest.mark.parametrize("limit", [1, 2, 100])
async def test_they_come_in_order_of_type_and_id(store: Store, limit: int) -> None:
    await add(store, "acme-b", "acme-a.x", "acme-a", "acme-b", "acme-a")
    await store.add_jobs([new_job(8, jobtype="acme-a"), new_job(9, jobtype="other-a", repeat=HOURLY)], now_ms=T0)
    found = await everything(store, limit=limit)
    assert [(it.job.jobtype, it.job.id) for it in found] == [
        ("acme-a", job_id(3)),
        ("acme-a", job_id(5)),
        ("acme-a.x", job_id(2)),
        ("acme-b", job_id(1)),
        ("acme-b", job_id(4)),
    ]
    assert {it.job.repeat for it in found} == {HOURLY}
    assert {it.job.data for it in found} == {b""}


async def test_each_state_but_the_last_is_there_with_its_last_round(store: Store) -> None:
    await add(store, "acme-a", "acme-b", "acme-c", "acme-d")
    running, ended, rearmed = [(await claim(store, 1, jobtype=f"acme-{name}"))[0] for name in "abc"]
    await store.release_jobs(OWNER, [archive(ended)], now_ms=T0 + 1)
    next_round = Rearm(rearmed.id, rearmed.token, T0 + HOUR_MS, outcome(), None)
    await store.release_jobs(OWNER, [next_round], now_ms=T0 + 1)
    found = {it.job.id: it for it in await everything(store, now_ms=T0 + 1)}
    assert {key: it.state for key, it in found.items()} == {
        running.id: JobState.RUNNING,
        rearmed.id: JobState.DEFERRED,
        job_id(4): JobState.WAITING,
    }
    last = found[rearmed.id]
    assert last.outcome is not None
    assert (last.job.dt_ms, last.outcome.code, last.done_ms) == (T0 + HOUR_MS, outcome().code, T0 + 1)


async def test_who_no_longer_repeats_is_gone_and_who_begins_to_is_there(store: Store) -> None:
    first = [new_job(1, unique="a", repeat=HOURLY), new_job(2, unique="b")]
    again = [new_job(3, unique="a"), new_job(4, unique="b", repeat=HOURLY)]
    await store.create_jobs([*map(Creation, first), *map(Creation, again)], now_ms=T0)
    assert [it.job.id for it in await everything(store)] == [job_id(2)]


async def test_one_that_is_cancelled_is_gone(store: Store) -> None:
    await add(store, "acme-a", "acme-a")
    await store.cancel_job(TENANT, job_id(1), now_ms=T0 + 1)
    assert [it.job.id for it in await everything(store)] == [job_id(2)]
    await claim_one(store, jobtype="acme-a")


async def test_a_page_goes_on_where_the_last_one_ended_although_that_job_is_gone(store: Store) -> None:
    await add(store, "acme-a", "acme-a", "acme-b")
    page = await store.list_repeating(TENANT, now_ms=T0, limit=1)
    await store.cancel_job(TENANT, job_id(1), now_ms=T0 + 1)
    await add(store, "acme-b", begin=4)
    rest = await store.list_repeating(TENANT, now_ms=T0, cursor=page.cursor, limit=100)
    assert [it.job.id for it in rest.records] == [job_id(2), job_id(3), job_id(4)]
    assert rest.cursor is None


@pytest.mark.parametrize("cursor", ["", "x", "acme-a", "acme-a.", ".x", "other-a.1", "acme-a.\n", "acme-a.*", "\0.1"])
async def test_a_cursor_of_something_else_is_refused(store: Store, cursor: str) -> None:
    with pytest.raises(InvalidValue, match="is not one of a listing of jobs that repeat") as caught:
        await store.list_repeating(TENANT, now_ms=T0, cursor=cursor)
    assert caught.value.field == "cursor"


@pytest.mark.parametrize("limit", [0, 1001])
async def test_a_page_has_bounds(store: Store, limit: int) -> None:
    with pytest.raises(InvalidValue):
        await store.list_repeating(TENANT, now_ms=T0, limit=limit)
