"""One log line for each job that enters, starts or stops, for analytics.

Lines are written in batches and not through `logging`, which would cost more than the jobs themselves. Ids, jobtypes
and codes have fixed alphabets and need no quoting.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from operator import floordiv
from typing import Any, Final

from functory.logs import Style
from store.base import Job, Outcome
from vocabulary.columns import fields
from vocabulary.time_text import iso_time

_LINES: Final[dict[Style, dict[str, str]]] = {
    "text": {
        "entered": "%s INFO job.entered id=%s jobtype=%s size_bytes=%s\n",
        "started": "%s INFO job.started id=%s jobtype=%s attempt=%s waited_ms=%s\n",
        "stopped": "%s INFO job.stopped id=%s jobtype=%s attempt=%s code=%s exitcode=%s duration_ms=%s\n",
    },
    "json": {
        "entered": '{"time": "%s", "level": "INFO", "event": "job.entered", "id": "%s", "jobtype": "%s",'
        ' "size_bytes": %s}\n',
        "started": '{"time": "%s", "level": "INFO", "event": "job.started", "id": "%s", "jobtype": "%s",'
        ' "attempt": %s, "waited_ms": %s}\n',
        "stopped": '{"time": "%s", "level": "INFO", "event": "job.stopped", "id": "%s", "jobtype": "%s",'
        ' "attempt": %s, "code": "%s", "exitcode": %s, "duration_ms": %s}\n',
    },
}

_ID, _JOBTYPE, _ATTEMPTS = fields(Job, "id"), fields(Job, "jobtype"), fields(Job, "attempts")
_DUE_MS, _CREATE_MS = fields(Job, "due_ms"), fields(Job, "create_ms")
_CODE, _EXITCODE, _DURATION_US = fields(Outcome, "code"), fields(Outcome, "exitcode"), fields(Outcome, "duration_us")


class JobLog:
    """Formats job events. Passes the lines of a batch to `write` in one piece."""

    def __init__(self, write: Callable[[str], object], style: Style = "text") -> None:
        self._write = write
        self._lines = _LINES[style]

    def entered(self, ids: Iterable[str], jobtypes: Iterable[str], payloads: Iterable[bytes], now_ms: int) -> None:
        self._log("entered", now_ms, ids, jobtypes, map(len, payloads))

    def started(self, jobs: Sequence[Job], now_ms: int) -> None:
        """These were delivered, and start now."""
        due_ms, created_ms = list(map(_DUE_MS, jobs)), list(map(_CREATE_MS, jobs))
        since_ms = due_ms if due_ms == created_ms else map(max, due_ms, created_ms)
        waited_ms = [now_ms - each_ms if each_ms < now_ms else 0 for each_ms in since_ms]
        self._log("started", now_ms, map(_ID, jobs), map(_JOBTYPE, jobs), map(_ATTEMPTS, jobs), waited_ms)

    def stopped(self, jobs: Sequence[Job], outcomes: Sequence[Outcome], now_ms: int) -> None:
        """The outcome of each of the jobs was recorded."""
        durations_ms = map(floordiv, map(_DURATION_US, outcomes), repeat(1000))
        self._log(
            "stopped", now_ms, map(_ID, jobs), map(_JOBTYPE, jobs), map(_ATTEMPTS, jobs),
            map(_CODE, outcomes), map(_EXITCODE, outcomes), durations_ms,
        )  # fmt: skip

    def _log(self, event: str, now_ms: int, *values: Iterable[Any]) -> None:
        """A column for each field. Values that all jobs share are put into the line once, and all lines are formatted
        together: a third of the time of formatting each line."""
        columns = list(map(list, values))
        count = len(columns[0])
        if not count:
            return
        line = self._lines[event]
        if count == 1:
            self._write(line % (iso_time(now_ms), *next(zip(*columns, strict=True))))
            return
        shared: list[object] = [iso_time(now_ms)]
        varying = []
        for column in columns:
            if column.count(column[0]) == count:
                shared.append(column[0])
            else:
                shared.append("%s")
                varying.append(column)
        text = line % tuple(shared) * count
        if varying:
            text %= tuple(chain.from_iterable(zip(*varying, strict=True)))
        self._write(text)
