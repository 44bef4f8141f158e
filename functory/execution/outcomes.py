"""Decides what becomes of a job that stopped: archived, retried, rearmed for its next round, or abandoned. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import repeat
from typing import Final

from functory.errors import InvalidInput
from functory.execution.failure_message import fingerprint, message_of, one_line
from functory.statuses import status_of
from handlers.model import Handler
from runner.launch import Level
from runner.log_note import noted
from runner.outcome import EXTERNAL, Stopped
from scheduler.errors import SchedulerError
from scheduler.repeat import next_run_ms, parse_repeat
from scheduler.retry import Abandon, RetryPolicy, decide_retry
from store.base import Archive, Code, EndOfRun, Finish, Job, Outcome, Rearm, Release, Retry, Unclaim
from store.names import MAX_LOG_BYTES
from vocabulary.columns import fields, make_all
from vocabulary.job_limits import JobLimits, limits_of
from vocabulary.time_text import MAX_TIME_MS

_ABANDONED_EXITCODE: Final = 504
_INVALID: Final = 400
_TOO_BIG: Final = 413
_REFUSALS: Final = frozenset({_INVALID, 404, 409, _TOO_BIG, 429})
"""Statuses of errors that are the exit code of the job whose end, or whose new jobs, were refused. 413 for others."""
_TRACE_BYTES: Final = 16 * 1024
"""Kept of what a run returned that is tried again: the end of an error says what happened."""
_CODES: Final = {code.value: code for code in Code}
_LEVELS: Final = {level: level.name for level in Level} | {None: EXTERNAL}
"""Tables, because a look into an enumeration costs as much as all the rest, and every job passes here."""
_OVER: Final = frozenset({Code.OK, Code.FAILED})
_SILENT: Final = frozenset({Code.OK.value, Code.CANCELLED.value})
"""Codes of runs that have nothing to say of why they ended."""
_RETRY: Final = Code.RETRY.value
"""Says why, and is no failure: it has no fingerprint."""
_ID, _TOKEN, _REPEAT, _CODE = fields(Job, "id"), fields(Job, "token"), fields(Job, "repeat"), fields(Outcome, "code")
_NO_ROOM_FOR_LOG: Final = b"[left out: the tenant has used its max_bytes]\n"
_CARRIED: Final = fields(Stopped, "carried")
_NO_WINDOW_S: Final = MAX_TIME_MS / 1000


def releases_of(
    jobs: Sequence[Job],
    stopped: Sequence[Stopped],
    version: int,
    retry: RetryPolicy,
    now_ms: int,
    roll: Callable[[], float],
    *,
    in_window: bool = True,
) -> list[Release]:
    """The release of each job that stopped. The fast path is for batches in which all jobs are over, as nearly always.
    retry: of their type; a job may have rules of its own. `roll` returns a number in [0, 1) for the jitter of a retry.
    in_window: whether a retry must be within the retry window."""
    outcomes = outcomes_of(stopped, version, now_ms)
    carry_nothing = set(map(_CARRIED, stopped)) <= {None}
    if carry_nothing and _OVER.issuperset(map(_CODE, outcomes)) and not any(map(_REPEAT, jobs)):
        return list(make_all(Archive, map(_ID, jobs), map(_TOKEN, jobs), outcomes))
    return [
        release_of(
            job, outcome, own_policy(job, retry, in_window=in_window), now_ms, roll(), one.retry_after_ms, one.carried
        )
        for job, outcome, one in zip(jobs, outcomes, stopped, strict=True)
    ]


def releases_or_refusals(
    jobs: Sequence[Job],
    stopped: Sequence[Stopped],
    version: int,
    retry: RetryPolicy,
    now_ms: int,
    roll: Callable[[], float],
    *,
    in_window: bool = True,
) -> list[Release]:
    """As `releases_of`, for stops that a hostile context may have had a hand in: one that makes no sense is refused,
    and costs only its own job."""
    try:
        return releases_of(jobs, stopped, version, retry, now_ms, roll, in_window=in_window)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        if len(jobs) == 1:
            return [refusal(jobs[0], None, error, now_ms)]
    return [
        release
        for job, one in zip(jobs, stopped, strict=True)
        for release in releases_or_refusals([job], [one], version, retry, now_ms, roll, in_window=in_window)
    ]


def outcomes_of(stopped: Sequence[Stopped], version: int, now_ms: int) -> list[Outcome]:
    """The outcomes, made in columns, because every job passes here. Most leave no log, and have no error to report."""
    _, words, exitcodes, results, logs, durations_ms, _, levels, _, _, dropped = zip(*stopped, strict=True)
    durations_us = [int(duration_ms * 1000) for duration_ms in durations_ms]
    ends: Iterable[bytes] = repeat(b"")
    fingerprints: Iterable[str] = repeat("")
    messages: Iterable[str] = repeat("")
    if any(logs) or any(dropped):
        ends = [
            noted(before, log)[-MAX_LOG_BYTES:] if log or before else b""
            for before, log in zip(dropped, logs, strict=True)
        ]
    if not _SILENT.issuperset(words):
        messages = list(map(_message, words, exitcodes, results))
        fingerprints = [
            fingerprint(exitcode, message) if message and word != _RETRY else ""
            for word, exitcode, message in zip(words, exitcodes, messages, strict=True)
        ]
    return make_all(
        Outcome,
        map(_CODES.__getitem__, words),
        exitcodes,
        [now_ms - duration_us // 1000 for duration_us in durations_us],
        durations_us,
        results,
        ends,
        repeat(version),
        map(_LEVELS.__getitem__, levels),
        fingerprints,
        messages,
    )


def _message(word: str, exitcode: int, result: bytes) -> str:
    if word in _SILENT:
        return ""
    return message_of(result) or ("" if word == _RETRY else f"failed with {exitcode}")


def release_of(
    job: Job,
    outcome: Outcome,
    retry: RetryPolicy,
    now_ms: int,
    roll: float,
    asked_ms: int | None,
    carried: bytes | None,
) -> Release:
    """The rule for one job. asked_ms is how long the handler wants to wait before the next attempt, and carried is the
    payload that it wants to have then, or in the next round."""
    if outcome.code is Code.CANCELLED:  # its repetition too
        return Archive(job.id, job.token, outcome)
    if outcome.code in _OVER:
        return end_of_round(job, outcome, now_ms, carried)
    verdict = decide_retry(
        retry,
        attempts=job.attempts,
        begun_ms=job.window_ms,
        now_ms=now_ms,
        roll=roll,
        asked_s=None if asked_ms is None else asked_ms / 1000,
    )
    if isinstance(verdict, Abandon):
        return end_of_round(job, outcome._replace(code=Code.ABANDONED), now_ms, carried)
    trace = outcome.result and outcome.result[-_TRACE_BYTES:]
    return Retry(job.id, job.token, verdict.at_ms, outcome._replace(result=trace), carried)


def end_of_round(job: Job, outcome: Outcome, now_ms: int, carried: bytes | None = None) -> Release:
    """A job that repeats goes on, whatever became of this round. If it cannot, it failed, unless it ended badly anyway:
    nobody would notice the end of a repetition that is ok."""
    try:
        next_ms = _next_round_ms(job, outcome.started_ms, now_ms)
    except SchedulerError as error:
        return Archive(job.id, job.token, _stuck(outcome, error) if outcome.code is Code.OK else outcome)
    if next_ms is None and carried is not None and outcome.code is Code.OK:  # it counts if the job waits for children
        return Finish(job.id, job.token, outcome, carried)
    if next_ms is None:
        return Archive(job.id, job.token, outcome)
    return Rearm(job.id, job.token, next_ms, outcome, carried)


def retry_policy(handler: Handler, default: RetryPolicy) -> RetryPolicy:
    """The service's retry rules, with those of the handler in their place where it has some."""
    options = handler.options
    if not options:
        return default
    return replace(
        default,
        base_s=options.get("retry_base_ms", default.base_s * 1000) / 1000,
        max_s=options.get("retry_max_ms", default.max_s * 1000) / 1000,
        max_attempts=options.get("max_attempts", default.max_attempts),
        window_s=options.get("retry_window_s", default.window_s),
    )


