"""The answer of an http handler to a batch: one status line per job, in the order of the payloads.

    200                      a status
    200 {"total": 3}         a status and a result
    J: mail|hello            a new job, made by the job whose status line follows
    J: mail?child=1|hello    a new job with options
    C: {"last": 17}          the payload of the next attempt or round of the job whose status line follows
    # anything               a comment: belongs to no job, like a blank line

A line that is none of these ends the reading: nobody can say which job it was meant for, so the job whose turn it is
and all after it are errors. Jobs without a line are errors. An answer of very many lines is not read.
Ensures: no job gets the status of its neighbour.
"""

import asyncio
import re
from typing import Final, NamedTuple

from runner import outcome
from runner.errors import ProtocolError
from runner.limits import ContextLimits
from runner.new_jobs import NewJobs
from runner.protocol import parse_new_job
from vocabulary.new_job import NewJob

_STATUS: Final = re.compile(rb"(\d{3})(?: (.*))?", re.DOTALL)
NEW_JOB: Final = (b"J: ", b"#J: ")
CARRY: Final = (b"C: ", b"#C: ")
COMMENT: Final = b"#"
MOST_LINES: Final = 100_000
"""Of an answer, unless the jobs of the batch may have made more together."""
_OTHER_LINES: Final = 10
"""Of a job that makes as many as it may: its status, what it carries on, comments."""
_STEP_LINES: Final = 5000
_OTHERS: Final = re.compile(rb"(?:(?:(?:[JC]: |#)[^\n]*|\r?)\n){0,%d}+" % MOST_LINES)
"""Lines that may stand beside a status line."""


class Line(NamedTuple):
    exitcode: int
    result: bytes
    new_jobs: tuple[NewJob, ...] = ()
    carried: bytes | None = None


class Answer:
    """The lines of an answer to `count` jobs, taken some at a time: to read many takes a while."""

    def __init__(self, count: int, limits: ContextLimits, *, makes_jobs: bool) -> None:
        """makes_jobs: otherwise lines that would make jobs are comments."""
        self._count = count
        self._limits = limits
        self._makes_jobs = makes_jobs
        self._lines: list[Line] = []
        self._new_jobs = NewJobs(limits)
        self._carried: bytes | None = None

    @property
    def is_over(self) -> bool:
        """Every job has its line; those that follow are ignored."""
        return len(self._lines) == self._count

    def take(self, raw: bytes) -> None:
        text = raw.removesuffix(b"\r")
        if text.startswith(NEW_JOB):
            if self._makes_jobs:
                self._take_new_job(text)
        elif text.startswith(CARRY):
            self._carried = text.split(b"C: ", 1)[1]
        elif text and not text.startswith(COMMENT):
            line = parse_line(text)
            if line is None:
                self._spoil(f"not a status line: {_shown(text)}; write a status and a result")
                return
            self._lines.append(_finish(line._replace(carried=self._carried), self._new_jobs, self._limits))
            self._new_jobs, self._carried = NewJobs(self._limits), None

    def lines(self) -> list[Line]:
        """Exactly one for each job, each within the limits of a job."""
        missing = Line(outcome.BROKEN, b"the answer has no status line for this job")
        return self._lines + [missing] * (self._count - len(self._lines))

    def _take_new_job(self, text: bytes) -> None:
        if self._new_jobs.too_much:  # and its job fails, whatever else it wants
            return
        try:
            self._new_jobs.add(parse_new_job(text.split(b"J: ", 1)[1]))
        except ProtocolError as error:
            self._spoil(f"not a new job: {_shown(text)}: {error}")

    def _spoil(self, what: str) -> None:
        """Lines before the one that cannot be read stand; the job whose turn it is and those after it are errors."""
        after = Line(outcome.BROKEN, f"an earlier line of the answer cannot be read: {what}".encode())
        self._lines.append(Line(outcome.BROKEN, what.encode()))
        self._lines += [after] * (self._count - len(self._lines))


async def parse_answer(body: bytes, count: int, limits: ContextLimits, *, makes_jobs: bool = True) -> list[Line]:
    """Exactly `count` lines. Others get their turn while many are read."""
    most = max(MOST_LINES, count * (limits.new_jobs + _OTHER_LINES))
    if body.count(b"\n") > most:
        return [Line(outcome.TOO_BIG, f"the answer has more than {most:,} lines".encode())] * count
    answer = Answer(count, limits, makes_jobs=makes_jobs)
    for number, raw in enumerate(body.split(b"\n"), 1):
        if answer.is_over:
            break
        answer.take(raw)
        if number % _STEP_LINES == 0:
            await asyncio.sleep(0)
    return answer.lines()


def is_one_status_line(body: bytes) -> bool:
    """Whether the answer for a batch of one has one status line, and beside it only lines that may stand there in the
    answer for several. Also if these are too many to be read."""
    text = body.rstrip(b"\r\n") + b"\n"
    start, is_whole = _skip_others(text, 0)
    if not is_whole:
        start = text.rfind(b"\n", 0, -1) + 1
    end = text.find(b"\n", start) + 1
    if not end or parse_line(text[start : end - 1].removesuffix(b"\r")) is None:
        return False
    after, is_whole = _skip_others(text, end)
    return after == len(text) or not is_whole


def _skip_others(text: bytes, start: int) -> tuple[int, bool]:
    """(where the lines beside a status line end, whether that is all of them)."""
    found = _OTHERS.match(text, start)
    end = start if found is None else found.end()
    return end, text.count(b"\n", start, end) < MOST_LINES


def parse_line(text: bytes) -> Line | None:
    """None if it is not a status line."""
    found = _STATUS.fullmatch(text)
    if found is None or not outcome.is_status(int(found[1])):
        return None
    return Line(int(found[1]), found[2] or b"")


def _shown(text: bytes) -> str:
    return repr(text[:80].decode("utf-8", "replace"))


def _finish(line: Line, new_jobs: NewJobs, limits: ContextLimits) -> Line:
    if new_jobs.too_much:
        return Line(outcome.TOO_BIG, new_jobs.too_much.encode())
    if len(line.result) > limits.result_bytes:
        return Line(outcome.TOO_BIG, f"answered with a result of more than {limits.result_bytes} bytes".encode())
    if len(line.carried or b"") > limits.new_job_bytes:
        return Line(outcome.TOO_BIG, f"carried more than {limits.new_job_bytes} bytes on".encode())
    if outcome.leaves_nothing(line.exitcode):
        return line._replace(new_jobs=(), carried=None)
    return line._replace(new_jobs=new_jobs.taken())
