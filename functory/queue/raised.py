"""Tells the log of a job that raised: which it is, what it raised, and what became of it.

A task's exception is the outcome of its job, so it ends there, and whoever runs the program would not see it. It is
`queue.job_raised` of the logger `functory.queue`, with the fields id, type, attempt, became and raised. `Fail` and
`Retry` are what a task means to say: they are told as information, without a trace. Nothing of the payload is told.
"""

import asyncio
import logging
import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Final

from functory.errors import LeaseLost

if TYPE_CHECKING:
    from functory.queue.job import Job

log = logging.getLogger("functory.queue")

_BECAME: Final = {
    "ok": "it had ended well before",
    "retry": "it will be tried again",
    "error": "it will be tried again",
    "failed": "it has failed",
    "abandoned": "it is abandoned: it has no attempts or no time left",
}
_UNKNOWN: Final = "not known here: its end was not recorded"
_LONGEST: Final = 300
"""Characters of what was raised. The trace has its own limit, in functory/logs.py."""
_OURS: Final = f"{Path(__file__).parent}{os.sep}"


def begin_in_task(error: BaseException) -> None:
    """Have its trace begin in the program's own code: how we called that says nothing about what went wrong. A trace
    with no other frames than ours stays whole."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    if trace is not None:
        error.__traceback__ = trace


def tell_raised(job: "Job", error: BaseException | None, *, is_meant: bool, has_trace: bool = True) -> None:
    """is_meant: the error is an outcome that the task chose. has_trace: it was raised by the task; what its end was
    refused for is a sentence, and a trace through our code adds nothing. A job that is lost or was given back has
    none."""
    if error is None or isinstance(error, LeaseLost | KeyboardInterrupt | SystemExit | GeneratorExit):
        return
    if isinstance(error, asyncio.CancelledError) and not job.code:
        return
    fields = {
        "id": job.id,
        "type": job.type,
        "attempt": job.attempts,
        "became": _BECAME.get(job.code, _UNKNOWN),
        "raised": "".join(traceback.format_exception_only(error)).strip()[:_LONGEST],
    }
    if is_meant:
        log.info("queue.job_raised", extra=fields)
    else:
        log.error("queue.job_raised", extra=fields, exc_info=error if has_trace else None)
