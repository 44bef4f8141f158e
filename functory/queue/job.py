"""One job in hand.

    async with job:                       # done when the block ends; an exception is the job's outcome
        job.result = work(job.json())

Ends once: with `done`, `fail`, `retry`, `error` or `give_back`. A second end is refused by an error of ours, and one
that comes too late by LeaseLost. `lost` is set when the lease is gone: whatever is done from then on is in vain. An end
that the other side does not take is none: the job is still in hand, and its lease is renewed.
"""

import asyncio
import json
import logging
import math
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlencode

from functory.errors import ClientError, FunctoryError, InvalidInput, LeaseLost
from functory.queue.link import Given
from functory.queue.raised import begin_in_task, tell_raised
from functory.queue.reporter import Reporter, is_passing
from functory.wire.add_options import check_delay, check_limit
from functory.wire.payloads import encode, to_json
from functory.wire.workers import MOST_LOG_CHARS
from functory.workers.values import INVALID, Answer, Delivery, Report, Verdict
from vocabulary.job_limits import RANGES
from vocabulary.new_job import NewJob

log = logging.getLogger("functory.queue")

_OK: Final = 200
_FAILED: Final = 400
_RETRY: Final = 100
_TOO_LARGE: Final = 413
_ERROR: Final = 500
_MOST_WORDS_BYTES: Final = 8 << 20
"""A request has 16 MiB, and they travel in base64."""
_SAY_S: Final = 5.0
"""For what a job says while it runs: it goes on without an answer."""
_LEAVE_S: Final = 5.0
"""For a block that is left by a cancellation: then the lease will lapse."""


class Fail(Exception):
    """Raised in a job: it has failed, and trying again would not help."""


class Retry(Exception):
    """Raised in a job: try it again, after a while, with another payload if one is given."""

    def __init__(self, reason: str = "", *, delay_s: float | None = None, payload: object = None) -> None:
        super().__init__(reason)
        self.delay_s = delay_s
        self.payload = payload


