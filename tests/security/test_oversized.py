"""Values of tenants that are bigger than anything behind the runner takes: each becomes the outcome of its job."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from handlers.model import Handler
from runner.limits import ContextLimits
from runner.outcome import Stopped
from runner.plain import PlainLauncher
from runner.protocol import parse_new_job
from runner.raw_log import RawLog
from runner.runner import Runner, RunnerSettings
from runner.status_lines import MOST_LINES, is_one_status_line, parse_answer
from tests.support.engines import jobs, run
from vocabulary.new_job import NewJob

LIMITS = ContextLimits()
MIB = 1 << 20
RAW = "import os, time\ndef out(data):\n    while data: data = data[os.write(1, data):]\n"


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    made = Runner(PlainLauncher(), RunnerSettings(limits=replace(LIMITS, kill_grace_s=0.2)))
    yield made
    await made.close()


def over_a_limit(stopped: Stopped) -> bool:
    sizes = [len(new.type) + 1 + len(new.payload) for new in stopped.new_jobs]
    return (
        len(stopped.result) > LIMITS.result_bytes
        or max(sizes, default=0) > LIMITS.new_job_bytes
        or sum(sizes) > LIMITS.new_jobs_bytes
        or len(sizes) > LIMITS.new_jobs
    )


@pytest.mark.parametrize(
    "body",
    [
        # A line that is within the limit while it is unfinished, and is finished beyond it.
        "out(b'J: x|' + b'a' * (2 ** 20 - 4)); time.sleep(0.1); out(b'a' * 60_000 + b'\\n')",
        "out(b'J: x|' + b'a' * (2 ** 20 + 60_000) + b'\\n')",
        "out((b'J: x|' + b'a' * 600_000 + b'\\n') * 40)",
        "out(b'J: x|\\n' * 1001)",
    ],
    ids=["finished too long", "too long at once", "too many bytes", "too many"],
)
async def test_raw_lines_past_a_limit_are_that_jobs_failure(runner: Runner, body: str) -> None:
    seen = await run(runner, Handler("python", RAW + body), jobs("a"))
    assert not any(map(over_a_limit, seen.stopped))
    assert seen.exitcodes == [413]
    assert b"new job" in seen.results[0]


async def test_new_jobs_of_both_ways_count_together(runner: Runner) -> None:
    body = RAW + "for _ in range(12): ctx.enqueue('x', 'a' * 1_000_000)\nout((b'J: x|' + b'a' * 900_000 + b'\\n') * 9)"
    seen = await run(runner, Handler("python", body), jobs("a"))
    assert seen.exitcodes == [413]
    assert not seen.stopped[0].new_jobs


@pytest.mark.parametrize("cut", [1, 3, 1000, MIB])
def test_a_line_is_too_long_however_it_was_cut(cut: int) -> None:
    limits = ContextLimits(new_job_bytes=2000)
    line = b"J: x|" + b"a" * 2000 + b"\n"
    log = RawLog(limits)
    for at in range(0, len(line), cut):
        log.feed(line[at : at + cut])
    printed = log.take()
    assert not printed.new_jobs
    assert "new job" in printed.too_much


@pytest.mark.parametrize(
    "before",
    [
        b"J: x|" + b"a" * (MIB + 1),
        b"\n".join([b"J: x|" + b"a" * 900_000] * 19),
        b"\n".join([b"J: x|"] * 1001),
        b"\n".join([b"J: x|"] * 1001 + [b"J: what is this"]),
    ],
    ids=["too long", "too many bytes", "too many", "and one that is none"],
)
async def test_an_http_answer_past_a_limit_fails_its_job_only(before: bytes) -> None:
    lines = await parse_answer(before + b"\n200 first\n200 second\n", 2, LIMITS)
    assert [line.exitcode for line in lines] == [413, 200]
    assert not lines[0].new_jobs


async def test_an_http_result_past_the_limit() -> None:
    small = replace(LIMITS, result_bytes=10)
    lines = await parse_answer(
        b"C: " + b"x" * 2_000_000 + b"\n200\n#C: a b\n200\nC: lost\n500 broken\n200\n", 4, LIMITS
    )
    assert [(line.exitcode, line.carried) for line in lines] == [(413, None), (200, b"a b"), (500, None), (200, None)]
    lines = await parse_answer(b"200 " + b"x" * 11 + b"\n200 ok\n", 2, small)
    assert [line.exitcode for line in lines] == [413, 200]


async def test_an_http_answer_of_very_many_lines_is_not_read() -> None:
    lines = await parse_answer(b"#\n" * (MOST_LINES + 1) + b"200 ok\n", 2, LIMITS)
    assert [(line.exitcode, line.result) for line in lines] == [(413, b"the answer has more than 100,000 lines")] * 2
    lines = await parse_answer(b"J: x|\n" * MOST_LINES + b"200 ok\n" * 200, 200, LIMITS)
    assert [line.exitcode for line in lines] == [413] + [200] * 199, "together they may make so many jobs"


async def test_others_get_their_turn_while_an_http_answer_is_read() -> None:
    turns, is_read = 0, asyncio.Event()

    async def others() -> None:
        nonlocal turns
        while not is_read.is_set():
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    lines = await parse_answer(b"#\n" * 90_000 + b"200 ok\n", 1, LIMITS)
    is_read.set()
    await beside
    assert [line.exitcode for line in lines] == [200]
    assert turns > 10


@pytest.mark.parametrize(
    ("body", "is_one"),
    [
        (b"200", True),
        (b"200 ok\r\n", True),
        (b"# note\r\nJ: x|1\n#J: x|2\nC: kept\n#C: kept\n404 gone\n", True),
        (b"text\n200", False),
        (b"\n200", True),
        (b"200\n# after it", True),
        (b"200\n201", False),
        (b"", False),
        (b"#\n" * (MOST_LINES + 1) + b"200", True),
        (b"200\n" + b"#\n" * (MOST_LINES + 1), True),
        (b"#\n" * 10 + b"x\n" * MOST_LINES + b"200", False),
    ],
    ids=[
        "status",
        "result",
        "lines before it",
        "text",
        "blank",
        "comment last",
        "two",
        "nothing",
        "too many",
        "too many after it",
        "many others",
    ],
)
def test_the_answer_to_one_job_is_a_status_line_or_its_result(body: bytes, is_one: bool) -> None:
    assert is_one_status_line(body) is is_one


def test_new_jobs_past_the_limit_are_not_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0

    def count(text: bytes) -> NewJob:
        nonlocal read
        read += 1
        return parse_new_job(text)

    monkeypatch.setattr("runner.raw_log.parse_new_job", count)
    log = RawLog(ContextLimits(new_jobs=10))
    for _ in range(3):
        log.feed(b"J: x|\n" * 1000)
    printed = log.take()
    assert "new jobs" in printed.too_much
    assert not printed.new_jobs
    assert read == 11
