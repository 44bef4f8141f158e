"""What pages read: buckets of chosen types and sums of buckets are what get_buckets says, and of nobody else."""

from typing import Any

import pytest

from store.base import Code, EndedSum, Store, Tenant
from store.errors import InvalidValue
from store.names import MAX_BATCH
from store.values.scoreboard import HOUR_MS, MINUTE_MS, Span
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, new_job

START = T0 - T0 % HOUR_MS
END = START + 3 * MINUTE_MS


async def three_minutes(store: Store) -> None:
    """A few ends in each of three minutes, of three types of acme and one of another."""
    number = 0
    for minute in range(3):
        at_ms = START + minute * MINUTE_MS + 10
        for jobtype, code in [
            ("acme-a", Code.OK),
            ("acme-a", Code.FAILED),
            ("acme-b", Code.OK),
            ("acme-c", Code.ABANDONED),
            ("other-a", Code.OK),
        ]:
            number += 1
            await store.add_jobs([new_job(number, jobtype=jobtype, dt_ms=at_ms - 5)], now_ms=at_ms)
            (job,) = await claim(store, 1, jobtype=jobtype, now_ms=at_ms)
            ended = archive(job, code, started_ms=at_ms, duration_us=1000 * (minute + 1))
            await store.release_jobs(OWNER, [ended], now_ms=at_ms)


async def test_buckets_of_chosen_types_are_those_of_all_types(store: Store) -> None:
    await three_minutes(store)
    window: dict[str, Any] = {"width_ms": MINUTE_MS, "since_ms": START + MINUTE_MS, "until_ms": END}
    everything = await store.get_buckets(TENANT, **window)
    chosen = await store.get_type_buckets(TENANT, ["acme-c", "acme-a", "acme-never"], **window)
    assert chosen == [bucket for bucket in everything if bucket.jobtype != "acme-b"]
    assert len(chosen) == 4
    counts = await store.get_type_counts(TENANT, ["acme-a", "acme-never"], **window)
    assert counts == {
        "acme-a": {bucket.start_ms: EndedSum(*bucket[3:10]) for bucket in chosen if bucket.jobtype == "acme-a"}
    }
    assert await store.get_type_counts(TENANT, [], **window) == {}
    assert await store.get_type_buckets(TENANT, [], **window) == []


async def test_a_window_that_begins_within_a_bucket_leaves_it_out(store: Store) -> None:
    await three_minutes(store)
    found = await store.get_type_buckets(
        TENANT, ["acme-a"], width_ms=MINUTE_MS, since_ms=START + 1, until_ms=START + 2 * MINUTE_MS
    )
    assert [bucket.start_ms for bucket in found] == [START + MINUTE_MS]


async def test_sums_by_time_and_by_type(store: Store) -> None:
    await three_minutes(store)
    window: dict[str, Any] = {"width_ms": MINUTE_MS, "since_ms": START, "until_ms": START + 2 * MINUTE_MS}
    by_start = await store.sum_by_start(TENANT, **window)
    assert by_start == {
        START: EndedSum(2, 1, 0, 0, 1, 0, 4000),
        START + MINUTE_MS: EndedSum(2, 1, 0, 0, 1, 0, 8000),
    }
    assert (await store.sum_by_start(None, **window))[START].ok == 3
    by_type = await store.sum_by_type(TENANT, **window)
    assert by_type == {
        "acme-a": EndedSum(2, 2, 0, 0, 0, 0, 6000),
        "acme-b": EndedSum(2, 0, 0, 0, 0, 0, 3000),
        "acme-c": EndedSum(0, 0, 0, 0, 2, 0, 3000),
    }
    assert (await store.sum_by_type(None, **window)).keys() == by_type.keys() | {"other-a"}
    assert await store.sum_by_type("nobody", **window) == {}


@pytest.mark.parametrize("others", [0, 20], ids=["most types are the tenant's", "most types are others'"])
async def test_counts_of_some_codes_by_type_over_spans(store: Store, others: int) -> None:
    for number in range(others):
        await store.set_type_paused("other", f"other-t{number}", paused=True)
    await three_minutes(store)
    minutes = Span(1, MINUTE_MS, START, END)
    bad = frozenset({Code.FAILED, Code.ABANDONED})
    assert await store.count_by_type(TENANT, bad, [minutes]) == {"acme-a": 3, "acme-c": 3}
    assert await store.count_by_type(TENANT, frozenset(Code), [minutes]) == {"acme-a": 6, "acme-b": 3, "acme-c": 3}
    hour, first = Span(1, HOUR_MS, START, START + 1), Span(-1, MINUTE_MS, START, START + MINUTE_MS)
    assert await store.count_by_type(TENANT, frozenset({Code.OK}), [hour, first]) == {"acme-a": 2, "acme-b": 2}
    assert await store.count_by_type(TENANT, frozenset({Code.OK}), [hour, minutes._replace(sign=-1)]) == {}
    assert await store.count_by_type("other", frozenset({Code.OK}), [hour, first]) == {"other-a": 2}
    for nothing in (
        await store.count_by_type(TENANT, frozenset(), [minutes]),
        await store.count_by_type(TENANT, bad, []),
        await store.count_by_type(TENANT, bad, [minutes._replace(until_ms=START)]),
        await store.count_by_type("nobody", bad, [minutes]),
    ):
        assert nothing == {}
    for wrong in (Span(1, 5000, START, END), Span(1, MINUTE_MS, START, START + 2000 * MINUTE_MS)):
        with pytest.raises(InvalidValue):
            await store.count_by_type(TENANT, bad, [minutes, wrong])


async def test_sums_by_time_go_with_their_tenant(store: Store) -> None:
    await store.create_tenant(Tenant(TENANT, T0))
    await three_minutes(store)
    window: dict[str, Any] = {"width_ms": MINUTE_MS, "since_ms": START, "until_ms": END}
    while (await store.delete_tenant(TENANT, limit=2)).more:
        pass
    assert await store.sum_by_start(TENANT, **window) == {}
    assert {start: it.ok for start, it in (await store.sum_by_start(None, **window)).items()} == dict.fromkeys(
        range(START, END, MINUTE_MS), 1
    )


async def test_other_tenants_and_too_much_are_refused(store: Store) -> None:
    window: dict[str, Any] = {"width_ms": MINUTE_MS, "since_ms": START, "until_ms": END}
    for verb in (store.get_type_buckets, store.get_type_counts):
        for jobtypes in (["acme-a", "other-a"], ["acme-a"] * (MAX_BATCH + 1)):
            with pytest.raises(InvalidValue):
                await verb(TENANT, jobtypes, **window)
    for wrong in ({"width_ms": 5000}, {"until_ms": START + 2000 * MINUTE_MS}):
        for sums in (store.sum_by_start, store.sum_by_type):
            with pytest.raises(InvalidValue):
                await sums(TENANT, **(window | wrong))