def own_policy(job: Job, of_type: RetryPolicy, *, in_window: bool = True) -> RetryPolicy:
    """The rules of the job's type, with those that the job has itself in their place."""
    own = _in_place(of_type, limits_of(job.options)) if job.options else of_type
    return own if in_window else replace(own, window_s=_NO_WINDOW_S)


@lru_cache(maxsize=1024)
def _in_place(policy: RetryPolicy, own: JobLimits) -> RetryPolicy:
    return replace(
        policy,
        base_s=policy.base_s if own.retry_base_ms is None else own.retry_base_ms / 1000,
        max_s=policy.max_s if own.retry_max_ms is None else own.retry_max_ms / 1000,
        max_attempts=own.max_attempts or policy.max_attempts,
        window_s=own.retry_window_s or policy.window_s,
    )


def part_exhausted(jobs: Sequence[Job], retry: RetryPolicy) -> tuple[Sequence[Job], Sequence[Job]]:
    """Jobs that were just claimed: those that may run, and those whose attempts are used up. retry: of their type. Of
    a first attempt no more than its number is looked at: everyone has that one."""
    exhausted = [job for job in jobs if job.attempts > 1 and job.attempts > own_policy(job, retry).max_attempts]
    if not exhausted:
        return jobs, ()
    used_up = {job.id for job in exhausted}
    return [job for job in jobs if job.id not in used_up], exhausted


