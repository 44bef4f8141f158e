"""Keys: the jobs of one key are a queue of their own, with a cap, and keys share the time of their type."""

from collections import Counter
from typing import Any

import pytest

from store.base import Code, ConsumerRecord, Job, JobChange, KeyState, RateDomain, Rearm, Store, Unclaim, WindowMove
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
    retry,
)


def keyed(numbers: range, key: str, **changes: Any) -> list[Any]:
    return [new_job(number, key=key, **changes) for number in numbers]


async def end(store: Store, *jobs: Job, now_ms: int = T0, **changes: Any) -> None:
    releases = [archive(job, **changes) for job in jobs]
    report = await store.release_jobs(jobs[0].lock, releases, now_ms=now_ms)
    assert report.applied == len(jobs)


async def test_a_key_is_kept_and_comes_back(store: Store) -> None:
    await store.add_jobs([new_job(1, key="ada"), new_job(2)], now_ms=T0)
    claimed = await claim(store)
    assert {job.id: job.key for job in claimed} == {job_id(1): "ada", job_id(2): ""}
    found = await store.get_job(TENANT, job_id(1), now_ms=T0)
    assert found is not None
    assert found.job.key == "ada"


async def test_with_a_cap_of_one_jobs_of_a_key_go_one_after_the_other_in_order(store: Store) -> None:
    await store.add_jobs(keyed(range(4), "ada") + keyed(range(10, 13), "bob"), now_ms=T0)
    order: list[str] = []
    for _ in range(4):
        jobs = await claim(store, max_per_key=1)
        assert len({job.key for job in jobs}) == len(jobs)
        assert await claim(store, max_per_key=1, owner="b2") == []
        order += ids(jobs)
        await end(store, *jobs)
    assert [each for each in order if each < job_id(10)] == ids(new_jobs(4))
    assert [each for each in order if each >= job_id(10)] == ids(new_jobs(3, start=10))


async def test_a_batch_takes_no_more_of_a_key_than_its_cap_leaves(store: Store) -> None:
    await store.add_jobs(keyed(range(10), "ada") + keyed(range(10, 12), "bob"), now_ms=T0)
    first = await claim(store, max_per_key=3)
    assert Counter(job.key for job in first) == {"ada": 3, "bob": 2}
    assert await claim(store, max_per_key=3) == []
    await end(store, *[job for job in first if job.key == "ada"][:2])
    again = await claim(store, max_per_key=3)
    assert ids(again) == [job_id(3), job_id(4)]
    assert await claim(store, max_per_key=3, owner="b2") == []
    assert len(await claim(store, max_per_key=5, now_ms=T0 + 1000)) == 2


async def test_without_a_cap_a_key_takes_what_there_is(store: Store) -> None:
    await store.add_jobs(keyed(range(10), "ada"), now_ms=T0)
    assert ids(await claim(store, 7)) == ids(new_jobs(7))
    assert ids(await claim(store, 7)) == ids(new_jobs(3, start=7))


async def test_a_job_between_two_attempts_holds_up_those_behind_it(store: Store) -> None:
    await store.add_jobs(keyed(range(3), "ada"), now_ms=T0)
    first = await claim_one(store, max_per_key=1)
    await store.release_jobs(OWNER, [retry(first, T0 + 5000)], now_ms=T0)
    assert await claim(store, max_per_key=1, now_ms=T0 + 4999) == []
    second = await claim_one(store, max_per_key=1, now_ms=T0 + 5000)
    assert (second.id, second.attempts) == (first.id, 2)
    await end(store, second, now_ms=T0 + 5000)
    assert ids(await claim(store, max_per_key=1, now_ms=T0 + 5000)) == [job_id(1)]


async def test_with_a_higher_cap_it_does_not(store: Store) -> None:
    await store.add_jobs(keyed(range(3), "ada"), now_ms=T0)
    first, _ = await claim(store, 2, max_per_key=2)
    await store.release_jobs(OWNER, [retry(first, T0 + 5000)], now_ms=T0)
    assert ids(await claim(store, max_per_key=2)) == [job_id(2)]


