"""What a job says of its own retries and expiry, in the rules: attempts, backoff, window, lost runs, late starts."""

from collections.abc import Mapping
from typing import Any

import pytest

from functory.errors import InvalidInput
from functory.execution.afterwards import links_of
from functory.execution.late import part_late
from functory.execution.outcomes import own_policy, part_exhausted, releases_of
from functory.execution.wishes import Wish, wishes_of
from functory.operations.job_settings import to_options
from functory.wire.add_options import AddOptions, check_options
from functory.wire.jobs import JobSettings
from handlers.model import Handler
from runner.launch import Level
from runner.outcome import Stopped
from scheduler.retry import RetryPolicy
from store.base import Archive, Code, Job, Retry
from tests.support.jobs import JOBTYPE, OWNER, T0, job_id
from vocabulary.job_limits import JobLimits, limits_of, with_limits
from vocabulary.new_job import NewJob
from vocabulary.origin import Origin

OF_TYPE = RetryPolicy(base_s=1.0, max_s=8.0, max_attempts=3, window_s=60.0)
EACH: dict[str, Any] = {
    "max_attempts": 7,
    "retry_base_ms": 250,
    "retry_max_ms": 9000,
    "retry_window_s": 90,
    "max_wait_s": 5,
}


def job(number: int = 0, *, attempts: int = 1, options: str = "", due_ms: int = T0, **limits: int) -> Job:
    text = with_limits(options, JobLimits(**limits))
    made = Job(job_id(number), JOBTYPE, b"", T0 + 9, OWNER, 1, attempts, 500, due_ms, due_ms)
    return made._replace(options=text)


def stopped(one: Job) -> Stopped:
    return Stopped(one.id, "error", 500, b"", b"", 1.0, (), Level.L2)


def ends(*jobs: Job, now_ms: int = T0, **more: Any) -> list[Code]:
    found = releases_of(jobs, [stopped(one) for one in jobs], 1, OF_TYPE, now_ms, lambda: 0.5, **more)
    assert all(isinstance(release, Retry | Archive) for release in found)
    return [release.outcome.code for release in found if isinstance(release, Retry | Archive)]


def test_each_rule_of_a_job_takes_the_place_of_that_of_its_type() -> None:
    assert own_policy(job(), OF_TYPE) is OF_TYPE
    assert own_policy(job(options='{"max_attempts":9}'), OF_TYPE) == OF_TYPE, "the tenant's own text"
    assert own_policy(job(max_wait_s=1), OF_TYPE) == OF_TYPE
    assert own_policy(job(max_attempts=9), OF_TYPE) == RetryPolicy(max_attempts=9, base_s=1.0, max_s=8.0, window_s=60.0)
    all_of_them = RetryPolicy(max_attempts=7, base_s=0.25, max_s=9.0, window_s=90.0)
    assert own_policy(job(**EACH), OF_TYPE) == all_of_them
    assert own_policy(job(**EACH, options='{"a":1}'), OF_TYPE) == all_of_them


def test_each_job_of_a_batch_is_tried_as_often_as_it_may_be() -> None:
    batch = [
        job(0, attempts=2, max_attempts=2),
        job(1, attempts=2),
        job(2, attempts=3),
        job(3, attempts=3, max_attempts=4),
        job(4, attempts=1, max_attempts=1),
        job(5, attempts=3, options='{"limits":{"max_attempts":9999}}'),
    ]
    over = Code.ABANDONED
    assert ends(*batch) == [over, Code.ERROR, over, Code.ERROR, over, over]
    assert [ends(one)[0] for one in batch] == ends(*batch)


def test_the_window_and_the_delay_are_its_own() -> None:
    late_ms = T0 + 70_000
    assert ends(job(), job(retry_window_s=90), job(retry_window_s=1), now_ms=late_ms) == [
        Code.ABANDONED,
        Code.ERROR,
        Code.ABANDONED,
    ]
    assert ends(job(retry_window_s=1), now_ms=late_ms, in_window=False) == [Code.ERROR]
    assert ends(job(max_attempts=1), in_window=False) == [Code.ABANDONED]
    slow = job(retry_base_ms=4000, retry_max_ms=5000)
    delays_ms = []
    for attempts in (1, 2):
        again = slow._replace(attempts=attempts)
        (release,) = releases_of([again], [stopped(again)], 1, OF_TYPE, T0, lambda: 0.5)
        assert isinstance(release, Retry)
        delays_ms.append(release.dt_ms - T0)
    assert delays_ms == [2000, 2500]


