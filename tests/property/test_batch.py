"""Whatever a child says about a batch, and whenever it dies: every job is reported once or given back once."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from handlers.model import Handler
from runner import protocol
from runner.batch import Batch
from runner.errors import ProtocolError
from runner.launch import Level
from runner.limits import ContextLimits
from runner.outcome import Stopped
from runner.protocol import Reply
from runner.raw_log import RawLog
from tests.support.engines import jobs

LIMITS = ContextLimits(log_bytes=100, result_bytes=50, new_jobs=2, new_job_bytes=20)
COUNT = 4
NUMBER = 1

bodies = st.one_of(
    st.just(b""),
    st.binary(max_size=30),
    st.builds(
        lambda result, log: struct.pack("<IIIII", len(result), len(log), 0, 0xFFFFFFFF, 0) + result + log,
        st.binary(max_size=60),
        st.binary(max_size=200),
    ),
)
anything = st.builds(
    Reply, st.integers(1, 8), st.sampled_from([100, 200, 300, 404, 500]), st.integers(0, 5), st.integers(0, 9), bodies
)
honest = st.integers(0, COUNT).map(
    lambda done: (
        [Reply(protocol.STOPPED, 200, index, 5, b"") for index in range(done)]
        + ([Reply(protocol.ENDED, 0, NUMBER, 0, b"")] if done == COUNT else [])
    )
)
handlers = st.sampled_from(
    [Handler("python", "x"), Handler("python", "x", before_each="y"), Handler("python", "x", after_each="y")]
)


def play(handler: Handler, chunks: list[list[Reply]], ask_before: int) -> tuple[list[Stopped], list[str]]:
    """One batch from the first reply to its end; the child is gone when it broke the protocol or was not over."""
    stopped: list[Stopped] = []
    log = RawLog(keep_bytes=100, line_bytes=100, new_jobs=2)
    batch = Batch(NUMBER, jobs(*"abcd"), handler, stopped.extend, log=log, limits=LIMITS, level=Level.L0, now=0.0)
    asked = False
    try:
        for number, chunk in enumerate(chunks):
            if number == ask_before:
                batch.ask()
                asked = True
            if batch.feed(chunk, float(number)):
                break
    except ProtocolError:
        return stopped, batch.give_up(502, "broke it", 99.0)
    if batch.over and not asked:
        batch.settle(99.0)
        return stopped, []
    return stopped, batch.give_up(502, "ended", 99.0)


@given(handlers, st.lists(st.lists(anything, max_size=5) | honest, max_size=6), st.integers(0, 9))
def test_every_job_once(handler: Handler, chunks: list[list[Reply]], ask_before: int) -> None:
    stopped, given_back = play(handler, chunks, ask_before)
    seen = [one.id for one in stopped] + given_back
    assert sorted(seen) == [job.id for job in jobs(*"abcd")]
    for one in stopped:
        assert len(one.log) <= LIMITS.log_bytes + 60
        assert len(one.result) <= max(LIMITS.result_bytes, 11_000)
        assert one.duration_ms >= 0


@given(honest)
def test_the_first_that_was_not_reported_pays(replies: list[Reply]) -> None:
    stopped, given_back = play(Handler("python", "x"), [replies], ask_before=9)
    done = sum(reply.kind == protocol.STOPPED for reply in replies)
    if done == COUNT:
        assert ([one.exitcode for one in stopped], given_back) == ([200] * COUNT, [])
    else:
        assert [one.exitcode for one in stopped] == [200] * done + [502]
        assert len(given_back) == COUNT - done - 1


@given(st.lists(st.integers(0, 1000), min_size=COUNT, max_size=COUNT))
def test_times_add_up_to_the_daemons_own_clock(claimed: list[int]) -> None:
    stopped: list[Stopped] = []
    log = RawLog(keep_bytes=100, line_bytes=100, new_jobs=2)
    batch = Batch(
        NUMBER,
        jobs(*"abcd"),
        Handler("python", "x"),
        stopped.extend,
        log=log,
        limits=LIMITS,
        level=Level.L0,
        now=10.0,
    )
    batch.feed([Reply(protocol.STOPPED, 200, index, us, b"") for index, us in enumerate(claimed)], 12.0)
    assert abs(sum(one.duration_ms for one in stopped) - 2000) < 0.001


def test_the_time_until_its_handler_is_ready_is_no_jobs() -> None:
    stopped: list[Stopped] = []
    log = RawLog(keep_bytes=100, line_bytes=100, new_jobs=2)
    made = Handler("python", "x", timeout_s=5.0)
    batch = Batch(NUMBER, jobs("a"), made, stopped.extend, log=log, limits=LIMITS, level=Level.L0, now=10.0)
    batch.begin(100.0)
    assert batch.deadline == 105.0
    batch.feed([Reply(protocol.STOPPED, 200, 0, 7, b"")], 101.0)
    assert stopped[0].duration_ms == 1000.0


def test_work_that_makes_new_jobs_ends_in_error_without_them() -> None:
    line = b"mail|x"
    body = struct.pack("<IIIII", 0, 0, 0, 0xFFFFFFFF, 1) + struct.pack("<I", len(line)) + line
    replies = [Reply(protocol.STOPPED, code, index, 1, body) for index, code in enumerate((200, 100, 400, 500))]
    stopped, _ = play(Handler("python", "x"), [[*replies, Reply(protocol.ENDED, 0, NUMBER, 0, b"")]], ask_before=9)
    assert [len(one.new_jobs) for one in stopped] == [1, 1, 1, 0]
