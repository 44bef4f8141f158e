"""The answer of an http handler to a batch: one status line per job, in the order of the payloads. Pure.

    200                      a status
    200 {"total": 3}         a status and a result
    J: mail|hello            a new job, made by the job whose status line follows

A line that is none of these spoils only the job whose turn it is; jobs without a line are errors.
"""

import re
from typing import Final, NamedTuple

from runner import outcome
from runner.errors import ProtocolError
from runner.protocol import NewJob, parse_new_job

_STATUS: Final = re.compile(rb"(\d{3})(?: (.*))?", re.DOTALL)
_MARKS: Final = (b"J: ", b"#J: ")


class Line(NamedTuple):
    exitcode: int
    result: bytes
    new_jobs: tuple[NewJob, ...] = ()


def parse_answer(body: bytes, count: int, *, max_new_jobs: int) -> list[Line]:
    """Exactly `count` lines; lines past them are ignored."""
    lines: list[Line] = []
    new_jobs: list[NewJob] = []
    for raw in body.split(b"\n"):
        text = raw.removesuffix(b"\r")
        if len(lines) == count:
            break
        if text.startswith(_MARKS):
            try:
                new_jobs.append(parse_new_job(text.split(b"J: ", 1)[1]))
                continue
            except ProtocolError:
                pass  # it stands where a status belongs, and is judged as one
        if text:
            lines.append(_finish(parse_line(text), new_jobs, max_new_jobs))
            new_jobs = []
    missing = Line(outcome.BROKEN, b"the answer has no status line for this job")
    return lines + [missing] * (count - len(lines))


def parse_line(text: bytes) -> Line:
    found = _STATUS.fullmatch(text)
    if found is None or not outcome.is_status(int(found[1])):
        shown = text[:80].decode("utf-8", "replace")
        return Line(outcome.BROKEN, f"not a status line: {shown!r}; write a status and a result".encode())
    return Line(int(found[1]), found[2] or b"")


def _finish(line: Line, new_jobs: list[NewJob], max_new_jobs: int) -> Line:
    if len(new_jobs) > max_new_jobs:
        return Line(outcome.TOO_BIG, f"made more than {max_new_jobs} new jobs".encode())
    return line._replace(new_jobs=() if line.exitcode >= outcome.BROKEN else tuple(new_jobs))
