"""What becomes of a job that stopped: archived, tried again, armed for its next round, or given up. Pure."""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Final

from handlers.model import Handler
from runner.launch import Level
from runner.outcome import Stopped
from scheduler.errors import SchedulerError
from scheduler.repeat import next_run_ms, parse_repeat
from scheduler.retry import Abandon, RetryPolicy, decide_retry
from store.base import Archive, Code, Job, Outcome, Rearm, Release, Retry
from store.names import MAX_LOG_BYTES
from store.values.columns import fields, make_all

_ABANDONED_EXITCODE: Final = 504
_MESSAGE_CHARS: Final = 200
_CODES: Final = {code.value: code for code in Code}
_LEVELS: Final = {level: level.name for level in Level}
"""Both as tables: a look into an enumeration costs as much as all else here, and this is passed by every job."""
_OVER: Final = frozenset({Code.OK, Code.FAILED})
_SILENT: Final = frozenset({Code.OK.value, Code.RETRY.value})
"""Of jobs that had nothing to complain of."""
_ID, _TOKEN, _REPEAT, _CODE = fields(Job, "id"), fields(Job, "token"), fields(Job, "repeat"), fields(Outcome, "code")
_FRAME: Final = re.compile(r"\s*(?:at |#\d+ )")
_VARYING: Final = re.compile(r"0x[0-9a-fA-F]+|\d+|'[^']*'|\"[^\"]*\"")


def releases_of(
    jobs: Sequence[Job],
    stopped: Sequence[Stopped],
    version: int,
    retry: RetryPolicy,
    now_ms: int,
    roll: Callable[[], float],
) -> list[Release]:
    """What becomes of jobs that stopped, each in its own way; nearly always all of them are over. `roll` gives a number
    in [0, 1), the jitter of a retry."""
    outcomes = outcomes_of(stopped, version, now_ms)
    if _OVER.issuperset(map(_CODE, outcomes)) and not any(map(_REPEAT, jobs)):
        return list(make_all(Archive, map(_ID, jobs), map(_TOKEN, jobs), outcomes))
    return [
        release_of(job, outcome, retry, now_ms, roll(), one.retry_after_ms)
        for job, outcome, one in zip(jobs, outcomes, stopped, strict=True)
    ]


def outcomes_of(stopped: Sequence[Stopped], version: int, now_ms: int) -> list[Outcome]:
    """In columns, as all that is done for every job."""
    _, words, exitcodes, results, logs, durations_ms, _, levels, _ = zip(*stopped, strict=True)
    durations_us = [int(duration_ms * 1000) for duration_ms in durations_ms]
    messages = ["" if word in _SILENT else last_line(result) for word, result in zip(words, results, strict=True)]
    return make_all(
        Outcome,
        [_CODES[word] for word in words],
        exitcodes,
        [now_ms - duration_us // 1000 for duration_us in durations_us],
        durations_us,
        results,
        [log and log[-MAX_LOG_BYTES:] for log in logs],
        repeat(version),
        [_LEVELS[level] for level in levels],
        [message and fingerprint(exitcode, message) for exitcode, message in zip(exitcodes, messages, strict=True)],
        messages,
    )


def release_of(
    job: Job, outcome: Outcome, retry: RetryPolicy, now_ms: int, roll: float, asked_ms: int | None
) -> Release:
    """The rule for one job. asked_ms: how long the handler wants to wait before the next attempt."""
    if outcome.code in _OVER:
        next_ms = next_round_ms(job, outcome.started_ms, now_ms)
        return Archive(job.id, job.token, outcome) if next_ms is None else Rearm(job.id, job.token, next_ms, outcome)
    verdict = decide_retry(
        retry,
        attempts=job.attempts,
        begun_ms=job.create_ms,
        now_ms=now_ms,
        roll=roll,
        asked_s=None if asked_ms is None else asked_ms / 1000,
    )
    if isinstance(verdict, Abandon):
        return Archive(job.id, job.token, outcome._replace(code=Code.ABANDONED))
    return Retry(job.id, job.token, verdict.at_ms, outcome._replace(result=None))


def retry_policy(handler: Handler, default: RetryPolicy) -> RetryPolicy:
    """The service's rules, with what the handler says of its own instead."""
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


def next_round_ms(job: Job, started_ms: int, now_ms: int) -> int | None:
    """When a repeating job is due again; None when it does not repeat, or has no next round."""
    if not job.repeat:
        return None
    try:
        repeat = parse_repeat(job.repeat)
        return next_run_ms(repeat, scheduled_ms=job.due_ms, started_ms=started_ms, finished_ms=now_ms)
    except SchedulerError:
        return None


def give_up(job: Job, now_ms: int) -> Release:
    """A job whose attempts were used up by daemons that vanished while it ran."""
    message = f"given up before attempt {job.attempts}: the runner was lost each time it ran"
    outcome = Outcome(
        Code.ABANDONED,
        _ABANDONED_EXITCODE,
        now_ms,
        result=message.encode(),
        fingerprint=fingerprint(_ABANDONED_EXITCODE, "lost"),
        message=message,
    )
    return Archive(job.id, job.token, outcome)


def last_line(result: bytes) -> str:
    """The end of an error text, where the cause stands; the frames that follow it in some languages are passed over."""
    lines = result[-8000:].decode("utf-8", "replace").strip().splitlines()
    while len(lines) > 1 and _FRAME.match(lines[-1]):
        lines.pop()
    return "".join(char if char.isprintable() else " " for char in lines[-1])[:_MESSAGE_CHARS] if lines else ""


def fingerprint(exitcode: int, message: str) -> str:
    """The same for errors that differ only in numbers, addresses and quoted values."""
    kind = _VARYING.sub("?", message)
    return hashlib.blake2s(f"{exitcode} {kind}".encode("utf-8", "replace"), digest_size=8).hexdigest()
