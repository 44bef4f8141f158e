"""Whatever a child says about a batch, and whenever it dies: every job is reported once or given back once."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.model import Handler
from runner import protocol
from runner.batch import PROGRESS_FREE, PROGRESS_SAVED, Batch
from runner.errors import ProtocolError
from runner.launch import Level
from runner.limits import ContextLimits
from runner.outcome import Stopped
from runner.progress import progress_of
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
    Reply, st.integers(1, 9), st.sampled_from([100, 200, 300, 404, 500]), st.integers(0, 5), st.integers(0, 9), bodies
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
    log = RawLog(LIMITS)
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
    log = RawLog(LIMITS)
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


@given(st.lists(st.integers(0, 1000), min_size=COUNT, max_size=COUNT))
def test_the_time_of_hooks_is_shared_among_the_jobs(claimed: list[int]) -> None:
    """Seconds 0 to 2 go to beforeEach, 2 to 3 to the jobs, 3 to 7 to afterEach."""
    stopped: list[Stopped] = []
    made = Handler("python", "x", before_each="y", after_each="z")
    log = RawLog(LIMITS)
    batch = Batch(NUMBER, jobs(*"abcd"), made, stopped.extend, log=log, limits=LIMITS, level=Level.L0, now=0.0)
    batch.feed([Reply(protocol.BEGUN, 0, NUMBER, 0, b"")], 2.0)
    batch.feed([Reply(protocol.STOPPED, 200, index, us, b"") for index, us in enumerate(claimed)], 3.0)
    batch.feed([Reply(protocol.ENDED, 0, NUMBER, 0, b"")], 7.0)
    batch.settle(9.0)
    assert abs(sum(one.duration_ms for one in stopped) - 7000) < 0.001
    assert all(one.duration_ms >= (2000 + 4000) / COUNT for one in stopped)


def test_a_job_that_crashes_carries_its_share_of_the_hook_before_it() -> None:
    stopped: list[Stopped] = []
    made = Handler("python", "x", before_each="y")
    log = RawLog(LIMITS)
    batch = Batch(NUMBER, jobs(*"abcd"), made, stopped.extend, log=log, limits=LIMITS, level=Level.L0, now=0.0)
    batch.feed([Reply(protocol.BEGUN, 0, NUMBER, 0, b"")], 2.0)
    assert len(batch.give_up(502, "ended", 3.0)) == COUNT - 1
    assert [one.duration_ms for one in stopped] == [500.0 + 1000.0]


@pytest.mark.parametrize(
    ("times_us", "whose"), [((5, 30_000, 4, 3), 1), ((25_000, 21_000, 4, 3), 1), ((5, 6, 7, 8), 3)]
)
def test_what_was_printed_past_the_replies_is_with_the_job_that_took_its_time(
    times_us: tuple[int, ...], whose: int
) -> None:
    """Quick jobs send what they print with their reply; sub-processes may print at any time."""
    stopped: list[Stopped] = []
    log = RawLog(LIMITS)
    made = Handler("python", "x")
    batch = Batch(NUMBER, jobs(*"abcd"), made, stopped.extend, log=log, limits=LIMITS, level=Level.L0, now=0.0)
    log.feed(b"said\n")
    replies = [Reply(protocol.STOPPED, 200, index, time_us, b"") for index, time_us in enumerate(times_us)]
    batch.feed(replies, sum(times_us) / 1e6)
    assert [index for index, one in enumerate(stopped) if one.log] == [whose]


def test_the_time_until_its_handler_is_ready_is_no_jobs() -> None:
    stopped: list[Stopped] = []
    log = RawLog(LIMITS)
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


def test_what_is_carried_on_has_one_length_that_adds_up() -> None:
    plain = struct.pack("<IIIII", 0, 0, 0, 0xFFFFFFFF, 0)
    assert protocol.parse_detail(plain, max_new_jobs=2).carried is None
    assert protocol.parse_detail(plain + b"\3\0\0\0abc", max_new_jobs=2).carried == b"abc"
    assert protocol.parse_detail(plain + b"\0\0\0\0", max_new_jobs=2).carried == b""
    for tail in (b"\0", b"\3\0\0\0ab", b"\3\0\0\0abcd", b"\xff\xff\xff\xff"):
        with pytest.raises(ProtocolError):
            protocol.parse_detail(plain + tail, max_new_jobs=2)
    body = plain + struct.pack("<I", LIMITS.new_job_bytes + 1) + b"x" * (LIMITS.new_job_bytes + 1)
    stopped, _ = play(Handler("python", "x"), [[Reply(protocol.STOPPED, 200, 0, 1, body)]], ask_before=9)
    assert [(one.exitcode, one.carried) for one in stopped] == [(502, None)], "more than a payload may have"


def began(stopped: list[Stopped]) -> Batch:
    made = Handler("python", "x")
    log = RawLog(LIMITS)
    return Batch(NUMBER, jobs(*"abcd"), made, stopped.extend, log=log, limits=LIMITS, level=Level.L0, now=0.0)


def said(*numbers: int, code: int = 200, body: bytes = b"") -> list[Reply]:
    return [Reply(protocol.STOPPED, code, number, 5, body) for number in numbers]


def told(body: bytes, times: int = 1) -> list[Reply]:
    return [Reply(protocol.PROGRESS, 0, NUMBER, 0, body)] * times


ENDED = Reply(protocol.ENDED, 0, NUMBER, 0, b"")
LEAVING = Reply(protocol.LEAVING, 0, NUMBER, 0, b"")
TOO_LONG = struct.pack("<IIIII", 51, 0, 0, 0xFFFFFFFF, 0) + b"x" * 51


@pytest.mark.parametrize(
    ("replies", "kept"),
    [
        pytest.param(said(0, 2, 1, 3), 1, id="in another order"),
        pytest.param(said(1, 0, 2, 3), 0, id="not from the first on"),
        pytest.param(said(0, 1, 2, 3, 4), 0, id="one more than there are"),
        pytest.param([*said(0, 1, 2, 3), ENDED, ENDED], 4, id="after its end"),
        pytest.param([*said(0, 1, 2, 3), ENDED._replace(number=2)], 4, id="of another batch"),
        pytest.param([LEAVING], 0, id="leaving before anything was done"),
        pytest.param([*said(0, 1, 2, 3), LEAVING, ENDED], 4, id="at its end after all, having left"),
        pytest.param([*said(0), *said(1, body=TOO_LONG)], 1, id="a result that is too long"),
        pytest.param([*said(0), LEAVING, LEAVING], 1, id="leaving again"),
        pytest.param([*said(0), *told(b"1", PROGRESS_SAVED + PROGRESS_FREE + 1)], 1, id="progress without end"),
    ],
)
def test_the_first_word_that_is_wrong_is_refused(replies: list[Reply], kept: int) -> None:
    stopped: list[Stopped] = []
    batch = began(stopped)
    with pytest.raises(ProtocolError):
        batch.feed(replies, 1.0)
    assert [one.id for one in stopped] == [job.id for job in jobs(*"abcd")][:kept]


def test_a_context_that_leaves_gives_back_what_it_has_not_done() -> None:
    stopped: list[Stopped] = []
    batch = began(stopped)
    batch.feed([*said(0), LEAVING], 1.0)
    ids = [job.id for job in jobs(*"abcd")]
    assert batch.give_up(502, "ended", 2.0) == ids[1:]
    assert [one.id for one in stopped] == ids[:1], "no job pays for it"


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_context_that_leaves_with_the_last_job_takes_no_outcome_along(is_asked: bool) -> None:
    stopped: list[Stopped] = []
    made, log = Handler("python", "x", after_each="y"), RawLog(LIMITS)
    batch = Batch(NUMBER, jobs(*"abcd"), made, stopped.extend, log=log, limits=LIMITS, level=Level.L0, now=0.0)
    assert not batch.feed([*said(0, 1, 2), *said(3, code=500), LEAVING], 1.0)
    if is_asked:  # it takes its time to end
        batch.ask()
    assert batch.give_up(502, "ended", 2.0) == []
    assert [one.exitcode for one in stopped] == [200, 200, 200, 500]


def test_the_job_that_crashed_pays_and_those_after_it_do_not() -> None:
    stopped: list[Stopped] = []
    batch = began(stopped)
    batch.feed(said(0), 1.0)
    ids = [job.id for job in jobs(*"abcd")]
    assert batch.give_up(502, "ended", 2.0) == ids[2:]
    assert [(one.id, one.exitcode) for one in stopped] == [(ids[0], 200), (ids[1], 502)]


def test_a_job_that_was_asked_to_stop_has_run_out_of_time_whatever_it_says() -> None:
    stopped: list[Stopped] = []
    batch = began(stopped)
    batch.ask()
    batch.feed(said(0), 1.0)
    assert stopped == []
    batch.give_up(502, "ended", 2.0)
    assert [one.exitcode for one in stopped] == [504]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b'"' + b"x" * 1100 + b'"', b'"\\ud800"', b'{"\\udfff": 1}', b"\xff", b"NaN", b"[-Infinity]", b"1e999"],
)
def test_progress_that_could_not_be_shown_is_refused(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        progress_of(body)


def test_of_progress_that_comes_together_only_the_last_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[bytes] = []

    def counted(body: bytes) -> bytes:
        looked_at.append(body)
        return progress_of(body)

    monkeypatch.setattr("runner.batch.progress_of", counted)
    batch = began([])
    batch.feed([*told(b"1", 50), *told(b"2"), *said(0), *told(b"3", 50), *told(b"4")], 0.0)
    assert looked_at == [b"2", b"4"]
    assert batch.progress == b"4"


def test_a_job_may_tell_its_progress_for_as_long_as_it_runs() -> None:
    batch = began([])
    for tenth in range(10_000):
        batch.feed(told(b"1"), tenth / 10)
    batch.feed(told(b"1", PROGRESS_SAVED + PROGRESS_FREE - 1), 1000.0)
    with pytest.raises(ProtocolError):
        batch.feed(told(b"1", 2), 1000.0)


@pytest.mark.parametrize("away_s", [5, 13, 300])
def test_what_a_job_told_while_nobody_read_is_taken_at_once(away_s: int) -> None:
    batch = began([])
    for tenth in range(50):
        batch.feed(told(b"1"), tenth / 10)
    now = 5.0 + away_s
    batch.feed([*told(b"1", away_s), *said(0), *told(b"2", away_s * 9)], now)
    assert batch.progress == b"2"
    with pytest.raises(ProtocolError):
        batch.feed(told(b"3", PROGRESS_SAVED + PROGRESS_FREE), now)


@pytest.mark.parametrize("body", [b"0.5", b'{"done": 3, "of": 7}', b'"\\ud83d\\ude00"', b"null"])
def test_progress_is_kept_as_it_came(body: bytes) -> None:
    assert progress_of(body) == body


@pytest.mark.parametrize(("claimed_us", "took_ms"), [(0, 0.0), (3_000, 3.0), (60_000_000, 500.0)])
def test_jobs_that_ran_before_their_handler_was_heard_to_be_ready_took_what_they_claim(
    claimed_us: int, took_ms: float
) -> None:
    """The first jobs are sent along with their handler, and its answer and theirs are often read together. What they
    claim is bounded by the time since they were sent; later ones are timed by the daemon alone."""
    stopped: list[Stopped] = []
    handler, log = Handler("python", "x"), RawLog(LIMITS)
    batch = Batch(NUMBER, jobs(*"abcd"), handler, stopped.extend, log=log, limits=LIMITS, level=Level.L0, now=0.0)
    batch.begin(0.5)
    batch.feed([Reply(protocol.STOPPED, 200, index, claimed_us // 2, b"") for index in range(2)], 0.5)
    assert sum(one.duration_ms for one in stopped) == pytest.approx(took_ms)
    batch.feed([Reply(protocol.STOPPED, 200, 2, 60_000_000, b"")], 0.6)
    assert stopped[2].duration_ms == pytest.approx(100.0)


def failed(code: int, index: int, microseconds: int) -> Reply:
    return Reply(protocol.STOPPED, code, index, microseconds, struct.pack("<IIIII", 3, 0, 0, 0xFFFFFFFF, 0) + b"why")


@pytest.mark.parametrize(
    ("chunks", "expected"),
    [
        ([[(1, 500, 10), (1, 200, 10), (1, 500, 50_000), (1, 500, 10)]], [500, 200, 507, 500]),
        ([[(0, 200, 10)], [(1, 200, 50_000)], [(1, 500, 10), (1, 500, 10)]], [200, 200, 500, 500]),
        ([[(1, 404, 50_000)], [(1, 500, 10)], [(2, 500, 10), (2, 200, 10)]], [404, 500, 507, 200]),
    ],
)
def test_a_program_killed_for_memory_is_charged_to_the_job_that_started_it(
    chunks: list[list[tuple[int, int, int]]], expected: list[int]
) -> None:
    """Each reply with how many were killed by the time it is read, its code, and how long the job ran."""
    stopped: list[Stopped] = []
    kills = 0
    batch = Batch(
        NUMBER,
        jobs(*"abcd"),
        Handler("sh", "x"),
        stopped.extend,
        log=RawLog(LIMITS),
        limits=LIMITS,
        level=Level.L2,
        now=0.0,
        oom_kills=lambda: kills,
    )
    for number, chunk in enumerate(chunks):
        kills = chunk[0][0]
        batch.feed([failed(code, len(stopped) + at, us) for at, (_, code, us) in enumerate(chunk)], number + 1.0)
    assert [one.exitcode for one in stopped] == expected


@pytest.mark.parametrize("together", [True, False], ids=["in one chunk", "apart"])
def test_jobs_whose_after_each_failed_keep_their_logs_and_what_it_printed(together: bool) -> None:
    stopped: list[Stopped] = []
    log = RawLog(LIMITS)
    made = Handler("python", "x", after_each="y")
    batch = Batch(NUMBER, jobs("a"), made, stopped.extend, log=log, limits=LIMITS, level=Level.L0, now=0.0)
    told = Reply(protocol.STOPPED, 200, 0, 5, struct.pack("<IIIII", 0, 4, 0, 0xFFFFFFFF, 0) + b"job\n")
    failed = Reply(protocol.ENDED, 500, NUMBER, 0, b"no")
    if not together:
        batch.feed([told], 1.0)
    log.feed(b"hook\nJ: mail|x\n")
    assert batch.feed([told, failed] if together else [failed], 2.0)
    batch.settle(3.0)
    assert [(one.exitcode, one.log, one.new_jobs) for one in stopped] == [(500, b"job\nhook\n", ())]


def test_time_that_is_allowed_to_a_job_is_taken_from_no_account() -> None:
    """A job was said to have taken less than nothing, and one that ran for long no longer than its timeout."""
    stopped: list[Stopped] = []
    handler = Handler("python", "x", timeout_s=0.05)
    batch = Batch(
        NUMBER, jobs("a", "b"), handler, stopped.extend, log=RawLog(LIMITS), limits=LIMITS, level=Level.L0, now=0.0
    )
    batch.allow(0.5, 2.0)
    assert batch.deadline == 2.5
    batch.feed([Reply(protocol.STOPPED, 200, 0, 5, b"")], 2.25)
    assert [one.duration_ms for one in stopped] == [2250.0]
    assert batch.deadline == 2.25 + 0.05, "the next job has its own time"
