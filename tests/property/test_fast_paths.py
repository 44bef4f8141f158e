"""A fast path gives the same answers as the plain one (docs/architecture.md, "Fast paths")."""

from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from functory.web.api.submission import added_json
from functory.wire.jobs import Added
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
