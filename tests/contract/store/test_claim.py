"""Listing waiting types and claiming: order, leases, tokens, limits, concurrency."""

import asyncio
import itertools
import random
from typing import Any

import pytest

from store.base import Code, JobState, NewHandler, Retry, Store, Tenant, WaitingType
from store.errors import InvalidValue
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
    outcome,
)


async def test_a_claim_locks_and_counts(store: Store) -> None:
    await store.add_jobs([new_job(1, dt_ms=T0 - 100)], now_ms=T0)
    job = await claim_one(store, now_ms=T0 + 7)
    assert (job.lock, job.dt_ms, job.due_ms) == (OWNER, T0 + 7 + LEASE_MS, T0 - 100)
    assert (job.token, job.attempts, job.data) == (1, 1, b"payload 1")
    assert await claim(store) == []
    record = await store.get_job(TENANT, job.id, now_ms=T0 + 7)
    assert record is not None
    assert (record.job, record.state, record.claimed_ms) == (job, JobState.RUNNING, T0 + 7)


async def test_order_is_priority_then_due_time_then_id(store: Store) -> None:
    dice = random.Random(7)
    jobs = [new_job(n, priority=dice.choice((0, 500, 1000)), dt_ms=T0 - dice.randrange(5)) for n in range(100)]
    shuffled = jobs[:]
    dice.shuffle(shuffled)
    await store.add_jobs(shuffled, now_ms=T0)
    expected = sorted(jobs, key=lambda job: (-job.priority, job.dt_ms, job.id))
    claimed = [*await claim(store, 30), *await claim(store, 30), *await claim(store, 100)]
    assert ids(claimed) == ids(expected)


async def test_a_deferred_job_takes_its_place_when_it_comes_due(store: Store) -> None:
    await store.add_jobs([new_job(1, dt_ms=T0 + 50), new_job(2, dt_ms=T0 + 60)], now_ms=T0)
    await store.add_jobs([new_job(3, dt_ms=T0 + 55)], now_ms=T0 + 55)
    assert await claim(store, now_ms=T0 + 49) == []
    assert await store.get_waiting_jobtypes(now_ms=T0 + 49) == []
    assert [w.waiting for w in await store.get_waiting_jobtypes(now_ms=T0 + 57)] == [2]
    assert ids(await claim(store, now_ms=T0 + 57)) == [job_id(1), job_id(3)]
    assert ids(await claim(store, now_ms=T0 + 60)) == [job_id(2)]


async def test_the_store_says_when_the_next_deferred_job_comes_due(store: Store) -> None:
    assert await store.get_next_due(after_ms=T0) is None
    await store.set_handler(TENANT, NewHandler(JOBTYPE, "sh", b"true", T0))
    await store.add_jobs([new_job(1), new_job(2, dt_ms=T0 + 60), new_job(3, dt_ms=T0 + 50)], now_ms=T0)
    assert [await store.get_next_due(after_ms=T0 + later_ms) for later_ms in (0, 49, 50, 60)] == [
        T0 + 50,
        T0 + 50,
        T0 + 60,
        None,
    ]
    (first,) = await claim(store, 1)
    await store.release_jobs(OWNER, [Retry(first.id, first.token, T0 + 10, outcome(Code.RETRY))], now_ms=T0)
    assert await store.get_next_due(after_ms=T0) == T0 + 10, "one that is to be tried again"
    await store.set_type_paused(TENANT, JOBTYPE, paused=True)
    await store.add_jobs([new_job(4, jobtype=f"{TENANT}-unhandled", dt_ms=T0 + 5)], now_ms=T0)
    assert await store.get_next_due(after_ms=T0) is None, "nothing of that could run"


