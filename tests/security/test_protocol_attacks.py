"""Tenants' code that speaks the runner protocol itself: it ends its own context and nothing else.

Every attack is a handler that writes to the reply pipe what it likes. The daemon must report every job
exactly once (`tests.support.engines.run` asserts that), must not trust what was claimed, and must serve
the next tenant.
"""

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.model import Handler
from runner import protocol
from runner.errors import ProtocolError
from runner.launch import REPLY_FD
from runner.limits import ContextLimits
from runner.plain import PlainLauncher
from runner.protocol import Reply, ReplyParser, encode_batch, parse_detail, parse_refusal
from runner.runner import Runner, RunnerSettings
from tests.support.engines import Job, jobs, run

REPLY = """import os, struct
def reply(kind, number, code=200, length=0, zero=0, body=b''):
    os.write(4, struct.pack('<IBBHII', length or len(body), kind, zero, code, number, 0) + body)
"""

ATTACKS = {
    "noise": "os.write(4, os.urandom(4096))",
    "unknown kind": "reply(99, 0)",
    "reserved byte": "reply(5, 0, zero=1)",
    "a message of four gigabytes": "reply(5, 0, length=0xffffffff)",
    "one byte more than allowed": f"reply(5, 0, length={ContextLimits().reply_bytes + 1})",
    "a job that comes later": "reply(5, 1)",
    "a job that is over": "if payload == '1': reply(5, 0)",
    "a job that does not exist": "reply(5, 4_000_000_000)",
    "a status that is none": "reply(5, 0, code=999)",
    "the end before the end": "reply(6, 1)",
    "the end of another batch": "reply(6, 77)",
    "beforeEach that never was": "reply(4, 1)",
    "hello again": "reply(1, 1)",
    "loaded again": "reply(2, 0)",
    "refused": "reply(3, 0, body=b'{}')",
    "a failed batch": "reply(7, 1)",
    "leaving before anything ran": "reply(8, 1)",
    "a result too short": "reply(5, 0, body=b'xx')",
    "a result whose lengths lie": "reply(5, 0, body=struct.pack('<IIIII', 10**9, 0, 0, 0, 0))",
    "a log whose length lies": "reply(5, 0, body=struct.pack('<IIIII', 0, 5, 0, 0, 0))",
    "a million new jobs": "reply(5, 0, body=struct.pack('<IIIII', 0, 0, 0, 0, 10**6))",
    "a new job whose length lies": "reply(5, 0, body=struct.pack('<IIIIII', 0, 0, 0, 0, 1, 10**9))",
    "a new job without a type": "reply(5, 0, body=struct.pack('<IIIIII', 0, 0, 0, 0, 1, 3) + b'abc')",
    "trailing bytes": "reply(5, 0, body=struct.pack('<IIIII', 0, 0, 0, 0, 0) + b'more')",
    "the pipe closed": "os.close(4); import time; time.sleep(60)",
    "half a message and silence": "os.write(4, b'\\x05'); os._exit(0)",
}


async def until(true: Callable[[], bool]) -> None:
    """Another process has to act first; there is no event of ours to wait for."""
    while not true():  # noqa: ASYNC110  see above
        await asyncio.sleep(0.01)


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    limits = replace(ContextLimits(), kill_grace_s=0.2)
    made = Runner(PlainLauncher(), RunnerSettings(limits=limits))
    yield made
    await made.close()


@pytest.mark.parametrize("attack", ATTACKS)
async def test_a_forged_message_costs_the_forger(runner: Runner, attack: str) -> None:
    body = f"{REPLY}{ATTACKS[attack]}"
    seen = await run(runner, Handler("python", body, timeout_s=5.0), jobs("0", "1", "2", "3"))
    assert "error" in {one.code for one in seen.stopped}
    assert seen.given_back, "the jobs after it did not run"
    honest = await run(runner, Handler("python", "return payload"), jobs("a"), "honest-test")
    assert honest.results == [b'"a"']


async def test_a_hook_that_is_not_there_cannot_fail_jobs_that_are_over(runner: Runner) -> None:
    body = REPLY + "for n in range(3): reply(5, n)\nreply(6, 1, body=b'failed')\nimport time; time.sleep(60)"
    seen = await run(runner, Handler("python", body, timeout_s=5.0), jobs("0", "1", "2"))
    assert seen.exitcodes == [200, 200, 200]


