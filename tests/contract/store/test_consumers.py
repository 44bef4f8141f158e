"""Consumers in the store: numbers and held jobs, windows that move, leaders that change, records that come and go."""

import asyncio
from typing import Any

import pytest

from store.base import (
    Code,
    ConsumerRecord,
    EndReport,
    HoldReport,
    IndexEnd,
    JobChange,
    JobState,
    NewHandler,
    Store,
    WindowMove,
    WindowReport,
)
from store.errors import Conflict, InvalidValue, NotFound
from store.names import AHEAD_MS
from store.values.consumers import MAX_WINDOW
from tests.support.jobs import JOBTYPE, LEASE_MS, OWNER, T0, TENANT, archive, claim, ids, job_id, new_job, new_jobs
from tests.support.store_audit import check_counters

NAME = "verify"
CONSUMER = ConsumerRecord(TENANT, NAME, JOBTYPE, '{"max_processing": 2}', T0)


async def lead(store: Store, owner: str = OWNER, now_ms: int = T0) -> int:
    """The token under which the owner leads the consumer."""
    (record,) = await store.lead_consumers(owner, lease_ms=LEASE_MS, now_ms=now_ms)
    return record.token


async def move(store: Store, token: int, **changes: Any) -> WindowReport:
    wanted = WindowMove(TENANT, NAME, token, 0, 0, 0, skip_failed=False, note="")._replace(**changes)
    return await store.move_window(wanted, now_ms=T0)


async def states(store: Store, count: int) -> list[JobState]:
    found = [await store.get_job_at(TENANT, JOBTYPE, seq, now_ms=T0) for seq in range(1, count + 1)]
    return [record.state for record in found if record is not None]


async def end(store: Store, codes: list[Code]) -> None:
    jobs = sorted(await claim(store), key=lambda job: job.seq or 0)
    await store.release_jobs(OWNER, [archive(job, code) for job, code in zip(jobs, codes, strict=True)], now_ms=T0)


async def test_jobs_of_a_consumed_type_are_numbered_and_held_until_they_are_let_in(store: Store) -> None:
    assert await store.set_consumer(CONSUMER)
    token = await lead(store)
    await store.add_jobs([*new_jobs(5), new_job(9, dt_ms=T0 + 1000)], now_ms=T0)
    assert await store.get_waiting_jobtypes(now_ms=T0) == []
    assert await claim(store) == []
    assert await states(store, 6) == [JobState.PAUSED] * 6
    await check_counters(store, TENANT, T0)
    assert await move(store, token, released=2) == WindowReport(6, 0, 2, ())
    assert [job.seq for job in await claim(store)] == [1, 2]
    assert await move(store, token, released=9, after=2) == WindowReport(6, 0, 6, ())
    assert await states(store, 6) == [JobState.RUNNING] * 2 + [JobState.WAITING] * 3 + [JobState.DEFERRED]
    assert [job.seq for job in await claim(store)] == [3, 4, 5]
    await check_counters(store, TENANT, T0)


async def test_jobs_are_held_also_if_they_come_with_those_of_another_type(store: Store) -> None:
    await store.set_consumer(CONSUMER, start_index=3)
    mixed = [new_job(n, jobtype=JOBTYPE if n % 2 else "acme-other") for n in range(1, 9)]
    await store.add_jobs(mixed, now_ms=T0)
    assert await states(store, 4) == [JobState.WAITING, JobState.WAITING, JobState.PAUSED, JobState.PAUSED]
    assert len(await claim(store, jobtype="acme-other")) == 4
    await check_counters(store, TENANT, T0)


async def test_jobs_that_are_let_in_already_are_not_held(store: Store) -> None:
    await store.add_jobs(new_jobs(1, indexed=True), now_ms=T0)
    await store.set_consumer(CONSUMER, start_index=3)
    await store.add_jobs(new_jobs(3, start=1), now_ms=T0)
    assert await states(store, 4) == [JobState.WAITING, JobState.WAITING, JobState.PAUSED, JobState.PAUSED]
    report = await store.look_at_window(TENANT, JOBTYPE, after=2, until=4)
    assert report == WindowReport(4, 2, 2, ())
    await check_counters(store, TENANT, T0)


