"""What becomes of jobs that stopped together: each has its own ending, whatever the others of its batch did."""

from itertools import count, permutations
from typing import Any

import pytest

from functory.outcomes import fingerprint, releases_of
from runner.launch import Level
from runner.outcome import Stopped
from scheduler.retry import RetryPolicy
from store.base import Archive, Code, Job, Outcome, Rearm, Release, Retry
from store.names import MAX_LOG_BYTES
from tests.support.jobs import JOBTYPE, OWNER, T0, job_id

POLICY = RetryPolicy(max_attempts=3)
ROLL = 0.5
VERSION = 7

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], Any, dict[str, Any]]] = {
    # of the job, of its stop, what it is released as, of the outcome
    "ok": ({}, {}, Archive, {}),
    "with a result": ({}, {"result": b"r" * 5000}, Archive, {"result": b"r" * 5000}),
    "with a log": (
        {},
        {"log": b"a" * MAX_LOG_BYTES + b"b"},
        Archive,
        {"log": b"a" * (MAX_LOG_BYTES - 1) + b"b"},
    ),
    "failed": (
        {},
        {"code": "failed", "exitcode": 404, "result": b"no such invoice"},
        Archive,
        {
            "code": Code.FAILED,
            "exitcode": 404,
            "result": b"no such invoice",
            "message": "no such invoice",
            "fingerprint": fingerprint(404, "no such invoice"),
        },
    ),
    "again": (
        {},
        {"code": "retry", "exitcode": 100, "result": b"later", "retry_after_ms": 1500},
        Retry,
        {"code": Code.RETRY, "exitcode": 100, "result": None},
    ),
    "error": (
        {"attempts": 2},
        {"code": "error", "exitcode": 500, "result": b"KeyError: 'a'"},
        Retry,
        {
            "code": Code.ERROR,
            "exitcode": 500,
            "result": None,
            "message": "KeyError: 'a'",
            "fingerprint": fingerprint(500, "KeyError: 'a'"),
        },
    ),
    "given up": (
        {"attempts": 3},
        {"code": "error", "exitcode": 500, "result": b"x"},
        Archive,
        {
            "code": Code.ABANDONED,
            "exitcode": 500,
            "result": b"x",
            "message": "x",
            "fingerprint": fingerprint(500, "x"),
        },
    ),
    "repeats": ({"repeat": "finished, +1 hour"}, {}, Rearm, {}),
}
NEXT_MS = {"again": T0 + 1500, "error": T0 + 1000, "repeats": T0 + 3_600_000}


def played(names: tuple[str, ...]) -> list[Release]:
    numbers = count()
    jobs, stopped = [], []
    for name in names:
        of_job, of_stop, _, _ = CASES[name]
        plain = Job(job_id(next(numbers)), JOBTYPE, b"", T0 + 9, OWNER, 4, 1, 500, T0 - 9, T0 - 9)
        jobs.append(plain._replace(**of_job))
        stopped.append(Stopped(jobs[-1].id, "ok", 200, b"", b"", 12.345, (), Level.L2)._replace(**of_stop))
    return releases_of(jobs, stopped, VERSION, POLICY, T0, lambda: ROLL)


def expected(number: int, name: str) -> Release:
    _, _, kind, of_outcome = CASES[name]
    plain = Outcome(Code.OK, 200, T0 - 12, 12_345, b"", b"", VERSION, "L2")
    moment = (NEXT_MS[name],) if name in NEXT_MS else ()
    made: Release = kind(job_id(number), 4, *moment, plain._replace(**of_outcome))
    return made


@pytest.mark.parametrize("name", CASES)
def test_alone_and_among_its_like(name: str) -> None:
    assert played((name,)) == [expected(0, name)]
    assert played((name,) * 3) == [expected(number, name) for number in range(3)]
    assert {type(release) for release in played((name,) * 3)} == {CASES[name][2]}


@pytest.mark.parametrize("names", [tuple(CASES), *permutations(CASES, 2)], ids=" + ".join)
def test_in_a_mixed_batch(names: tuple[str, ...]) -> None:
    found = played(names)
    assert found == [expected(number, name) for number, name in enumerate(names)]
    assert [type(release) for release in found] == [CASES[name][2] for name in names]
