"""Figures on their way to people and to the file: quantiles, the file of the latest results, the budgets."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.tools.budgets import Budget, beside_peers, cell
from bench.tools.markdown import markdown
from bench.tools.report import load, quantile, save, show


def test_quantiles_by_the_nearest_rank() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [quantile(values, q) for q in (0.0, 0.5, 0.95, 0.99, 1.0)] == [1.0, 50.0, 95.0, 99.0, 100.0]
    assert quantile([7.0], 0.99) == 7.0


@given(st.lists(st.floats(-1e9, 1e9), min_size=1), st.floats(0, 1))
def test_a_quantile_is_one_of_the_values_and_enough_of_them_do_not_exceed_it(values: list[float], q: float) -> None:
    found = quantile(values, q)
    assert found in values
    assert sum(value <= found for value in values) >= q * len(values)


def test_numbers_keep_the_digits_that_mean_something() -> None:
    assert [show(value) for value in (0.123456, 99.994, 1234.56, 7, None)] == [0.12, 99.99, 1235, 7, "-"]


def test_results_of_benches_that_were_not_run_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "results" / "latest.json"
    assert load(path) == {}
    save([{"bench": "a", "tables": {"t": [{"x": 1}]}}, {"bench": "b", "tables": {}}], path)
    save([{"bench": "b", "tables": {"t": []}}], path)
    assert load(path) == {
        "a": {"bench": "a", "tables": {"t": [{"x": 1}]}},
        "b": {"bench": "b", "tables": {"t": []}},
    }
    assert [file.name for file in path.parent.iterdir()] == ["latest.json"]


def test_markdown_puts_numbers_to_the_right() -> None:
    rows = [{"queue": "a", "jobs/s": 1234.5, "met": None}, {"queue": "b", "jobs/s": 0.5, "met": None}]
    assert list(markdown(rows)) == [
        "| queue | jobs/s | met |",
        "|---|---:|---|",
        "| a | 1,234 | - |",
        "| b | 0.5 | - |",
    ]


def results(**benches: list[list[Mapping[str, Any]]]) -> dict[str, Any]:
    return {name: {"tables": {str(n): table for n, table in enumerate(tables)}} for name, tables in benches.items()}


@pytest.mark.parametrize(
    ("bar", "is_most", "margin", "met"),
    [(2.0, False, 1.5, "yes"), (6.0, False, 0.5, "NO"), (6.0, True, 2.0, "yes"), (1.5, True, 0.5, "NO")],
)
def test_a_budget_says_how_far_it_is_from_its_bar(bar: float, is_most: bool, margin: float, met: str) -> None:
    latest = results(x=[[], [{"flood of": "a", "p95": 9.0}, {"flood of": "b", "p95": 3.0}]])
    row = Budget("it", bar, cell("x", 1, "p95", flood_of="b"), is_most=is_most).row(latest)
    assert (row["measured"], row["times the bar"], row["met"]) == (3.0, margin, met)


@pytest.mark.parametrize(("found", "met"), [(2.0, "NO"), (3.0, "yes"), (4.9, "yes"), (5.0, "yes, and the stretch")])
def test_a_stretch_is_said_when_it_is_reached_and_not_before(found: float, met: str) -> None:
    row = Budget("it", 3.0, lambda _results: found, stretch=5.0, command="make it").row({})
    assert (row["stretch"], row["met"], row["command"]) == ("5", met, "make it")


@pytest.mark.parametrize("latest", [{}, results(x=[]), results(x=[[{"a": 1.0, "p95": 3.0}]])])
def test_what_was_not_measured_is_said_and_not_guessed(latest: dict[str, Any]) -> None:
    assert Budget("it", 1.0, cell("x", 0, "p95", a=2.0)).row(latest)["measured"] == "not measured"


def test_the_fastest_peer_is_the_one_to_beat_and_bare_queues_are_apart() -> None:
    rows: list[Mapping[str, Any]] = [
        {"queue": "Functory", "end to end/s": 30.0, "drained/s": 40.0},
        {"queue": "Huey", "end to end/s": 10.0, "drained/s": 99.0},
        {"queue": "RQ", "end to end/s": None, "drained/s": None},
        {"queue": "Celery", "end to end/s": 15.0, "drained/s": 1.0},
        {"queue": "beanstalkd", "end to end/s": 50.0, "drained/s": 20.0},
    ]
    latest = results(peers=[rows])
    assert beside_peers("end to end/s", only_queues=False)(latest) == 2.0
    assert beside_peers("end to end/s", only_queues=True)(latest) == 1.5
    with pytest.raises(LookupError):
        beside_peers("end to end/s", only_queues=False)(results(peers=[rows[:1]]))