@pytest.mark.parametrize("others", ["domains", "keyed", pytest.param("types", marks=pytest.mark.slow), "unhandled"])
async def test_many_deferred_jobs_do_not_hide_the_next(store: Store, others: str) -> None:
    """Whoever asks again from each time that is said comes to it, and does not pass it."""
    await store.set_handler(TENANT, NewHandler(JOBTYPE, "sh", b"true", T0))
    if others == "domains":
        more = [new_job(n, domain=f"d{n}", dt_ms=T0 + 9000) for n in range(1001)]
    elif others == "keyed":
        more = [new_job(n, domain=f"d{n}", key="k", dt_ms=T0 + 9000) for n in range(1001)]
    elif others == "types":
        types = [f"{TENANT}-t{n}" for n in range(1001)]
        await asyncio.gather(*(store.set_handler(TENANT, NewHandler(name, "sh", b"true", T0)) for name in types))
        more = [new_job(n, jobtype=name, dt_ms=T0 + 9000) for n, name in enumerate(types)]
    else:
        more = [new_job(n, jobtype=f"{TENANT}-unhandled", dt_ms=T0 + 1 + n) for n in range(45)]
    key = {"key": "k"} if others == "keyed" else {}
    some = [new_job(2001, dt_ms=T0 + 50, **key), new_job(2002, domain="other", dt_ms=T0 + 60, **key)]
    await store.add_jobs([*more, *some], now_ms=T0)
    said: list[int] = [T0]
    while said[-1] < T0 + 60:
        next_ms = await store.get_next_due(after_ms=said[-1])
        assert next_ms is not None
        assert next_ms > said[-1]
        said.append(next_ms)
    assert said[-2:] == [T0 + 50, T0 + 60]
    assert len(said) <= 5, "in few steps"


async def test_waiting_types_say_count_age_and_handler(store: Store) -> None:
    await store.add_jobs(
        [new_job(1), new_job(2, dt_ms=T0 - 9, create_ms=T0 - 9, priority=0), new_job(3, dt_ms=T0 + 99)], now_ms=T0
    )
    assert await store.get_waiting_jobtypes(now_ms=T0) == [WaitingType(JOBTYPE, 2, T0 - 9, 0)]
    assert await store.get_waiting_jobtypes(now_ms=T0, runnable=True) == []
    handler = await store.set_handler(TENANT, NewHandler(JOBTYPE, "sh", b"true", T0))
    waiting = [WaitingType(JOBTYPE, 3, T0 - 9, handler.version)]
    assert await store.get_waiting_jobtypes(now_ms=T0 + 99) == waiting
    assert await store.get_waiting_jobtypes(now_ms=T0 + 99, runnable=True) == waiting
    await claim(store, now_ms=T0 + 99)
    assert await store.get_waiting_jobtypes(now_ms=T0 + 99) == []


async def test_a_claim_is_of_its_type_only(store: Store) -> None:
    await store.add_jobs(
        [new_job(1, jobtype="acme-a"), new_job(2, jobtype="acme-a-b"), new_job(3, jobtype="other-a")], now_ms=T0
    )
    assert ids(await claim(store, jobtype="acme-a")) == [job_id(1)]
    assert await claim(store, jobtype="acme-unknown") == []


@pytest.mark.parametrize("kind", [{}, {"domain": "d"}, {"key": "k"}])
async def test_a_claim_for_one_tenant_takes_nothing_of_another_of_its_name(store: Store, kind: dict[str, Any]) -> None:
    await store.add_jobs([new_job(1, **kind)], now_ms=T0)
    assert [each.tenant_created_ms for each in await store.get_waiting_jobtypes(now_ms=T0)] == [0]
    assert await claim(store, tenant_created_ms=5) == []
    assert ids(await claim(store, tenant_created_ms=0)) == [job_id(1)]
    while (await store.delete_tenant(TENANT)).more:
        pass
    for created_ms in (5, 6):
        await store.create_tenant(Tenant(TENANT, created_ms))
        await store.add_jobs(new_jobs(2, **kind), now_ms=T0)
        assert [each.tenant_created_ms for each in await store.get_waiting_jobtypes(now_ms=T0)] == [created_ms]
        for other in (0, 11 - created_ms):
            assert await claim(store, tenant_created_ms=other) == []
        assert ids(await claim(store, 1, tenant_created_ms=created_ms)) == [job_id(0)]
        assert ids(await claim(store)) == [job_id(1)]
        while (await store.delete_tenant(TENANT)).more:
            pass


