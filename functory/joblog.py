"""One log line for each job that enters, starts and stops, so that the log files can serve analytics.

Written in whole batches and past the logging machinery, which costs more than the jobs it would describe. Ids, jobtypes
and codes come from fixed alphabets and need no quoting.
"""

import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

from functory.logs import Style, format_time


class Entered(NamedTuple):
    id: str
    jobtype: str
    size_bytes: int


class Started(NamedTuple):
    id: str
    jobtype: str
    attempt: int
    waited_ms: int


class Stopped(NamedTuple):
    id: str
    jobtype: str
    attempt: int
    code: str
    exitcode: int
    duration_ms: int


class JobLog:
    """Formats job events and hands each batch of lines to `write` in one piece."""

    def __init__(self, write: Callable[[str], object], style: Style = "text") -> None:
        self._write = write
        self._style = style

    def entered(self, jobs: Iterable[Entered], now_ms: int) -> None:
        self._log("job.entered", jobs, now_ms)

    def started(self, jobs: Iterable[Started], now_ms: int) -> None:
        self._log("job.started", jobs, now_ms)

    def stopped(self, jobs: Iterable[Stopped], now_ms: int) -> None:
        self._log("job.stopped", jobs, now_ms)

    def _log(self, event: str, jobs: Iterable[Entered | Started | Stopped], now_ms: int) -> None:
        moment = format_time(now_ms)
        if self._style == "json":
            head = {"time": moment, "level": "INFO", "event": event}
            lines = [json.dumps({**head, **job._asdict()}) for job in jobs]
        else:
            lines = [
                f"{moment} INFO {event}"
                + "".join(f" {name}={value}" for name, value in zip(job._fields, job, strict=True))
                for job in jobs
            ]
        if lines:
            self._write("\n".join(lines) + "\n")
