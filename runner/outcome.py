"""How a job stopped, as a value, and the words for it.

Owns the exit codes that the runner itself gives and their texts; the codes 100 to 599 that a handler chooses
pass through. A result of a job that the runner stopped is plain text that says what happened, for the tenant
to read.
"""

import signal
from collections.abc import Iterable
from itertools import repeat
from typing import Final, NamedTuple

from runner.errors import OutputError
from runner.launch import Exit, Level
from runner.log_note import noted
from vocabulary.new_job import NewJob

OK: Final = 200
TOO_BIG: Final = 413
BROKEN: Final = 500  # an exception, a batch hook that failed
CRASHED: Final = 502
NOT_STARTED: Final = 503
TIMED_OUT: Final = 504
NO_MEMORY: Final = 507
CANCELLED: Final = 499

_NEW_JOB_BYTES: Final = 256
"""What a new job takes in memory besides its payload and options: a job can make a thousand of one letter each."""

OOM_KILLED: Final = b"out of memory: the kernel ended a process of the job\n"
"""Stands before what the job says of its error."""

EXTERNAL: Final = "external"
"""The isolation of a run that was not ours."""

_NAMES: Final = {1: "retry", 2: "ok", 4: "failed", 5: "error"}


class Stopped(NamedTuple):
    """One job that is no longer running."""

    id: str
    code: str  # retry, ok, failed, error, cancelled
    exitcode: int  # 1xx, 2xx, 4xx, 5xx
    result: bytes
    log: bytes  # the end of what it printed
    duration_ms: float  # by the daemon's clock
    new_jobs: tuple[NewJob, ...]
    level: Level | None  # None: it ran elsewhere
    retry_after_ms: int | None = None  # what the handler asked for
    carried: bytes | None = None  # the payload of its next attempt or round
    log_dropped: int = 0  # bytes that it printed before what is kept

    @property
    def isolation(self) -> str:
        """The level, in a word."""
        return EXTERNAL if self.level is None else self.level.name

    @property
    def noted_log(self) -> bytes:
        """The log for a reader, who is told if its beginning is missing."""
        return noted(self.log_dropped, self.log)


def ended_well(
    ids: Iterable[str], results: Iterable[bytes], durations_ms: Iterable[float], level: Level
) -> list[Stopped]:
    """Jobs that left a result and nothing else, as most do: by the thousand, so the columns are put together by
    `tuple.__new__`, which is what Stopped itself calls."""
    rows = zip(
        ids,
        repeat("ok"),
        repeat(OK),
        results,
        repeat(b""),
        durations_ms,
        repeat(()),
        repeat(level),
        repeat(None),
        repeat(None),
        repeat(0),
    )
    return list(map(tuple.__new__, repeat(Stopped), rows))


def size_bytes(stopped: Stopped) -> int:
    """Of what it left."""
    new_jobs = sum(len(new.payload) + len(new.options) for new in stopped.new_jobs) if stopped.new_jobs else 0
    return len(stopped.result) + len(stopped.log) + new_jobs + len(stopped.carried or b"")


def held_bytes(stopped: Stopped) -> int:
    """What that takes in memory, for those who keep it until it is recorded."""
    return size_bytes(stopped) + _NEW_JOB_BYTES * len(stopped.new_jobs)


def leaves_nothing(exitcode: int) -> bool:
    """Whether a job that ends so makes no new jobs and carries nothing on. An error runs again as it did before, and
    makes them again. Of what is too big (413, whoever says so) all or nothing counts, so it is nothing."""
    return exitcode >= BROKEN or exitcode == TOO_BIG


def too_big(stopped: Stopped, why: str) -> Stopped:
    """What a job left passes a limit: instead of it, the reason."""
    return stopped._replace(
        code=name_of(TOO_BIG), exitcode=TOO_BIG, result=why.encode(), new_jobs=(), retry_after_ms=None, carried=None
    )


def cancelled(stopped: Stopped, text: bytes) -> Stopped:
    """A job that was cancelled before it had stopped: its log is kept, and what it asked for is not done."""
    return stopped._replace(
        code="cancelled", exitcode=CANCELLED, result=text, new_jobs=(), retry_after_ms=None, carried=None
    )


def is_status(exitcode: int) -> bool:
    return 100 <= exitcode <= 299 or 400 <= exitcode <= 599


def name_of(exitcode: int) -> str:
    """The word for a status; anything that is none is an error."""
    return _NAMES.get(exitcode // 100, "error")


def describe_exit(end: Exit, *, memory_mb: int) -> tuple[int, str]:
    """(exitcode, text) for a context that ended in the middle of a job."""
    if end.oom:
        return NO_MEMORY, f"out of memory: the limit is {memory_mb} MB"
    if end.signal == signal.SIGXCPU:
        return CRASHED, "the process used up its CPU time"
    if end.signal is not None:
        return CRASHED, f"the process was ended by {_signal_name(end.signal)} during the job"
    return CRASHED, f"the process ended with exit status {end.status} during the job"


def describe_end(end: Exit, why: Exception | None, memory_mb: int) -> tuple[int, str]:
    """The same for one that may have been ended for what it did."""
    if isinstance(why, OutputError):
        return TOO_BIG, f"{why}; the job was ended"
    if why is not None:
        return CRASHED, f"broke the runner protocol: it {why}"
    return describe_exit(end, memory_mb=memory_mb)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