async def test_paused_types_and_suspended_tenants_hand_out_nothing(store: Store) -> None:
    await store.create_tenant(Tenant(TENANT, T0))
    await store.add_jobs(new_jobs(2), now_ms=T0)
    await store.set_type_paused(TENANT, JOBTYPE, paused=True)
    assert (await store.get_waiting_jobtypes(now_ms=T0), await claim(store)) == ([], [])
    await store.add_jobs(new_jobs(1, start=2), now_ms=T0)
    await store.set_type_paused(TENANT, JOBTYPE, paused=False)
    assert len(await claim(store, 1)) == 1
    await store.update_tenant(TENANT, suspended=True)
    assert (await store.get_waiting_jobtypes(now_ms=T0), await claim(store)) == ([], [])
    await store.update_tenant(TENANT, suspended=False)
    assert len(await claim(store)) == 2


async def test_a_batch_ends_before_it_gets_too_big(store: Store) -> None:
    await store.add_jobs([new_job(n, data=b"x" * 1000 * n) for n in range(1, 5)], now_ms=T0)
    assert ids(await claim(store, max_bytes=3000)) == [job_id(1), job_id(2)]
    assert ids(await claim(store, max_bytes=0)) == [job_id(3)]
    assert ids(await claim(store)) == [job_id(4)]


@pytest.mark.parametrize(
    "call",
    [
        {"limit": 0},
        {"limit": 10_001},
        {"lease_ms": 0},
        {"owner": "__done"},
        {"owner": ""},
        {"owner": "UP"},
        {"jobtype": "acme"},
        {"max_bytes": -1},
    ],
    ids=str,
)
async def test_malformed_claims_are_refused(store: Store, call: dict[str, object]) -> None:
    arguments: dict[str, object] = {"jobtype": JOBTYPE, "limit": 1, "owner": OWNER, "lease_ms": 1, "now_ms": T0}
    with pytest.raises(InvalidValue):
        await store.claim_jobs(**(arguments | call))  # type: ignore[arg-type]  # wrong on purpose


async def test_many_claimers_get_no_job_twice(store: Store) -> None:
    await store.add_jobs(new_jobs(500), now_ms=T0)

    async def claimer(number: int) -> list[str]:
        taken: list[str] = []
        while batch := await claim(store, 7, owner=f"c{number}"):
            taken += ids(batch)
            await store.release_jobs(f"c{number}", [archive(job) for job in batch], now_ms=T0)
        return taken

    taken = list(itertools.chain(*await asyncio.gather(*(claimer(n) for n in range(12)))))
    assert sorted(taken) == ids(new_jobs(500))
    (counters,) = await store.get_counters(TENANT, now_ms=T0)
    assert (counters.waiting, counters.running, counters.ok) == (0, 0, 500)


async def test_waiting_types_tell_the_highest_priority_of_what_waits(store: Store) -> None:
    jobs = [
        new_job(0, jobtype="acme-urgent", priority=1000),
        new_job(1, jobtype="acme-urgent", priority=0),
        new_job(2, jobtype="acme-usual", priority=500),
        new_job(3, jobtype="acme-usual", priority=1000, dt_ms=T0 + 1000),
    ]
    await store.add_jobs(jobs, now_ms=T0)

    async def priorities(now_ms: int) -> dict[str, int]:
        return {row.jobtype: row.priority for row in await store.get_waiting_jobtypes(now_ms=now_ms)}

    assert await priorities(T0) == {"acme-urgent": 1000, "acme-usual": 500}
    assert await priorities(T0 + 1000) == {"acme-urgent": 1000, "acme-usual": 1000}
    await claim(store, 1, jobtype="acme-urgent")
    assert (await priorities(T0))["acme-urgent"] == 500, "what is left is not told from the usual"
