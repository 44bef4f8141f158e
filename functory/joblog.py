"""One log line for each job that enters, starts and stops, so that the log files can serve analytics.

Written in whole batches and past the logging machinery, which costs more than the jobs it would describe. Ids, jobtypes
and codes come from fixed alphabets and need no quoting.
"""

from collections.abc import Callable, Iterable
from itertools import chain
from typing import Final

from functory.logs import Style, format_time

Entered = tuple[str, str, int]  # id, jobtype, size_bytes
Started = tuple[str, str, int, int]  # id, jobtype, attempt, waited_ms
Stopped = tuple[str, str, int, str, int, int]  # id, jobtype, attempt, code, exitcode, duration_ms

_LINES: Final[dict[Style, dict[str, str]]] = {
    "text": {
        "entered": "{time} INFO job.entered id=%s jobtype=%s size_bytes=%s\n",
        "started": "{time} INFO job.started id=%s jobtype=%s attempt=%s waited_ms=%s\n",
        "stopped": "{time} INFO job.stopped id=%s jobtype=%s attempt=%s code=%s exitcode=%s duration_ms=%s\n",
    },
    "json": {
        "entered": '{"time": "{time}", "level": "INFO", "event": "job.entered", "id": "%s", "jobtype": "%s",'
        ' "size_bytes": %s}\n',
        "started": '{"time": "{time}", "level": "INFO", "event": "job.started", "id": "%s", "jobtype": "%s",'
        ' "attempt": %s, "waited_ms": %s}\n',
        "stopped": '{"time": "{time}", "level": "INFO", "event": "job.stopped", "id": "%s", "jobtype": "%s",'
        ' "attempt": %s, "code": "%s", "exitcode": %s, "duration_ms": %s}\n',
    },
}


class JobLog:
    """Formats job events and hands each batch of lines to `write` in one piece."""

    def __init__(self, write: Callable[[str], object], style: Style = "text") -> None:
        self._write = write
        self._lines = _LINES[style]

    def entered(self, jobs: Iterable[Entered], now_ms: int) -> None:
        self._log("entered", jobs, now_ms)

    def started(self, jobs: Iterable[Started], now_ms: int) -> None:
        self._log("started", jobs, now_ms)

    def stopped(self, jobs: Iterable[Stopped], now_ms: int) -> None:
        self._log("stopped", jobs, now_ms)

    def _log(self, event: str, jobs: Iterable[Entered | Started | Stopped], now_ms: int) -> None:
        """What all jobs share is written into the line once, and all lines are one format: a third of the time that one
        line after the other takes."""
        columns = list(zip(*jobs, strict=True))
        if not columns:
            return
        count = len(columns[0])
        shared: list[object] = []
        varying = []
        for column in columns:
            if column.count(column[0]) == count:
                shared.append(column[0])
            else:
                shared.append("%s")
                varying.append(column)
        text = self._lines[event].replace("{time}", format_time(now_ms)) % tuple(shared) * count
        if varying:
            text %= tuple(chain.from_iterable(zip(*varying, strict=True)))
        self._write(text)
