"""A fast path gives the same answers as the plain one (docs/architecture.md, "Fast paths")."""

import struct
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.web.api.submission import added_json
from functory.wire.jobs import Added
from runner.errors import ProtocolError
from runner.protocol import Detail, bare_results, parse_detail
from store import checks
from store.base import Archive, Code, NewJob, Release, Retry
from store.errors import InvalidValue
from tests.support.jobs import T0, job_id, new_job, outcome

JOBS: list[dict[str, Any]] = [
    {"id": "no id"},
    {"jobtype": "Acme-x"},
    {"priority": 7},
    {"dt_ms": -1},
    {"create_ms": 1 << 60},
    {"domain": "mail"},
    {"domain": "\n"},
    {"key": "ada"},
    {"key": "\n"},
    {"options": "{}"},
    {"repeat": "x" * 100_000},
    {"retry_after_ms": 0},
    {"retry_after_ms": 5},
]
OUTCOMES: list[dict[str, Any]] = [
    {"code": Code.FAILED},
    {"code": Code.RETRY},
    {"exitcode": 1000},
    {"exitcode": -1},
    {"started_ms": -1},
    {"duration_us": -1},
    {"result": b"x"},
    {"log": b"x" * (1 << 20)},
    {"isolation": "x" * 1000},
    {"message": "x" * 10_000},
    {"fingerprint": "x" * 1000},
]


NO_DELAY = 0xFFFFFFFF
BARE = st.binary(max_size=40).map(lambda result: struct.pack("<IIIII", len(result), 0, 0, NO_DELAY, 0) + result)
ODD = [
    b"",
    b"short",
    struct.pack("<IIIII", 1, 0, 0, NO_DELAY, 0),
    struct.pack("<IIIII", 0, 0, 0, NO_DELAY, 0) + b"more",
    struct.pack("<IIIII", 1, 1, 0, NO_DELAY, 0) + b"rl",
    struct.pack("<IIIII", 1, 1, 0, NO_DELAY, 0) + b"r",
    struct.pack("<IIIII", 1, 0, 7, NO_DELAY, 0) + b"r",
    struct.pack("<IIIII", 1, 0, 0, NO_DELAY, 1) + b"r",
    struct.pack("<IIIII", 1, 0, 0, 5, 0) + b"r",
    struct.pack("<IIIIII", 0, 0, 0, NO_DELAY, 1, 2) + b"t|",
    struct.pack("<IIIIII", 0, 0, 0, NO_DELAY, 0, 1) + b"c",
    struct.pack("<IIIII", 41, 0, 0, NO_DELAY, 0) + b"x" * 41,
]
"""Bodies of STOPPED replies: with a result and nothing else, and with something that is not as usual."""


def changes(odd: Sequence[dict[str, Any]]) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Mostly ordinary, with something odd now and then."""
    return st.lists(st.just({}) | st.sampled_from(odd), min_size=1, max_size=5)


def is_refused(check: Callable[[Any], None], value: object) -> bool:
    try:
        check(value)
    except InvalidValue:
        return True
    return False


@given(changes(JOBS))
def test_new_jobs_are_refused_together_if_one_is_refused_alone(odd: list[dict[str, Any]]) -> None:
    jobs: list[NewJob] = [new_job(number, **each) for number, each in enumerate(odd)]
    plain = any(is_refused(checks.check_new_job, job) for job in jobs)
    assert is_refused(checks.check_new_jobs, jobs) == plain


@given(changes(OUTCOMES), st.booleans())
def test_outcomes_are_refused_in_columns_if_they_are_one_by_one(odd: list[dict[str, Any]], has_retry: bool) -> None:
    releases: list[Release] = [
        Archive(job_id(number), 1, outcome()._replace(**each)) for number, each in enumerate(odd)
    ]
    if has_retry:
        releases.append(Retry(job_id(99), 1, T0, outcome(Code.RETRY)))
    with patch.object(checks, "_are_plain", return_value=False):
        plain = is_refused(checks.check_releases, releases)
    assert is_refused(checks.check_releases, releases) == plain


@given(st.lists(st.integers(0, 0xFFFFFF).map(job_id), min_size=1, max_size=20), st.booleans())
def test_ids_are_the_same_json_joined_and_encoded(ids: list[str], with_ids: bool) -> None:
    plain = Added(len(ids), ids) if with_ids else Added(len(ids))
    assert msgspec.json.decode(added_json(ids, with_ids=with_ids)) == msgspec.to_builtins(plain)


@given(st.lists(BARE, min_size=1, max_size=5) | st.lists(BARE | st.sampled_from(ODD), min_size=1, max_size=5))
def test_results_of_many_are_those_of_each_and_nothing_else_is_overlooked(bodies: list[bytes]) -> None:
    details: list[Detail | None] = []
    for body in bodies:
        try:
            details.append(parse_detail(body, max_new_jobs=10))
        except ProtocolError:
            details.append(None)
    are_bare = all(one is not None and one == Detail(one.result) and len(one.result) <= 40 for one in details)
    assert bare_results(bodies, 40) == ([one.result for one in details if one is not None] if are_bare else None)


@pytest.mark.parametrize("odd", ODD)
def test_one_reply_with_more_than_a_result_has_all_looked_at_one_by_one(odd: bytes) -> None:
    bare = struct.pack("<IIIII", 1, 0, 0, NO_DELAY, 0) + b"r"
    assert bare_results([bare], 40) == [b"r"]
    assert bare_results([bare, odd], 40) is None
