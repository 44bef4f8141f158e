"""The two logs of a job, in the python bootstrap and in the daemon, agree whatever is printed."""

import importlib.util
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.bootstraps.python import Log
from handlers.languages import BOOTSTRAPS
from runner.limits import ContextLimits
from runner.protocol import parse_new_job
from runner.raw_log import MOST_NOTES, RawLog

KEEP = 60
LINE = 90
LIMITS = ContextLimits(log_bytes=KEEP, new_job_bytes=LINE)
words = st.sampled_from(["J: ", "#J: ", "mail|x", "|", "plain text ", "\n", "\n", "S: 200", "é", "x" * 40, "x" * 100])
texts = st.lists(st.lists(words, max_size=6).map("".join), max_size=12)


def inner(pieces: list[str]) -> tuple[bytes, list[bytes]]:
    log = Log()
    log.keep, log.line_max = KEEP, LINE
    for piece in pieces:
        log.write(piece)
        log.settle()
    log.settle(final=True)
    return log.kept.encode(), log.lines


def outer(pieces: list[str]) -> tuple[bytes, list[bytes]]:
    log = RawLog(LIMITS)
    for piece in pieces:
        log.feed(piece.encode())
    printed = log.take()
    return printed.log, [f"{job.type}|".encode() + job.payload for job in printed.new_jobs]


@given(texts)
def test_both_find_the_same_new_jobs_in_short_lines(pieces: list[str]) -> None:
    whole = "".join(pieces)
    if any(len(line.encode()) > KEEP for line in whole.split("\n")):
        return
    assert inner(pieces)[1] == outer(pieces)[1]
    marked = [line.split("J: ", 1)[1] for line in whole.split("\n") if line.startswith(("J: ", "#J: "))]
    assert inner(pieces)[1] == [line.encode() for line in marked if re.match(r"[A-Za-z0-9][\w.:-]*\|", line, re.ASCII)]


@given(texts)
def test_both_stay_within_their_bounds_and_keep_the_end(pieces: list[str]) -> None:
    for text, new_jobs in (inner(pieces), outer(pieces)):
        assert len(text.decode(errors="replace")) <= KEEP
        for line in new_jobs:
            assert parse_new_job(line).type  # raises when it is no new job
    assert all(len(line) <= LINE for line in outer(pieces)[1])


@pytest.mark.parametrize(
    "line",
    [
        b"J: ",
        b"#J: x",
        b"J: |",
        b"J: a b|c",
        "J: é|x".encode(),
        b"J: a?",
        b"J: a?b=1",
        b"#J: a?b c|x",
        "J: a?é|x".encode(),
        b"J: a?%b|x" % (b"b" * 2001),
    ],
)
def test_lines_that_are_no_new_jobs_cost_little_however_many(line: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    monkeypatch.setattr("runner.raw_log.parse_new_job", parsed.append)
    log = RawLog(ContextLimits(log_bytes=1 << 25))
    log.feed((line + b"\n") * 10_000)
    printed = log.take()
    assert parsed == []
    assert printed.log.count(b"[not a new job") == MOST_NOTES
    assert printed.log.endswith(b"\n" + line + b"\n")
    log.feed(line + b"\n")
    assert b"[not a new job: write" in log.take().log, "the next job is told again"


@pytest.mark.parametrize("options", [b"", b"?", b"?a=1", b"?a?b{}~!", b"?" + b"b" * 2000])
@pytest.mark.parametrize("payload", [b"", b"a|b?c", "é".encode()])
def test_lines_that_are_new_jobs_are_taken(options: bytes, payload: bytes) -> None:
    log = RawLog(ContextLimits())
    log.feed(b"J: a%b|%b\n" % (options, payload))
    assert log.take().new_jobs == (parse_new_job(b"a%b|%b" % (options, payload)),)


@given(texts)
def test_without_marks_the_log_is_the_end_of_what_was_printed(pieces: list[str]) -> None:
    whole = "".join(pieces).replace("J: ", "J; ")
    log = RawLog(LIMITS)
    for at in range(0, len(whole.encode()), 7):
        log.feed(whole.encode()[at : at + 7])
    assert log.total_bytes == len(whole.encode())
    printed = log.take()
    assert printed.log == whole.encode()[-KEEP:]
    assert printed.dropped == max(len(whole.encode()) - KEEP, 0)
    assert log.take() == (b"", 0, (), "")


def test_the_bootstrap_imports_nothing_but_the_standard_library() -> None:
    for name in ("python.py", "sh.py"):
        text = (BOOTSTRAPS / name).read_text()
        runtime = text.replace("    from handlers.bootstraps import python\n", "")
        assert "handlers" not in [word for line in runtime.splitlines() if "import" in line for word in line.split()]
    assert importlib.util.find_spec("handlers.bootstraps.python") is not None