class Job:
    def __init__(self, given: Given, reporter: Reporter, give_back: Callable[["Job"], Awaitable[None]]) -> None:
        self.given = given
        self._reporter = reporter
        self._give_back = give_back
        self._new_jobs: list[NewJob] = []
        self.lost = asyncio.Event()
        """Set when the lease is lost: somebody else may work on the job by now."""
        now_s = asyncio.get_running_loop().time()
        self.last_until_s = math.inf if given.timeout_s is None else now_s + given.timeout_s
        """When its lease lapses however often it is renewed: its type allows no more."""
        self.until_s = now_s + given.lease_s
        """When the lease lapses unless it is renewed, by the clock of this program's loop."""
        self.result: object = None
        """What `async with` reports when its block ends well."""
        self.is_over = False
        self.is_ending = False
        """How it ended is on its way."""
        self.code = ""
        """What was recorded of its end: ok, failed, retry, error, abandoned. Empty while nothing is known of it."""

    # What it is

    @property
    def id(self) -> str:
        return self.given.id

    @property
    def type(self) -> str:
        return self.given.type

    @property
    def payload(self) -> bytes:
        return self.given.payload

    @property
    def attempts(self) -> int:
        """This attempt's number, from 1."""
        return self.given.attempts

    @property
    def children(self) -> Sequence[Mapping[str, Any]]:
        """What became of the jobs that this one made with `child=True`: when they have ended, it is delivered again and
        has them here. Each has id, type, state, code, exitcode, result and result_bytes, as in `ctx.children`."""
        return self.given.children

    @property
    def follows(self) -> Mapping[str, str] | None:
        """The job whose result was passed on to this one, by `then` or `on_failure`: its id, type and code, as in
        `ctx.follows`. None if there is none."""
        return self.given.follows

    @property
    def delivery(self) -> Delivery:
        return Delivery(self.given.id, self.given.token)

    @property
    def text(self) -> str:
        return self.given.payload.decode()

    def json(self) -> Any:
        return json.loads(self.given.payload)

    # How it ends

    async def done(self, result: object = None) -> None:
        """It is over, with a result: text, bytes, or anything that JSON can say. Raises LeaseLost; InvalidInput if the
        result or a new job is refused, which ends the job as failed unless it is still in hand (`is_over`)."""
        await self._end(_OK, encode(result, "the result"))

    async def fail(self, error: object = "") -> None:
        """It has failed for good. Raises LeaseLost."""
        await self._end(_FAILED, error if isinstance(error, bytes) else _words(error))

    async def retry(self, reason: object = "", *, delay_s: float | None = None, payload: object = None) -> None:
        """Try it again, after delay_s or as the backoff says, with another payload if one is given. Raises
        LeaseLost."""
        check_delay(delay_s)
        carried = None if payload is None else encode(payload)
        await self._end(_RETRY, _words(reason), delay_s=delay_s, carried=carried)

    async def error(self, text: str) -> None:
        """Something unexpected happened: it is tried again as the backoff says. Raises LeaseLost."""
        await self._end(_ERROR, _words(text))

    async def give_back(self) -> None:
        """It was not begun: it waits again at its place, and the attempt is not counted."""
        self._begin_end()
        self.is_over = True
        await self._give_back(self)

    # What it says while it runs

    async def progress(self, value: object) -> None:
        """How far it has come: a number is a percentage. If nobody can be told, the log says so. Raises LeaseLost."""
        await self._say(Report(self.delivery, progress=to_json(value, "the progress")))

    async def log(self, text: str) -> None:
        """Lines for its log, of which the last are kept. If nobody can be told now, the log of this program says so.
        Raises LeaseLost."""
        await self._say(Report(self.delivery, log=_words(str(text)[-MOST_LOG_CHARS:])))

    def add(self, job_type: str, payload: object, **options: object) -> None:
        """A new job, made when this one ends well or is to be tried again; options as for jobs that handlers make:
        `child=True`, `delay_s=60`, `priority=1000`, ... What is None is left out. Raises InvalidInput."""
        said = {name: _option(value) for name, value in options.items() if value is not None}
        for name in RANGES.keys() & options.keys():
            check_limit(name, options[name])
        for name in [name for name, value in said.items() if value == ""]:
            raise InvalidInput(f"{name} is empty: leave it out if the job has none", detail={"field": name})
        self._new_jobs.append(NewJob(job_type, encode(payload), urlencode(said)))

    # As a block

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _: object, error: BaseException | None, __: TracebackType | None) -> bool:
        """An exception becomes the outcome, and goes no further than the log. What cannot be sent or is not taken is an
        error, too: otherwise nobody would end the job. A cancelled block gives the job back. Raises the error of a
        server that took no end however often it was asked: nothing is recorded then, and somebody should know."""
        raised = error
        try:
            if error is not None and not isinstance(error, Exception):
                await self._leave(error)
                return False
            if error is not None:
                begin_in_task(error)
            try:
                await self._end_by(error)
            except LeaseLost:
                raise
            except Exception as unsaid:
                if not self.is_over:
                    raised = error or unsaid
                    await self._end_bare(unsaid)
                elif is_passing(unsaid):
                    raise
                else:  # it has failed
                    log.warning("queue.refused", extra={"id": self.id, "reason": str(unsaid)})
        except LeaseLost:
            log.warning("queue.lease_lost", extra={"id": self.id})
        finally:
            has_trace = raised is error or not isinstance(raised, FunctoryError)
            tell_raised(self, raised, is_meant=isinstance(raised, Fail | Retry), has_trace=has_trace)
        return True

    async def _leave(self, error: BaseException) -> None:
        """Whatever becomes of the job, the block is left by the error, and soon."""
        try:
            async with asyncio.timeout(_LEAVE_S):
                await self._end_by(error)
        except Exception as unsaid:  # noqa: BLE001 (the lease will lapse)
            log.warning("queue.not_given_back", extra={"id": self.id, "reason": str(unsaid) or "no answer in time"})

    async def _end_by(self, error: BaseException | None) -> None:
        if self.is_over or self.is_ending:
            return
        match error:
            case None:
                await self.done(self.result)
            case Retry():
                await self.retry(error, delay_s=error.delay_s, payload=error.payload)
            case Fail():
                await self.fail(error)
            case LeaseLost():
                self.is_over = True
            case asyncio.CancelledError() if _is_being_cancelled():  # otherwise the work itself raised it
                await asyncio.shield(self.give_back())
            case KeyboardInterrupt() | SystemExit() | GeneratorExit():  # the program ends
                await asyncio.shield(self.give_back())
            case _:
                await self.error("".join(traceback.format_exception(error)))

    async def _end(
        self, exitcode: int, result: bytes, *, delay_s: float | None = None, carried: bytes | None = None
    ) -> None:
        self._begin_end()
        delay_ms = None if delay_s is None else round(delay_s * 1000)
        new_jobs = tuple(self._new_jobs) if exitcode in (_OK, _RETRY) else ()
        report = Report(self.delivery, exitcode, result, new_jobs=new_jobs, retry_after_ms=delay_ms, carried=carried)
        is_taken = True  # as far as anybody knows
        try:
            verdict = await self._reporter.report(report)
            is_taken = verdict.status != INVALID
            self.code = verdict.code
        except Exception as error:
            is_taken = is_passing(error)
            self._check_refused(error)
            raise
        finally:
            self.is_ending = False
            self.is_over = is_taken
        self._check(verdict)

    async def _end_bare(self, unsaid: Exception) -> None:
        """With what was wrong, and nothing of what it was about. If not even that is taken, the lease will lapse."""
        exitcode, text = _ERROR, "".join(traceback.format_exception(unsaid))
        if isinstance(unsaid, FunctoryError):
            is_too_large = unsaid.detail.get("status") == _TOO_LARGE  # and so would the next result be
            exitcode, text = _TOO_LARGE if is_too_large else _ERROR, str(unsaid)
        try:
            await self._end(exitcode, _words(text))
        finally:
            self.is_over = True

    async def _say(self, report: Report) -> None:
        if self.lost.is_set():
            raise LeaseLost(f"job {self.id} is lost")
        if self.is_over or self.is_ending:
            raise InvalidInput(f"job {self.id} is over")
        try:
            async with asyncio.timeout(_SAY_S):
                verdict = await self._reporter.report(report)
        except InvalidInput:
            raise
        except Exception as error:  # noqa: BLE001 (the work counts, and not what it says of itself)
            self._check_refused(error)
            log.warning("queue.not_told", extra={"id": self.id, "reason": str(error) or "no answer in time"})
        else:
            self._check(verdict)

    def _begin_end(self) -> None:
        if self.is_over or self.is_ending:
            raise InvalidInput(f"job {self.id} is over: it ends once")
        self.is_ending = True

    def _check_refused(self, error: Exception) -> None:
        if isinstance(error, ClientError) and error.status in (_TOO_LARGE, INVALID):
            raise InvalidInput(f"job {self.id}: {error}", detail={"status": error.status}) from error

    def _check(self, verdict: Verdict) -> None:
        if verdict.answer in (Answer.LATE, Answer.UNKNOWN):
            self.lost.set()
            raise LeaseLost(f"job {self.id}: {verdict.message}")
        if verdict.status == INVALID:
            raise InvalidInput(f"job {self.id}: {verdict.message}")
        if verdict.answer is Answer.REFUSED:
            became = " has failed" if verdict.code else ""  # otherwise nothing could be recorded
            raise InvalidInput(f"job {self.id}{became}: {verdict.message}", detail={"status": verdict.status})


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _option(value: object) -> object:
    return int(value) if isinstance(value, bool) else value


def _words(text: object) -> bytes:
    """For people: what cannot be encoded is replaced. Of what is too long to be sent, such as a page in the message of
    an exception, the end is."""
    words = str(text).encode("utf-8", "replace")
    return words if len(words) <= _MOST_WORDS_BYTES else words[-_MOST_WORDS_BYTES:].decode("utf-8", "ignore").encode()