async def test_a_job_to_be_tried_again_keeps_its_place_while_there_is_no_token_for_it(store: Store) -> None:
    await store.set_rate_domain(RateDomain(TENANT, "api", 0.25, 1), now_ms=T0)
    await store.add_jobs([new_job(1, key="ada", domain="api"), new_job(2, key="ada")], now_ms=T0)
    first = await claim_one(store, max_per_key=1)
    await store.release_jobs(OWNER, [retry(first, T0 + 10)], now_ms=T0)
    for at_ms in (20, 1100, 2200, 3300):
        assert await claim(store, now_ms=T0 + at_ms, max_per_key=1) == [], at_ms
    assert ids(await claim(store, now_ms=T0 + 4400, max_per_key=1)) == [first.id]


async def test_a_job_to_be_tried_again_keeps_its_place_while_there_is_no_room_for_it(store: Store) -> None:
    await store.add_jobs([new_job(1, key="ada", data=b"x" * 3000), new_job(2, key="ada")], now_ms=T0)
    first = await claim_one(store, max_per_key=1)
    await store.release_jobs(OWNER, [retry(first, T0 + 10)], now_ms=T0)
    await store.add_jobs([new_job(3, data=b"x" * 3000), new_job(4, data=b"x" * 3000)], now_ms=T0)
    for at_ms in (20, 1100):
        assert first.id not in ids(await claim(store, now_ms=T0 + at_ms, max_per_key=1, max_bytes=4000))
    assert ids(await claim(store, now_ms=T0 + 2200, max_per_key=1, max_bytes=4000)) == [first.id]


@pytest.mark.parametrize("cap", [2, None])
async def test_after_the_cap_became_one_nothing_overtakes_jobs_to_be_tried_again(store: Store, cap: int | None) -> None:
    await store.add_jobs(keyed(range(2), "ada"), now_ms=T0)
    both = await claim(store, max_per_key=cap)
    await store.release_jobs(OWNER, [retry(job, T0 + 5000 + n) for n, job in enumerate(both)], now_ms=T0)
    await store.add_jobs(keyed(range(2, 4), "ada"), now_ms=T0)
    await end(store, *await claim(store, 1, max_per_key=cap))
    order: list[str] = []
    for now_ms in (T0 + 1, T0 + 6000, T0 + 6000, T0 + 6000):
        jobs = await claim(store, now_ms=now_ms, max_per_key=1)
        order += ids(jobs)
        if jobs:
            await end(store, *jobs, now_ms=now_ms)
    assert order == [job_id(0), job_id(1), job_id(3)]


async def test_a_job_to_be_tried_again_that_a_new_consumer_holds_back_keeps_its_place(store: Store) -> None:
    await store.add_jobs(keyed(range(2), "ada", indexed=True), now_ms=T0)
    first = await claim_one(store, max_per_key=1)
    await store.release_jobs(OWNER, [retry(first, T0 + 5000)], now_ms=T0)
    await store.set_consumer(ConsumerRecord(TENANT, "c", JOBTYPE, "{}", T0))
    (consumer,) = await store.lead_consumers(OWNER, lease_ms=LEASE_MS, now_ms=T0)
    await store.hold_jobs(TENANT, "c", consumer.token, after=0, now_ms=T0)
    assert await claim(store, max_per_key=1) == []
    await store.move_window(WindowMove(TENANT, "c", consumer.token, 0, 2, 0, skip_failed=True, note=""), now_ms=T0)
    assert await claim(store, max_per_key=1) == []
    assert ids(await claim(store, max_per_key=1, now_ms=T0 + 5000)) == [first.id]


async def test_a_job_that_runs_in_another_type_is_not_one_of_the_key_that_it_left(store: Store) -> None:
    await store.add_jobs(keyed(range(2), "ada"), now_ms=T0)
    first = await claim_one(store, max_per_key=1)
    await store.move_job(TENANT, first.id, "acme-other", dt_ms=T0, now_ms=T0, token=first.token)
    await claim_one(store, max_per_key=1, jobtype="acme-other")
    assert await store.get_key_state(TENANT, JOBTYPE, "ada", limit=5, now_ms=T0) == KeyState((), "", job_id(1))