async def test_claiming_all_jobs_done_reports_each_once_and_no_more(runner: Runner) -> None:
    """The forger may say of its own jobs what it likes; what it says twice or too much ends it."""
    body = REPLY + "for n in range(3): reply(5, n)\nreply(6, 1)\nimport time; time.sleep(60)"
    seen = await run(runner, Handler("python", body, timeout_s=0.3), jobs("0", "1", "2"))
    assert seen.exitcodes == [200, 200, 200]
    again = await run(runner, Handler("python", body, timeout_s=0.3), jobs("0"))
    assert len(again.stopped) == 1


async def test_speaking_between_batches(runner: Runner) -> None:
    """A thread that forges a reply while the context is idle ends it before the next batch counts on it."""
    body = (
        REPLY
        + "import threading, time\ndef later():\n    time.sleep(0.05)\n    reply(5, 0)\n"
        + "threading.Thread(target=later, daemon=True).start()"
    )
    made = Handler("python", body)
    assert (await run(runner, made, jobs("a"))).exitcodes == [200]
    context = next(iter(runner._pool._all_idle())).context
    await asyncio.wait_for(until(lambda: not context.usable), 20)
    assert (await run(runner, made, jobs("b"))).exitcodes == [200]


async def test_leaving_again_and_again_gives_nothing_back_for_ever(runner: Runner) -> None:
    """LEAVING spares the next job, so it counts only after one was reported: every call makes progress."""
    body = REPLY + "reply(5, 0)\nreply(8, 1)\nos._exit(0)"
    waiting = jobs("0", "1", "2", "3")
    calls = 0
    while waiting:
        seen = await run(runner, Handler("python", body), waiting)
        assert len(seen.given_back) < len(waiting)
        waiting = [job for job in waiting if job.id in seen.given_back]
        calls += 1
    assert calls == 4


async def test_a_copy_of_the_process_that_reports_too(runner: Runner) -> None:
    """A handler that forks and lets both copies return: only one of them is heard."""
    body = "import os\nif os.fork() == 0: return 'the copy'\nos.wait(); return 'the original'"
    seen = await run(runner, Handler("python", body), jobs("a", "b"))
    assert seen.results == [b'"the original"'] * 2


async def test_a_grandchild_that_keeps_the_pipes_open_holds_nobody_up(runner: Runner) -> None:
    body = """import os, time
if payload == '1':
    ready, tell = os.pipe()
    if os.fork() == 0:
        os.setsid(); os.write(tell, b'x'); time.sleep(8); os._exit(0)
    os.read(ready, 1); os._exit(0)"""
    seen = await run(runner, Handler("python", body, timeout_s=3.0), jobs("0", "1", "2"))
    assert seen.exitcodes == [200, 502]
    assert len(seen.given_back) == 1


@pytest.mark.slow
async def test_ten_gigabytes_of_output_and_one_endless_line(runner: Runner) -> None:
    """Raw output past the language: it is drained, bounded, and ends the job at the limit with its reason."""
    for command in ("cat /dev/zero", "yes"):
        body = f"import os; os.system({command!r})"
        seen = await run(runner, Handler("python", body, timeout_s=60.0), jobs("a", "b"))
        assert seen.exitcodes == [413]
        assert seen.results[0] == b"printed more than 64 MB; the job was ended"
        assert len(seen.stopped[0].log) <= ContextLimits().log_bytes


async def test_printing_for_ever_inside_the_language_is_ended_too(runner: Runner) -> None:
    """By the limit of time or by that of output, whichever comes first on this machine."""
    body = "while True: print('x' * 10_000, end='')"
    seen = await run(runner, Handler("python", body, timeout_s=0.5), jobs("a"))
    assert seen.exitcodes in ([504], [413])
    assert len(seen.stopped[0].log) <= ContextLimits().log_bytes + 60


@given(st.lists(st.binary(max_size=64), max_size=20))
def test_the_parser_returns_replies_or_refuses_and_nothing_else(chunks: list[bytes]) -> None:
    parser = ReplyParser(max_body_bytes=1000)
    for chunk in chunks:
        refused = parser.wrong is not None
        for reply in map(Reply._make, parser.feed(chunk)):
            assert not refused
            assert protocol.HELLO <= reply.kind <= protocol.PROGRESS
            assert len(reply.body) <= 1000
    assert len(parser._rest) < 1016