def test_a_lost_job_is_given_up_after_as_many_attempts_as_it_may_have() -> None:
    claimed = [
        job(0, attempts=4),
        job(1, attempts=3),
        job(2, attempts=4, max_attempts=4),
        job(3, attempts=2, max_attempts=1),
        job(4, max_attempts=1),
    ]
    going, exhausted = part_exhausted(claimed, OF_TYPE)
    assert [one.id for one in going] == [job_id(number) for number in (1, 2, 4)]
    assert [one.id for one in exhausted] == [job_id(number) for number in (0, 3)]
    same = claimed[4:]
    assert part_exhausted(same, OF_TYPE) == (same, ())


@pytest.mark.parametrize(
    ("of_type", "own", "waited_s", "is_late"),
    [
        (None, {}, 10**6, False),
        (None, {"max_wait_s": 60}, 61, True),
        (None, {"max_wait_s": 60}, 59, False),
        (None, {"max_attempts": 1}, 10**6, False),
        (60, {"max_wait_s": 10}, 11, True),
        (60, {"max_wait_s": 10}, 9, False),
        (10, {"max_wait_s": 60}, 11, True),
        (10, {"max_wait_s": 60}, 9, False),
        (10, {}, 11, True),
    ],
)
def test_the_shorter_of_two_times_to_wait_holds(
    of_type: int | None, own: Mapping[str, Any], waited_s: int, *, is_late: bool
) -> None:
    handler = Handler("python", "", options={} if of_type is None else {"max_wait_s": of_type})
    one, other = job(0, due_ms=T0 - waited_s * 1000, **own), job(1, due_ms=T0)
    assert part_late([one, other], handler, T0) == (([other], [one]) if is_late else ([one, other], ()))


def test_only_the_store_knows_since_when_a_job_waits_that_is_tried_again() -> None:
    again = [job(attempts=2, due_ms=T0 - 61_000, max_wait_s=60)]
    assert part_late(again, Handler("python", ""), T0) == (again, ())


def wish(options: str) -> Wish:
    (made,) = wishes_of(job(), [NewJob("piece", b"x", options)], T0)
    return made


def test_a_job_that_a_job_makes_may_have_them() -> None:
    query = "&".join(f"{name}={value}" for name, value in EACH.items())
    assert limits_of(wish(query).options.options) == JobLimits(**EACH)
    assert wish("max_attempts=3&child=1").options.options == '{"limits":{"max_attempts":3}}'
    assert wish("delay_s=1").options.options == ""


def test_a_job_that_is_passed_a_result_has_none_of_that_job() -> None:
    follows = Origin(job_id(1), "a", "ok")
    (made,) = wishes_of(job(max_attempts=3), [NewJob("piece", b"", links=1, follows=follows)], T0)
    assert made.options.options == '{"chain":1}'
    assert links_of(job(options='{"chain":4}', max_attempts=3)) == 4


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize("value", ["0", "-1", "%2B1", "1.5", "", "x", "true", "99999999", "9" * 1500, "%D9%A3", "1e3"])
def test_what_a_job_may_not_say_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{name} of a new job must be a whole number between 1 and ") as refused:
        wish(f"{name}={value}")
    assert refused.value.detail == {"field": name}
    assert len(str(refused.value)) < 150


def test_what_is_said_twice_is_refused() -> None:
    with pytest.raises(InvalidInput, match="twice"):
        wish("max_attempts=3&max_attempts=4")


@pytest.mark.parametrize("name", EACH)
@pytest.mark.parametrize(
    "value", [0, -1, True, 1.0, 10**30, 10**5000, "3", [3]], ids=lambda value: type(value).__name__
)
def test_a_program_is_told_before_anything_is_sent(name: str, value: Any) -> None:
    for refuse in (
        lambda: check_options(AddOptions(**{name: value})),
        lambda: to_options(JobSettings(**{name: value}), T0),
    ):
        with pytest.raises(InvalidInput, match=f"^{name} must be a whole number") as refused:
            refuse()
        assert refused.value.detail == {"field": name}
    good: dict[str, Any] = {name: 1}
    check_options(AddOptions(**good))