async def test_the_first_of_a_key_is_the_first_that_is_due(store: Store) -> None:
    jobs = [new_job(1, dt_ms=T0 + 5, priority=1000), new_job(2), new_job(3, dt_ms=T0 - 1), new_job(4, priority=1000)]
    await store.add_jobs([job._replace(key="ada") for job in jobs], now_ms=T0)
    order: list[str] = []
    for now_ms in (T0, T0 + 4, T0 + 4, T0 + 4, T0 + 5):
        state = await store.get_key_state(TENANT, JOBTYPE, "ada", limit=5, now_ms=now_ms)
        order.append(state.first)
        if state.first:
            await store.cancel_job(TENANT, state.first, now_ms=now_ms)
    assert order == [job_id(4), job_id(3), job_id(2), "", job_id(1)]


async def test_a_job_that_was_given_back_or_lapsed_is_first_again(store: Store) -> None:
    await store.add_jobs(keyed(range(3), "ada"), now_ms=T0)
    first = await claim_one(store, max_per_key=1)
    await store.release_jobs(OWNER, [Unclaim(first.id, first.token)], now_ms=T0)
    again = await claim_one(store, max_per_key=1)
    assert (again.id, again.attempts) == (first.id, 1)
    later = T0 + LEASE_MS + 1
    assert await claim(store, max_per_key=1, now_ms=later) == [], "a lapsed lease counts until it is expired"
    assert await store.expire_locks(now_ms=later) == 1
    first = await claim_one(store, max_per_key=1, now_ms=later)
    assert first.id == job_id(0)
    await store.release_jobs(OWNER, [Rearm(first.id, first.token, later + 3_600_000, outcome())], now_ms=later)
    assert ids(await claim(store, max_per_key=1, now_ms=later)) == [job_id(1)], "a round is over"


async def test_cancelling_and_deferring_let_the_next_one_go(store: Store) -> None:
    await store.add_jobs(keyed(range(4), "ada"), now_ms=T0)
    running = await claim_one(store, max_per_key=1)
    await store.cancel_job(TENANT, job_id(1), now_ms=T0)
    await store.update_job(TENANT, job_id(2), JobChange(dt_ms=T0 + 1000), now_ms=T0)
    await end(store, running)
    assert ids(await claim(store, max_per_key=1)) == [job_id(3)]
    await store.cancel_job(TENANT, job_id(3), now_ms=T0, running=True)
    assert await claim(store, max_per_key=1, now_ms=T0 + 999) == []
    assert ids(await claim(store, max_per_key=1, now_ms=T0 + 1000)) == [job_id(2)]


async def test_a_replayed_or_moved_job_waits_for_its_turn(store: Store) -> None:
    await store.add_jobs(keyed(range(2), "ada"), now_ms=T0)
    await end(store, await claim_one(store, max_per_key=1))
    await claim_one(store, max_per_key=1)
    assert await store.replay_jobs(TENANT, [job_id(0)], dt_ms=T0, now_ms=T0) == (job_id(0),)
    assert await claim(store, max_per_key=1) == []
    await store.move_job(TENANT, job_id(0), "acme-other", dt_ms=T0, now_ms=T0)
    moved = await claim_one(store, max_per_key=1, jobtype="acme-other")
    assert (moved.id, moved.key) == (job_id(0), "ada")


async def test_priority_orders_the_jobs_of_a_key_but_not_the_keys(store: Store) -> None:
    await store.add_jobs(keyed(range(2), "ada"), now_ms=T0)
    await store.create_job(new_job(2, key="ada", unique="u"), now_ms=T0)
    await store.add_jobs([new_job(9, key="ada", priority=1000), new_job(10, key="bob", priority=0)], now_ms=T0)
    first = await claim(store, max_per_key=1)
    assert ids(first) == [job_id(9), job_id(10)]
    await store.create_job(new_job(11, key="ada", unique="u", priority=1000), now_ms=T0)
    await end(store, *first)
    assert ids(await claim(store, max_per_key=1)) == [job_id(2)]