@given(
    st.lists(
        st.tuples(st.integers(1, 8), st.integers(0, 65535), st.just(b"") | st.binary(max_size=50)),
        max_size=20,
    ),
    st.integers(0, 40),
    st.integers(1, 40) | st.integers(300, 1000),
)
def test_the_parser_does_not_care_how_bytes_are_cut(
    replies: list[tuple[int, int, bytes]], alike: int, step: int
) -> None:
    replies = [(protocol.STOPPED, 200, b"")] * alike + replies
    stream = b"".join(
        struct.pack("<IBBHII", len(body), kind, 0, code, number, 7) + body
        for number, (kind, code, body) in enumerate(replies)
    )
    parser = ReplyParser(max_body_bytes=50)
    found = [Reply(*reply) for at in range(0, len(stream), step) for reply in parser.feed(stream[at : at + step])]
    assert [(reply.kind, reply.code, reply.body) for reply in found] == replies
    assert [reply.number for reply in found] == list(range(len(replies)))
    assert parser.wrong is None


@given(st.integers(0, 5), st.integers(1, 40), st.binary(max_size=40))
def test_what_was_said_before_the_first_wrong_word_counts(good: int, step: int, after: bytes) -> None:
    stream = b"".join(struct.pack("<IBBHII", 0, protocol.STOPPED, 0, 200, number, 7) for number in range(good))
    stream += struct.pack("<IBBHII", 0, 99, 0, 0, 0, 0) + after
    parser = ReplyParser(max_body_bytes=50)
    found = [Reply(*reply) for at in range(0, len(stream), step) for reply in parser.feed(stream[at : at + step])]
    assert [reply.number for reply in found] == list(range(good))
    assert "unknown kind 99" in str(parser.wrong)


@pytest.mark.parametrize("at", [0, 20, 39])
@pytest.mark.parametrize(("kind", "zero"), [(0, 0), (protocol.PROGRESS + 1, 0), (protocol.STOPPED, 1)])
def test_one_that_is_no_reply_among_many(at: int, kind: int, zero: int) -> None:
    good = struct.pack("<IBBHII", 0, protocol.STOPPED, 0, 200, 0, 7)
    bad = struct.pack("<IBBHII", 0, kind, zero, 200, 0, 7)
    parser = ReplyParser(max_body_bytes=50)
    assert len(parser.feed(good * at + bad + good * (39 - at))) == at
    assert f"unknown kind {kind}" in str(parser.wrong)


@pytest.mark.parametrize(
    "body",
    [
        struct.pack("<IIIII", 0, 0, 0, 0, 0) + b"more",
        struct.pack("<IIIII", 5, 0, 0, 0, 0) + b"four",
        struct.pack("<IIIII", 0, 5, 0, 0, 0) + b"four",
        struct.pack("<IIIIII", 0, 0, 0, 0, 1, 5) + b"a|b",
        struct.pack("<IIIIII", 0, 0, 0, 0, 1, 3) + b"a|bc",
        struct.pack("<IIIIII", 0, 0, 0, 0, 2, 3) + b"a|b",
        struct.pack("<IIIIII", 0, 0, 0, 0, 4, 3) + b"a|b" * 4,
    ],
)
def test_details_that_do_not_add_up(body: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_detail(body, max_new_jobs=3)


@given(st.binary(max_size=200))
def test_bodies_are_parsed_or_refused(body: bytes) -> None:
    for parse in (lambda: parse_detail(body, max_new_jobs=3), lambda: parse_refusal(body)):
        try:
            parse()
        except ProtocolError:
            continue


@given(st.lists(st.tuples(st.binary(max_size=20), st.integers(0, 2**32 - 1)), min_size=1, max_size=20))
def test_a_batch_says_where_everything_is(rows: list[tuple[bytes, int]]) -> None:
    batch = [Job(f"id-{number}", data, attempts) for number, (data, attempts) in enumerate(rows)]
    frame = encode_batch(3, 9, batch)
    length, kind, slot = struct.unpack_from("<IHH", frame)
    assert (length, kind, slot) == (len(frame) - 8, protocol.BATCH, 3)
    count = len(batch)
    assert struct.unpack_from("<II", frame, 8) == (9, count)
    sizes = struct.unpack_from(f"<{count}I", frame, 16)
    assert list(sizes) == [len(job.data) for job in batch]
    assert frame.endswith(b"".join(job.data for job in batch))


def test_this_suite_attacks_the_pipe_that_contexts_have() -> None:
    assert REPLY_FD == 4
