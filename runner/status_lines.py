"""The answer of an http handler to a batch: one status line per job, in the order of the payloads. Pure.

    200                      a status
    200 {"total": 3}         a status and a result
    J: mail|hello            a new job, made by the job whose status line follows
    J: mail?child=1|hello    a new job with options
    C: {"last": 17}          the payload of the next attempt or round of the job whose status line follows
    # anything               a comment: belongs to no job, like a blank line

A line that is none of these ends the reading: nobody can say which job it was meant for, so the job whose turn it is
and all after it are errors. Jobs without a line are errors.
Ensures: no job gets the status of its neighbour.
"""

import re
from typing import Final, NamedTuple

from runner import outcome
from runner.errors import ProtocolError
from runner.limits import ContextLimits
from runner.new_jobs import NewJobs
from runner.protocol import NewJob, parse_new_job

_STATUS: Final = re.compile(rb"(\d{3})(?: (.*))?", re.DOTALL)
NEW_JOB: Final = (b"J: ", b"#J: ")
CARRY: Final = (b"C: ", b"#C: ")
COMMENT: Final = b"#"


class Line(NamedTuple):
    exitcode: int
    result: bytes
    new_jobs: tuple[NewJob, ...] = ()
    carried: bytes | None = None


def parse_answer(body: bytes, count: int, limits: ContextLimits) -> list[Line]:
    """Exactly `count` lines, each within the limits of a job; lines past them are ignored."""
    lines: list[Line] = []
    new_jobs = NewJobs(limits)
    carried: bytes | None = None
    for raw in body.split(b"\n"):
        text = raw.removesuffix(b"\r")
        if len(lines) == count:
            break
        if text.startswith(NEW_JOB):
            try:
                new_jobs.add(parse_new_job(text.split(b"J: ", 1)[1]))
            except ProtocolError as error:
                return _spoiled(lines, count, f"not a new job: {_shown(text)}: {error}")
        elif text.startswith(CARRY):
            carried = text.split(b"C: ", 1)[1]
        elif text and not text.startswith(COMMENT):
            line = parse_line(text)
            if line is None:
                return _spoiled(lines, count, f"not a status line: {_shown(text)}; write a status and a result")
            lines.append(_finish(line._replace(carried=carried), new_jobs, limits))
            new_jobs, carried = NewJobs(limits), None
    missing = Line(outcome.BROKEN, b"the answer has no status line for this job")
    return lines + [missing] * (count - len(lines))


def parse_line(text: bytes) -> Line | None:
    """None if it is not a status line."""
    found = _STATUS.fullmatch(text)
    if found is None or not outcome.is_status(int(found[1])):
        return None
    return Line(int(found[1]), found[2] or b"")


def _spoiled(lines: list[Line], count: int, what: str) -> list[Line]:
    """The lines before the one that cannot be read stand; the job whose turn it is and those after it are errors."""
    after = Line(outcome.BROKEN, f"an earlier line of the answer cannot be read: {what}".encode())
    return [*lines, Line(outcome.BROKEN, what.encode())] + [after] * (count - len(lines) - 1)


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