async def test_a_job_whose_domain_has_no_token_holds_up_its_key_and_no_other(store: Store) -> None:
    await store.set_rate_domain(RateDomain(TENANT, "api", rate_per_s=2.0, burst=1), now_ms=T0)
    await store.add_jobs([new_job(0, key="ada", domain="api"), new_job(1, key="ada", domain="api")], now_ms=T0)
    await store.add_jobs([new_job(2, key="ada"), new_job(3, key="bob")], now_ms=T0)
    assert sorted(ids(await claim(store))) == [job_id(0), job_id(3)]
    assert await claim(store, now_ms=T0 + 499) == []
    assert ids(await claim(store, now_ms=T0 + 500)) == [job_id(1), job_id(2)]


async def test_a_paused_type_gives_nothing_and_its_jobs_are_counted(store: Store) -> None:
    await store.add_jobs(keyed(range(2), "ada"), now_ms=T0)
    await store.set_type_paused(TENANT, JOBTYPE, paused=True)
    assert await claim(store, max_per_key=1) == []
    await store.set_type_paused(TENANT, JOBTYPE, paused=False)
    job = await claim_one(store, max_per_key=1)
    await end(store, job, code=Code.FAILED)
    (row,) = await store.get_counters(TENANT, now_ms=T0)
    assert (row.waiting, row.running, row.failed) == (1, 0, 1)


async def test_jobs_with_and_without_a_key_share_a_type(store: Store) -> None:
    await store.add_jobs(new_jobs(20), now_ms=T0)
    await store.add_jobs([job for n in range(20) for job in keyed(range(100 + n, 101 + n), f"k{n}")], now_ms=T0)
    for now_ms in (T0, T0 + 1):
        both = Counter(bool(job.key) for job in await claim(store, 6, now_ms=now_ms))
        assert both == {True: 3, False: 3}
    kinds = {(await claim_one(store, now_ms=T0 + n)).key == "" for n in range(2)}
    assert kinds == {True, False}
    assert len(await claim(store, 100)) == 26


async def test_keys_share_the_time_of_their_type(store: Store) -> None:
    """One key has long jobs, another short ones, each many: they get the same time, not the same number of jobs."""
    await store.add_jobs(keyed(range(200), "short") + keyed(range(200, 230), "long"), now_ms=T0)
    ran: Counter[str] = Counter()
    for _ in range(60):
        job = await claim_one(store)
        ran[job.key] += 1
        await end(store, job, duration_us=9000 if job.key == "long" else 1000)
    assert ran == {"short": 50, "long": 10}


async def test_a_quiet_key_is_next_beside_a_hundred_that_flood(store: Store) -> None:
    floods = [job for n in range(100) for job in keyed(range(n * 5, n * 5 + 5), f"flood{n}")]
    await store.add_jobs(floods, now_ms=T0)
    await end(store, *await claim(store, 100, max_per_key=1), duration_us=200_000)
    for round_ in range(6):
        await end(store, *await claim(store, 40, max_per_key=1), duration_us=20_000)
        await store.add_jobs([new_job(1000 + round_, key="quiet")], now_ms=T0)
        batch = await claim(store, 2, max_per_key=1)
        assert batch[0].key == "quiet", round_
        await end(store, *batch, duration_us=20_000)


async def test_a_key_that_slept_has_saved_up_little(store: Store) -> None:
    await store.add_jobs(keyed(range(300, 301), "late"), now_ms=T0)
    await end(store, await claim_one(store))
    await store.add_jobs(keyed(range(100), "busy"), now_ms=T0)
    for _ in range(30):
        await end(store, await claim_one(store), duration_us=24_000)
    await store.add_jobs(keyed(range(200, 260), "late"), now_ms=T0)
    ran: Counter[str] = Counter()
    for _ in range(20):
        job = await claim_one(store)
        ran[job.key] += 1
        await end(store, job, duration_us=24_000)
    assert ran["late"] - ran["busy"] in {4, 5, 6}


