"""What becomes of jobs that stopped together: each has its own ending, whatever the others of its batch did."""

from datetime import UTC, datetime
from itertools import count, permutations
from typing import Any

import pytest

from functory.errors import InvalidInput
from functory.execution.failure_message import fingerprint
from functory.execution.outcomes import give_up, refusal, releases_of
from runner.launch import Level
from runner.outcome import Stopped
from scheduler.retry import RetryPolicy
from store.base import Archive, Code, Finish, Job, Outcome, Rearm, Release, Retry
from store.names import MAX_LOG_BYTES
from tests.support.jobs import JOBTYPE, OWNER, T0, job_id
from vocabulary.time_text import MAX_TIME_MS

POLICY = RetryPolicy(max_attempts=3)
WINDOW_MS = int(POLICY.window_s * 1000)
ROLL = 0.5
VERSION = 7
STUCK = (
    "the job does not repeat any more: 'FINISHED, START OF DAY' does not lead forward from"
    f" {datetime.fromtimestamp(T0 // 1000, UTC):%Y-%m-%d %H:%M:%S} UTC:"
    " put an advance such as +1 DAY in it, before START OF or WEEKDAY"
)

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
    "failed without a word": (
        {},
        {"code": "failed", "exitcode": 400},
        Archive,
        {
            "code": Code.FAILED,
            "exitcode": 400,
            "message": "failed with 400",
            "fingerprint": fingerprint(400, "failed with 400"),
        },
    ),
    "again": (
        {},
        {"code": "retry", "exitcode": 100, "result": b"later", "retry_after_ms": 1500},
        Retry,
        {"code": Code.RETRY, "exitcode": 100, "result": b"later", "message": "later", "fingerprint": ""},
    ),
    "again without a word": (
        {},
        {"code": "retry", "exitcode": 100, "retry_after_ms": 1500},
        Retry,
        {"code": Code.RETRY, "exitcode": 100, "message": "", "fingerprint": ""},
    ),
    "error": (
        {"attempts": 2},
        {"code": "error", "exitcode": 500, "result": b"KeyError: 'a'"},
        Retry,
        {
            "code": Code.ERROR,
            "exitcode": 500,
            "result": b"KeyError: 'a'",
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
    "stuck": (
        {"repeat": "finished, start of day"},
        {"result": b"r"},
        Archive,
        {
            "code": Code.FAILED,
            "exitcode": 400,
            "result": STUCK.encode(),
            "message": STUCK[:200],
            "fingerprint": fingerprint(400, STUCK),
        },
    ),
    "failed and stuck": (
        {"repeat": "finished, start of day"},
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
    "created long before it was due": (
        {"create_ms": T0 - 10 * WINDOW_MS},
        {"code": "retry", "exitcode": 100},
        Retry,
        {"code": Code.RETRY, "exitcode": 100},
    ),
    "past its window": (
        {"due_ms": T0 - 9, "begun_ms": T0 - WINDOW_MS},
        {"code": "retry", "exitcode": 100},
        Archive,
        {"code": Code.ABANDONED, "exitcode": 100},
    ),
    "a round that is given up": (
        {"attempts": 3, "repeat": "scheduled, +1 hour", "planned_ms": T0 - 60_000},
        {"code": "retry", "exitcode": 100},
        Rearm,
        {"code": Code.ABANDONED, "exitcode": 100},
    ),
}
NEXT_MS = {
    "again": T0 + 1500,
    "again without a word": T0 + 1500,
    "error": T0 + 1000,
    "repeats": T0 + 3_600_000,
    "created long before it was due": T0 + 500,
    "a round that is given up": T0 - 60_000 + 3_600_000,
}


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


def carried(job: dict[str, Any], stop: dict[str, Any]) -> Release:
    plain = Job(job_id(0), JOBTYPE, b"old", T0 + 9, OWNER, 4, 1, 500, T0 - 9, T0 - 9)._replace(**job)
    stopped = Stopped(plain.id, "ok", 200, b"", b"", 1.0, (), Level.L2, carried=b"new")._replace(**stop)
    (release,) = releases_of([plain], [stopped], VERSION, POLICY, T0, lambda: ROLL)
    return release


def test_what_a_job_carries_on_is_the_payload_of_its_next_attempt_or_round() -> None:
    again = {"code": "retry", "exitcode": 100}
    cases: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"repeat": "hourly"}, {}),
        ({"repeat": "hourly"}, {"code": "failed", "exitcode": 404}),
        ({"repeat": "hourly", "attempts": 3}, again),
        ({}, again),
    ]
    for job, stop in cases:
        release = carried(job, stop)
        assert isinstance(release, Retry | Rearm)
        assert release.data == b"new"
    over = carried({}, {})
    assert isinstance(over, Finish), "there is a next run only if the job waits for children"
    assert over.data == b"new"
    assert isinstance(carried({}, {"code": "failed", "exitcode": 404}), Archive)
    without = carried({"repeat": "hourly"}, {"carried": None})
    assert isinstance(without, Rearm)
    assert without.data is None


def test_a_refused_end_is_the_end_of_a_round_unless_the_job_is_cancelled() -> None:
    job = Job(job_id(0), JOBTYPE, b"", T0, OWNER, 1, 1, 500, T0, T0)
    repeats = job._replace(repeat="FINISHED, +1 HOUR")
    again = Retry(job.id, 1, T0, Outcome(Code.RETRY, 100, T0))
    stopped = Archive(job.id, 1, Outcome(Code.CANCELLED, 499, T0))
    too_late = Rearm(job.id, 1, MAX_TIME_MS + 1, Outcome(Code.OK, 200, T0))
    for one, release, expected in (
        (job, again, Archive),
        (repeats, again, Rearm),
        (repeats, None, Rearm),
        (repeats, stopped, Archive),
        (repeats, too_late, Archive),
    ):
        refused = refusal(one, release, InvalidInput("no"), T0)
        assert isinstance(refused, expected)
        assert refused.outcome.code is Code.FAILED


def test_a_round_that_lost_its_runner_each_time_does_not_end_the_repetition() -> None:
    job = Job(job_id(1), JOBTYPE, b"", T0 + 9, OWNER, 4, 4, 500, T0 - 9, T0 - 9, repeat="finished, +1 hour")
    release = give_up(job, T0)
    assert isinstance(release, Rearm)
    assert (release.dt_ms, release.outcome.code) == (T0 + 3_600_000, Code.ABANDONED)
    assert isinstance(give_up(job._replace(repeat=""), T0), Archive)


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


def test_what_a_run_returned_that_is_tried_again_is_cut_to_its_end() -> None:
    job = Job(job_id(1), JOBTYPE, b"", T0 + 9, OWNER, 4, 1, 500, T0 - 9, T0 - 9)
    long = Stopped(job.id, "error", 500, b"x" * 20_000 + b"KeyError: 1", b"", 1.0, (), Level.L2)
    (release,) = releases_of([job], [long], VERSION, POLICY, T0, lambda: ROLL)
    assert isinstance(release, Retry)
    assert release.outcome.result is not None
    assert len(release.outcome.result) == 16 * 1024
    assert release.outcome.result.endswith(b"KeyError: 1")