async def test_created_jobs_are_held_too_and_children_are_their_parents(store: Store) -> None:
    await store.add_jobs([new_job(0, jobtype="acme-parent")], now_ms=T0)
    (parent,) = await claim(store, jobtype="acme-parent")
    await store.set_consumer(CONSUMER)
    token = await lead(store)
    named = await store.create_job(new_job(1, unique="u"), now_ms=T0)
    plain = await store.create_job(new_job(2), now_ms=T0)
    child = await store.create_job(new_job(3, parent=parent.id), now_ms=T0)
    assert {named.state, plain.state, child.state} == {JobState.PAUSED}
    await check_counters(store, TENANT, T0)
    await move(store, token, released=3)
    assert await states(store, 3) == [JobState.WAITING, JobState.WAITING, JobState.PAUSED]
    await store.release_jobs(OWNER, [archive(parent)], now_ms=T0)
    assert (await states(store, 3))[2] == JobState.WAITING
    await check_counters(store, TENANT, T0)


async def test_progress_goes_no_further_than_what_is_over(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    token = await lead(store)
    await store.add_jobs(new_jobs(6), now_ms=T0)
    await move(store, token, released=4)
    one, two, three, four = sorted(await claim(store), key=lambda job: job.seq or 0)
    await store.release_jobs(OWNER, [archive(one), archive(three), archive(four, Code.FAILED)], now_ms=T0)
    report = await move(store, token, processed=4, released=4)
    assert report == WindowReport(6, 1, 4, (
        IndexEnd(1, job_id(0), Code.OK), IndexEnd(3, job_id(2), Code.OK), IndexEnd(4, job_id(3), Code.FAILED)
    ))  # fmt: skip
    await store.release_jobs(OWNER, [archive(two)], now_ms=T0)
    assert (await move(store, token, processed=6, released=4)).processed == 3, "a failure stops it"
    assert (await move(store, token, processed=2, released=1)).processed == 3, "it never falls"
    assert (await move(store, token, processed=6, released=4, skip_failed=True)).processed == 4, "5 was not let in"
    assert (await store.get_index_state(TENANT, JOBTYPE)).processed == 4


async def test_nothing_more_is_let_in_by_a_leader_that_is_wrong_about_an_index(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    token = await lead(store)
    await store.add_jobs(new_jobs(4), now_ms=T0)
    await move(store, token, released=2)
    first, _ = sorted(await claim(store), key=lambda job: job.seq or 0)
    await store.release_jobs(OWNER, [archive(first)], now_ms=T0)
    assert (await move(store, token, processed=2, released=4))[:3] == (4, 1, 2)
    assert await states(store, 4) == [JobState.ARCHIVED, JobState.RUNNING, JobState.PAUSED, JobState.PAUSED]
    assert (await store.look_at_window(TENANT, JOBTYPE, after=0, until=0)).released == 2
    assert (await move(store, token, processed=1, released=3))[:3] == (4, 1, 3)


async def test_a_deleted_job_is_over(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    token = await lead(store)
    await store.add_jobs(new_jobs(4), now_ms=T0)
    await move(store, token, released=3)
    await end(store, [Code.FAILED] * 3)
    await store.delete_jobs(TENANT, [job_id(0), job_id(2)], now_ms=T0)
    report = await move(store, token, processed=4, released=3)
    assert report.processed == 1
    assert report.ends == (IndexEnd(1, "", None), IndexEnd(2, job_id(1), Code.FAILED), IndexEnd(3, "", None))


async def test_the_last_numbers_of_many_types_in_one_read(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    await store.add_jobs([*new_jobs(4), *new_jobs(2, 50, jobtype="acme-plain")], now_ms=T0)
    await store.add_jobs(new_jobs(3, 80, jobtype="other-numbered", indexed=True), now_ms=T0)
    jobtypes = ["other-numbered", "acme-plain", JOBTYPE, "acme-nobody"]
    assert await store.get_last_numbers(jobtypes) == [3, 0, 4, 0]
    assert await store.get_last_numbers([]) == []


async def test_who_began_to_lead_while_the_clock_was_ahead_is_replaced(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    ahead = T0 + 30 * 86_400_000
    first = await lead(store, "a1", ahead)
    assert await store.lead_consumers("b2", lease_ms=LEASE_MS, now_ms=ahead - AHEAD_MS) == [], "clocks may differ so"
    second = await lead(store, "b2", T0)
    assert second > first
    assert await store.lead_consumers("a1", lease_ms=LEASE_MS, now_ms=T0) == []


async def test_one_leads_and_who_was_replaced_changes_nothing(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    first = await lead(store, "a1")
    await store.add_jobs(new_jobs(3), now_ms=T0)
    assert await store.lead_consumers("b2", lease_ms=LEASE_MS, now_ms=T0 + LEASE_MS - 1) == []
    assert await lead(store, "a1", T0 + 10) == first, "renewed"
    second = await lead(store, "b2", T0 + 10 + LEASE_MS)
    assert second > first
    assert await store.lead_consumers("a1", lease_ms=LEASE_MS, now_ms=T0 + LEASE_MS) == []
    with pytest.raises(Conflict, match="another leader"):
        await move(store, first, released=3)
    with pytest.raises(Conflict, match="another leader"):
        await store.hold_jobs(TENANT, NAME, first, after=0, now_ms=T0)
    assert await states(store, 3) == [JobState.PAUSED] * 3
    await move(store, second, released=1, note="mine")
    record = await store.get_consumer(TENANT, NAME)
    assert record is not None
    assert (record.leader, record.token, record.note) == ("b2", second, "mine")
    await store.resign_consumers("b2")
    assert await lead(store, "a1", T0 + 20) > second, "nobody waits for who resigned"


async def test_of_many_that_want_to_lead_one_does(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    asked = [store.lead_consumers(owner, lease_ms=LEASE_MS, now_ms=T0) for owner in ("a1", "b2", "c3", "d4")]
    led = [records for records in await asyncio.gather(*asked) if records]
    assert len(led) == 1


async def test_no_more_new_ones_are_led_than_asked_for(store: Store) -> None:
    for number in range(4):
        await store.set_consumer(CONSUMER._replace(name=f"c{number}", jobtype=f"acme-t{number}"))
    assert await store.lead_consumers("a1", lease_ms=LEASE_MS, now_ms=T0, limit=0) == []
    mine = await store.lead_consumers("a1", lease_ms=LEASE_MS, now_ms=T0, limit=3)
    assert len(mine) == 3
    assert len(await store.lead_consumers("b2", lease_ms=LEASE_MS, now_ms=T0, limit=3)) == 1
    assert await store.lead_consumers("a1", lease_ms=2 * LEASE_MS, now_ms=T0, limit=0) == [
        record._replace(until_ms=T0 + 2 * LEASE_MS) for record in mine
    ]


async def test_a_stopped_consumer_has_no_leader(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    token = await lead(store)
    await store.set_consumer_running(TENANT, NAME, running=False)
    with pytest.raises(Conflict):
        await move(store, token)
    assert await store.lead_consumers("b2", lease_ms=LEASE_MS, now_ms=T0) == []
    await store.set_consumer_running(TENANT, NAME, running=True)
    assert await lead(store) > token
    with pytest.raises(NotFound, match="has no consumer gone"):
        await store.set_consumer_running(TENANT, "gone", running=True)


async def test_records(store: Store) -> None:
    assert await store.get_consumer(TENANT, NAME) is None
    assert await store.set_consumer(CONSUMER)
    assert not await store.set_consumer(CONSUMER._replace(settings="{}", created_ms=T0 + 1))
    assert await store.get_consumer(TENANT, NAME) == CONSUMER._replace(settings="{}")
    with pytest.raises(Conflict, match="delete it first"):
        await store.set_consumer(CONSUMER._replace(jobtype="acme-other"))
    with pytest.raises(Conflict, match=f"has a consumer already: {NAME}"):
        await store.set_consumer(CONSUMER._replace(name="second"))
    other = ConsumerRecord("zeta", NAME, "zeta-x", "", T0, is_running=False)
    await store.set_consumer(other)
    assert await store.list_consumers("zeta") == [other]
    assert [record.tenant for record in await store.list_consumers()] == [TENANT, "zeta"]
    assert [record.tenant for record in await store.lead_consumers(OWNER, lease_ms=1, now_ms=T0)] == [TENANT]
    await store.delete_tenant("zeta")
    assert await store.list_consumers("zeta") == []


async def test_jobs_that_were_queued_before_are_held_in_steps(store: Store) -> None:
    await store.add_jobs([*new_jobs(7, indexed=True), new_job(8, indexed=True, dt_ms=T0 + 5), new_job(9)], now_ms=T0)
    running = await claim(store, 1)
    await store.set_consumer(CONSUMER)
    token = await lead(store)
    after: int | None = 0
    held = []
    while after is not None:
        report = await store.hold_jobs(TENANT, NAME, token, after=after, now_ms=T0, limit=3)
        held.append(report.held)
        after = report.after
    assert held == [2, 3, 2]
    assert [job.id for job in running] == [job_id(0)]
    assert ids(await claim(store)) == [job_id(9)], "only what has no number is left"
    await check_counters(store, TENANT, T0)
    assert await store.hold_jobs(TENANT, NAME, token, after=0, now_ms=T0) == HoldReport(0, None)
    await move(store, token, released=8)
    assert len(await claim(store, now_ms=T0 + 5)) == 7
    await check_counters(store, TENANT, T0 + 5)


async def test_the_end_of_a_consumer_frees_its_jobs_in_steps(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    token = await lead(store)
    await store.add_jobs(new_jobs(5), now_ms=T0)
    await move(store, token, released=1)
    await end(store, [Code.OK])
    await move(store, token, processed=1, released=1)
    assert await store.end_consumer(TENANT, NAME, now_ms=T0, limit=3) == EndReport(3, more=True)
    with pytest.raises(Conflict, match="being deleted"):
        await store.set_consumer(CONSUMER)
    with pytest.raises(Conflict):
        await move(store, token, released=5)
    await store.add_jobs([new_job(6)], now_ms=T0)
    assert await store.end_consumer(TENANT, NAME, now_ms=T0, limit=3) == EndReport(1, more=False)
    assert len(await claim(store)) == 5, "what came after the first step is not held"
    assert await store.get_consumer(TENANT, NAME) is None
    with pytest.raises(NotFound):
        await store.end_consumer(TENANT, NAME, now_ms=T0)
    assert (await store.get_index_state(TENANT, JOBTYPE))[:2] == (5, 1), "numbers and progress stay"
    assert await store.set_consumer(CONSUMER), "a new one goes on from there"
    assert (await store.look_at_window(TENANT, JOBTYPE, after=0, until=0))[1:3] == (1, 1)
    await check_counters(store, TENANT, T0)


async def test_held_jobs_can_be_changed_and_cancelled(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    token = await lead(store)
    await store.create_job(new_job(0, unique="u"), now_ms=T0)
    await store.add_jobs(new_jobs(2, start=1), now_ms=T0)
    await store.create_job(new_job(3, unique="u", priority=1000, data=b"new"), now_ms=T0)
    await store.update_job(TENANT, job_id(0), JobChange(data=b"newer", dt_ms=T0 + 7), now_ms=T0)
    await store.cancel_job(TENANT, job_id(1), now_ms=T0)
    await check_counters(store, TENANT, T0)
    report = await move(store, token, released=3)
    assert report.ends == (IndexEnd(2, job_id(1), Code.CANCELLED),)
    assert [job.seq for job in await claim(store, now_ms=T0 + 7)] == [1, 3]
    await check_counters(store, TENANT, T0 + 7)


async def test_a_type_with_a_consumer_is_closed_to_the_straight_way(store: Store) -> None:
    await store.set_handler(TENANT, NewHandler(JOBTYPE, "sh", b"", T0))
    assert (await store.get_type_gates([JOBTYPE]))[0].is_open
    await store.set_consumer(CONSUMER)
    assert not (await store.get_type_gates([JOBTYPE]))[0].is_open
    await store.end_consumer(TENANT, NAME, now_ms=T0)
    assert (await store.get_type_gates([JOBTYPE]))[0].is_open


async def test_progress_moves_at_most_a_window_at_once(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    token = await lead(store)
    assert await move(store, token, processed=MAX_WINDOW, released=MAX_WINDOW) == WindowReport(0, 0, 0, ())
    assert await store.look_at_window(TENANT, "acme-none", after=0, until=9) == WindowReport(0, 0, 0, ())


async def append(store: Store, token: int, seq: int, number: int) -> bool:
    return await store.append_job(TENANT, NAME, token, seq, new_job(number), now_ms=T0)


async def test_a_number_of_a_pulled_consumer_gets_one_job_however_often_it_is_asked_for(store: Store) -> None:
    await store.set_consumer(CONSUMER._replace(is_pulled=True), start_index=5)
    token = await lead(store)
    assert await append(store, token, 5, 0)
    assert not await append(store, token, 5, 1)
    assert await append(store, token, 6, 2)
    assert not await append(store, token, 5, 3)
    with pytest.raises(Conflict, match="the next number of acme-thumb is 7"):
        await append(store, token, 9, 4)
    await check_counters(store, TENANT, T0)
    assert await move(store, token, released=6, after=4) == WindowReport(6, 4, 6, ())
    assert [(job.seq, job.id) for job in await claim(store)] == [(5, job_id(0)), (6, job_id(2))]
    await check_counters(store, TENANT, T0)


async def test_other_jobs_of_a_pulled_type_get_no_number(store: Store) -> None:
    await store.set_consumer(CONSUMER._replace(is_pulled=True))
    token = await lead(store)
    await store.add_jobs([new_job(1), new_job(2, indexed=True)], now_ms=T0)
    assert await append(store, token, 1, 0)
    assert ids(await claim(store)) == [job_id(1), job_id(2)], "they run as any other"
    record = await store.get_job_at(TENANT, JOBTYPE, 1, now_ms=T0)
    assert record is not None
    assert (record.job.id, record.state) == (job_id(0), JobState.PAUSED)
    await store.end_consumer(TENANT, NAME, now_ms=T0)
    await store.add_jobs([new_job(3, indexed=True)], now_ms=T0)
    assert (await store.get_index_state(TENANT, JOBTYPE)).head == 2, "without the consumer they do again"


async def test_who_may_append(store: Store) -> None:
    await store.set_consumer(CONSUMER)
    with pytest.raises(Conflict, match="is not pulled"):
        await append(store, await lead(store), 1, 0)
    with pytest.raises(Conflict, match="cannot change whether"):
        await store.set_consumer(CONSUMER._replace(is_pulled=True))
    other = CONSUMER._replace(name="other", jobtype="acme-other", is_pulled=True)
    await store.set_consumer(other)
    led = {record.name: record.token for record in await store.lead_consumers(OWNER, lease_ms=LEASE_MS, now_ms=T0)}
    with pytest.raises(Conflict, match="works on acme-other"):
        await store.append_job(TENANT, "other", led["other"], 1, new_job(0), now_ms=T0)
    with pytest.raises(Conflict, match="another leader"):
        await append(store, led["other"] + 1, 1, 0)
    with pytest.raises(InvalidValue, match="neither a parent nor"):
        await store.append_job(TENANT, "other", led["other"], 1, new_job(0, unique="u"), now_ms=T0)


async def test_many_that_ask_for_the_same_numbers_add_each_once(store: Store) -> None:
    await store.set_consumer(CONSUMER._replace(is_pulled=True))
    token = await lead(store)

    async def ask_for_all(first: int) -> int:
        return sum([await append(store, token, seq, first + seq) for seq in range(1, 6)])

    added = await asyncio.gather(*(ask_for_all(first) for first in (0, 100, 200)))
    assert sum(added) == 5
    assert (await store.look_at_window(TENANT, JOBTYPE, after=0, until=5)) == WindowReport(5, 0, 0, ())
    await check_counters(store, TENANT, T0)


async def test_a_pulled_consumer_starts_above_all_numbers_of_its_type(store: Store) -> None:
    await store.add_jobs(new_jobs(3, indexed=True), now_ms=T0)
    pulled = CONSUMER._replace(is_pulled=True)
    with pytest.raises(Conflict, match="the lowest start_index is 4"):
        await store.set_consumer(pulled, start_index=3)
    assert await store.list_consumers(TENANT) == []
    assert await store.set_consumer(pulled, start_index=4)
    assert not await store.set_consumer(pulled, start_index=4)