def next_round_ms(job: Job, started_ms: int, now_ms: int) -> int | None:
    """When a repeating job is due again; None when it does not repeat, or has no next round."""
    try:
        return _next_round_ms(job, started_ms, now_ms)
    except SchedulerError:
        return None


def _next_round_ms(job: Job, started_ms: int, now_ms: int) -> int | None:
    """Raises SchedulerError for a repetition that cannot go on."""
    if not job.repeat:
        return None
    pattern = parse_repeat(job.repeat)
    return next_run_ms(pattern, scheduled_ms=job.scheduled_ms, started_ms=started_ms, finished_ms=now_ms)


def _stuck(outcome: Outcome, error: SchedulerError) -> Outcome:
    """Of the last round of a job that cannot be repeated as it should."""
    text = f"the job does not repeat any more: {error}"
    return outcome._replace(
        code=Code.FAILED,
        exitcode=_INVALID,
        result=text.encode(),
        fingerprint=fingerprint(_INVALID, text),
        message=one_line(text),
    )


def give_up(job: Job, now_ms: int, timeout_ms: int | None = None) -> Release:
    """The release of a job whose attempts were used up by daemons and workers that vanished while it ran. timeout_ms:
    for how long a worker may hold it."""
    message = f"given up before attempt {job.attempts}: the runner was lost each time it ran"
    if timeout_ms is not None:
        message += f", or held it for longer than {timeout_ms / 1000:g} s, the timeout_s of its type"
    outcome = Outcome(
        Code.ABANDONED,
        _ABANDONED_EXITCODE,
        now_ms,
        result=message.encode(),
        fingerprint=fingerprint(_ABANDONED_EXITCODE, "lost"),
        message=message,
    )
    return end_of_round(job, outcome, now_ms)


def refusal(job: Job, release: Release | None, error: Exception, now_ms: int) -> Release:
    """The ending of a job whose own could not be written: failed, with the status of the error and its text. What it
    printed is kept, and when and where it ran. One that repeats goes on with its next round."""
    text = one_line(str(error))
    status = _INVALID if isinstance(error, InvalidInput) else status_of(error)
    exitcode = status if status in _REFUSALS else _TOO_BIG
    ran = Outcome(Code.FAILED, exitcode, now_ms) if release is None or isinstance(release, Unclaim) else release.outcome
    isolation = "" if ran.isolation == EXTERNAL else ran.isolation  # a worker is told that it is a refusal by this
    outcome = ran._replace(
        code=Code.FAILED,
        exitcode=exitcode,
        result=text.encode("utf-8", "replace"),
        isolation=isolation,
        fingerprint=fingerprint(exitcode, text),
        message=text.encode("utf-8", "replace").decode(),
    )
    next_ms = release.dt_ms if isinstance(release, Rearm) else next_round_ms(job, now_ms, now_ms)
    is_cancelled = isinstance(release, Archive) and release.outcome.code is Code.CANCELLED
    if next_ms is None or is_cancelled or not 0 <= next_ms <= MAX_TIME_MS:
        return Archive(job.id, job.token, outcome)
    return Rearm(job.id, job.token, next_ms, outcome)


def without_run(release: Release, now_ms: int) -> Release:
    """A refusal with nothing of the run that it ends."""
    assert not isinstance(release, Unclaim)
    said = release.outcome
    bare = Outcome(
        said.code, said.exitcode, now_ms, result=said.result, fingerprint=said.fingerprint, message=said.message
    )
    return release._replace(outcome=bare)


def shortened(release: Retry, size_bytes: int) -> Retry:
    """With so much of the end of what the run returned."""
    result = release.outcome.result and release.outcome.result[-size_bytes:]
    return release._replace(outcome=release.outcome._replace(result=result))


def without_log(release: EndOfRun) -> EndOfRun:
    """With a word in its place: what a job printed is no reason to fail it."""
    return release._replace(outcome=release.outcome._replace(log=_NO_ROOM_FOR_LOG))
