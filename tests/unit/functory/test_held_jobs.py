"""Jobs that workers hold: what is counted, and that whoever counts is told once for a batch."""

import asyncio
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from functory.loops.job_mark import mark_of
from functory.workers.held_jobs import Held, HeldJobs
from functory.workers.log_tail import KEPT_BYTES, LogTail
from scheduler.retry import RetryPolicy
from store.base import Job

NOW_MS = 1_800_000_000_000
RETRY = RetryPolicy(base_s=1.0, max_s=60.0, max_attempts=3, window_s=3600.0)

DELIVERIES = st.tuples(st.sampled_from(["acme-x", "acme-y", "beta-x"]), st.integers(0, 5), st.integers(1, 3))
STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(DELIVERIES, max_size=6)),
    st.tuples(st.just("drop"), st.lists(DELIVERIES, max_size=6)),
    st.tuples(st.just("lapse"), st.lists(DELIVERIES, max_size=0)),
)


def held(jobtype: str, number: int, token: int, until_ms: int = NOW_MS + 1000) -> Held:
    job = Job(f"{jobtype}-{number}", jobtype, b"", until_ms, "workers", token, 1, 500, NOW_MS, NOW_MS)
    return Held(job, NOW_MS, 1, RETRY, None)


def drop_lapsed(jobs: HeldJobs, now_ms: int) -> None:
    jobs.drop([(each.job.id, each.job.token) for each in jobs.lapsed(now_ms)])


class Told:
    def __init__(self) -> None:
        self.of: Counter[str] = Counter()
        self.times = 0

    def __call__(self, tenant: str, change: int) -> None:
        self.of[tenant] += change
        self.times += 1


def test_a_batch_is_told_once() -> None:
    told = Told()
    jobs = HeldJobs(told)
    jobs.add(held("acme-x" if number % 2 else "acme-y", number, 1) for number in range(100))
    assert (told.times, told.of["acme"], jobs.count_type("acme-x")) == (1, 100, 50)
    jobs.drop([(f"acme-x-{number}", 1) for number in range(100)])
    assert (told.times, told.of["acme"], jobs.count_type("acme-x")) == (2, 50, 0)


@given(st.lists(STEPS, max_size=12))
def test_what_was_told_is_what_is_held(steps: list[tuple[str, list[tuple[str, int, int]]]]) -> None:
    told = Told()
    jobs = HeldJobs(told)
    known: dict[str, tuple[str, int]] = {}  # what a plain dictionary would hold: id to type and token
    for verb, deliveries in steps:
        if verb == "add":
            jobs.add([held(*delivery) for delivery in deliveries])
            known |= {f"{jobtype}-{number}": (jobtype, token) for jobtype, number, token in deliveries}
        elif verb == "drop":
            jobs.drop([(f"{jobtype}-{number}", token) for jobtype, number, token in deliveries])
            for jobtype, number, token in deliveries:
                if known.get(f"{jobtype}-{number}") == (jobtype, token):
                    del known[f"{jobtype}-{number}"]
        else:
            drop_lapsed(jobs, NOW_MS + 1000)
            known.clear()
        types = Counter(jobtype for jobtype, _ in known.values())
        assert len(jobs) == len(known)
        assert {name: jobs.count_type(name) for name in types} == types
        assert +told.of == Counter(jobtype.partition("-")[0] for jobtype, _ in known.values())
        for job_id, (jobtype, token) in known.items():
            found = jobs.find(jobtype.partition("-")[0], job_id)
            assert found is not None
            assert found.job.token == token
            assert found in jobs.marked([mark_of(job_id), 1])
        assert len(
            jobs.marked(map(mark_of, {f"{name}-{n}" for name in ("acme-x", "acme-y", "beta-x") for n in range(6)}))
        ) == len(known)


def test_jobs_that_ended_long_before_their_leases_leave_nothing() -> None:
    jobs = HeldJobs(Told())
    jobs.add(held("acme-y", number, 1, NOW_MS + 1000 + number) for number in range(10))
    for number in range(2000):
        jobs.add([held("acme-x", number, 1, NOW_MS + 86_400_000)])
        jobs.drop([(f"acme-x-{number}", 1)])
    assert len(jobs._lapses) < 200
    drop_lapsed(jobs, NOW_MS + 1005)
    assert len(jobs) == 4, "the others lapse when their time comes"


@given(st.text("aä€\N{GRINNING FACE}", max_size=60), st.integers(1, 90))
def test_the_end_of_what_a_job_says_begins_with_a_character(text: str, most_bytes: int) -> None:
    tail = LogTail()
    tail.add(text.encode(), most_bytes)
    assert tail.kept.decode() in text + "\n"
    assert tail.dropped + tail.size_bytes == len(text.encode()) + bool(text)
    assert most_bytes - 3 <= tail.size_bytes <= most_bytes or tail.dropped == 0


def test_bytes_that_are_no_text_are_kept_as_they_are() -> None:
    tail = LogTail()
    tail.add(b"\x80" * (KEPT_BYTES + 10))
    assert tail.kept == b"\x80" * (KEPT_BYTES - 1) + b"\n"


def overdue_at(
    number: int, timeout_ms: int | None, retry_after_ms: int | None = None, *, taken_here: bool = True
) -> Held:
    each = held("acme-x", number, 1)
    each.job = each.job._replace(retry_after_ms=retry_after_ms)
    each.timeout_ms, each.taken_here = timeout_ms, taken_here
    return each


def test_what_was_taken_here_and_is_held_for_too_long_is_named_until_its_end_is_on_its_way() -> None:
    jobs = HeldJobs(Told())
    first, second = overdue_at(1, 5000), overdue_at(2, 6000)
    jobs.add([second, first, overdue_at(3, None), overdue_at(4, 5000, 5000), overdue_at(5, 5000, taken_here=False)])
    assert jobs.overdue(NOW_MS + 4999, 10) == []
    assert jobs.overdue(NOW_MS + 5000, 10) == [first]
    assert jobs.overdue(NOW_MS + 6000, 1) == [first], "it is named again"
    assert jobs.overdue(NOW_MS + 6000, 10) == [second]
    loop = asyncio.new_event_loop()
    first.ending = loop.create_future()
    loop.close()
    jobs.drop([(second.job.id, 1)])
    assert jobs.overdue(NOW_MS + 10_000, 10) == []


def test_deadlines_of_ended_jobs_are_forgotten() -> None:
    jobs = HeldJobs(Told())
    for number in range(5000):
        jobs.add([overdue_at(number, 30 * 86_400_000)])
        jobs.drop([(f"acme-x-{number}", 1)])
    assert len(jobs._deadlines) < 300