@pytest.mark.parametrize("is_replayed", [False, True], ids=["deferred", "replayed"])
async def test_a_key_whose_jobs_were_not_due_has_saved_up_little(store: Store, *, is_replayed: bool) -> None:
    later = T0 + 1000
    bobs = keyed(range(30), "bob", dt_ms=T0 if is_replayed else later)
    await store.add_jobs(bobs, now_ms=T0)
    if is_replayed:
        await end(store, *await claim(store), duration_us=0)
    await store.add_jobs(keyed(range(100, 200), "ada"), now_ms=T0)
    for _ in range(40):
        await end(store, await claim_one(store), duration_us=1_000_000)
    if is_replayed:
        await store.replay_jobs(TENANT, ids(bobs), dt_ms=later, now_ms=later)
    ran: Counter[str] = Counter()
    for _ in range(20):
        job = await claim_one(store, now_ms=later)
        ran[job.key] += 1
        await end(store, job, now_ms=later, duration_us=1_000_000)
    assert abs(ran["ada"] - ran["bob"]) <= 2, ran


async def test_a_claim_is_bounded_in_bytes(store: Store) -> None:
    await store.add_jobs([new_job(n, key=f"k{n % 3}", data=b"x" * 1000) for n in range(9)], now_ms=T0)
    assert len(await claim(store, max_per_key=1, max_bytes=2500)) == 2
    assert len(await claim(store, max_per_key=9, max_bytes=10)) == 1


async def test_a_duplicate_changes_nothing(store: Store) -> None:
    await store.add_jobs(keyed(range(2), "ada"), now_ms=T0)
    report = await store.add_jobs(keyed(range(3), "ada"), now_ms=T0)
    assert (report.added, report.duplicates) == (1, 2)
    jobs = await claim(store)
    assert len(jobs) == 3
    await end(store, *jobs)
    assert await store.delete_jobs(TENANT, ids(jobs), now_ms=T0) == 3
    await store.add_jobs(keyed(range(10, 12), "ada"), now_ms=T0)
    assert len(await claim(store, max_per_key=1)) == 1


async def test_what_is_malformed_is_refused(store: Store) -> None:
    for key in ("a\nb", "x" * 256, "\udc80"):
        with pytest.raises(InvalidValue, match="key"):
            await store.add_jobs([new_job(1, key=key)], now_ms=T0)
    for cap in (0, -1, 10_001):
        with pytest.raises(InvalidValue, match="max_per_key"):
            await claim(store, max_per_key=cap)
    with pytest.raises(InvalidValue, match="not plain"):
        await store.add_running_jobs(OWNER, [new_job(1, key="ada")], lease_ms=LEASE_MS, now_ms=T0)


LATER = new_job(99, key="ada", dt_ms=T0 + 10**6)
"""With it the type has keys, and nothing of a key is due."""


async def test_jobs_without_a_domain_are_not_overtaken_by_those_behind_them(store: Store) -> None:
    await store.add_jobs([LATER, *new_jobs(2, priority=1000, domain="free"), *new_jobs(6, 10)], now_ms=T0)
    assert ids(await claim(store, 4)) == ids([*new_jobs(2), *new_jobs(2, 10)])


@pytest.mark.parametrize("domain", ["free", ""])
@pytest.mark.parametrize("now_ms", [T0, T0 + 1])
async def test_a_claim_takes_all_there_is_also_if_nothing_of_a_key_is_due(
    store: Store, domain: str, now_ms: int
) -> None:
    await store.add_jobs([LATER, *new_jobs(8, domain=domain)], now_ms=T0)
    assert len(await claim(store, 1, now_ms=now_ms)) == 1
    assert len(await claim(store, 7, now_ms=now_ms)) == 7


async def test_a_job_that_does_not_fit_is_not_overtaken_by_one_that_would(store: Store) -> None:
    jobs = [new_job(0, data=b"x" * 10), new_job(1, data=b"x" * 100), *new_jobs(4, 2, data=b"x")]
    await store.add_jobs([LATER, *jobs], now_ms=T0)
    assert ids(await claim(store, 4, max_bytes=50)) == [job_id(0)]


async def test_a_job_without_a_domain_is_served_while_those_of_a_domain_keep_coming(store: Store) -> None:
    await store.add_jobs([LATER, *new_jobs(2)], now_ms=T0)
    served = []
    for number in range(100, 130, 10):
        await store.add_jobs(new_jobs(2, number, priority=1000, domain="free"), now_ms=T0)
        await store.add_jobs(new_jobs(2, number + 5), now_ms=T0)
        served += ids(await claim(store, 4))
    assert set(ids(new_jobs(2))) <= set(served)
