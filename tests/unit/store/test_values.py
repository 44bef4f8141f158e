"""The values of the store that need no database: states, names, histograms, token buckets."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from store.base import Histogram, JobState, state_of
from store.errors import InvalidValue, StoreError
from store.names import (
    DONE_LOCK,
    PAUSED_LOCK,
    check_jobtype,
    check_label,
    check_tenant,
    checked_tenant_of,
)
from store.values.histogram import cell_bounds, cell_of
from vocabulary.names import are_job_ids, is_job_id
from vocabulary.token_bucket import next_token_ms, refill


@pytest.mark.parametrize(
    ("dt_ms", "lock", "state"),
    [
        (101, "", JobState.DEFERRED),
        (100, "", JobState.WAITING),
        (101, "a7", JobState.RUNNING),
        (100, "a7", JobState.LAPSED),
        (0, DONE_LOCK, JobState.ARCHIVED),
        (10**15, DONE_LOCK, JobState.ARCHIVED),
        (0, PAUSED_LOCK, JobState.PAUSED),
    ],
)
def test_dt_and_lock_encode_the_state(dt_ms: int, lock: str, state: JobState) -> None:
    assert state_of(dt_ms, lock, 100) == state


def test_the_first_dash_ends_the_tenant() -> None:
    assert checked_tenant_of("acme-a-b.c:d_e") == "acme"
    for jobtype in ("", "acme", "-x", "acme-", "Acme-x", "ac me-x", "acme-x y", "acme-x|y", "acme-x,y", "acme-x\n"):
        with pytest.raises(InvalidValue):
            checked_tenant_of(jobtype)
    with pytest.raises(InvalidValue):
        check_jobtype("zeta", "acme-x")


@given(st.lists(st.text("aZ9-_\n\x00é ", max_size=4) | st.just("a" * 64) | st.just("a" * 65), max_size=4))
def test_ids_are_the_same_together_and_one_by_one(ids: list[str]) -> None:
    assert are_job_ids(ids) == all(map(is_job_id, ids))


@pytest.mark.parametrize("name", ["", "A", "-", "a-b", "_a", "a" * 33, "a\n", "ä"])
def test_tenant_names(name: str) -> None:
    with pytest.raises(InvalidValue):
        check_tenant(name)


@pytest.mark.parametrize("label", ["", "a\x00", "a\n", "x" * 256, "\x7f", "\ud800"])
def test_labels(label: str) -> None:
    with pytest.raises(InvalidValue):
        check_label("label", label)


@given(st.integers(0, 2**62))
def test_every_value_is_in_its_cell(value: int) -> None:
    low, high = cell_bounds(cell_of(value))
    assert low <= value < high
    assert high - low <= max(1, value / 4)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50), st.floats(0, 1))
def test_quantiles_are_near_the_truth(values: list[int], q: float) -> None:
    histogram = Histogram()
    histogram.record(values)
    truth = sorted(values)[int(q * (len(values) - 1))]
    found = histogram.quantile(q)
    assert found is not None
    assert abs(found - truth) <= truth * 0.125 + 1


@given(st.lists(st.integers(0, 10**7)), st.lists(st.integers(0, 10**7)))
def test_merging_is_recording_both(left: list[int], right: list[int]) -> None:
    one, two, both = Histogram(), Histogram(), Histogram()
    one.record(left)
    two.record(right)
    both.record(left + right)
    one.merge(two)
    assert one == both
    assert Histogram.decode(one.encode()) == both
    assert one.count == len(left) + len(right)


def test_an_empty_histogram_has_no_quantile() -> None:
    assert Histogram().quantile(0.5) is None
    assert Histogram.decode("") == Histogram()


@given(st.floats(0, 100), st.integers(-(10**6), 10**6), st.floats(0.001, 1000), st.integers(1, 100))
def test_a_bucket_never_overflows_and_never_shrinks(
    tokens: float, passed_ms: int, rate_per_s: float, burst: int
) -> None:
    held = min(tokens, burst)
    now = refill(held, 10**7, rate_per_s=rate_per_s, most=burst, now_ms=10**7 + passed_ms)
    assert held <= now <= burst
    when = next_token_ms(now, rate_per_s=rate_per_s, now_ms=0)
    assert refill(now, 0, rate_per_s=rate_per_s, most=burst, now_ms=when) >= 1.0 - 1e-9


def test_error_codes_are_unique() -> None:
    def tree(kind: type[StoreError]) -> list[type[StoreError]]:
        return [kind, *(below for child in kind.__subclasses__() for below in tree(child))]

    codes = [kind.code for kind in tree(StoreError)]
    assert len(codes) == len(set(codes))
