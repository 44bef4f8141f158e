"""What becomes of a job that stopped: archived, tried again, armed for its next round, or given up. Pure."""

import hashlib
import re
from typing import Final, NamedTuple, Self

from functory.config import Settings
from runner.outcome import Stopped
from scheduler.retry import Abandon, RetryPolicy, next_attempt
from store.base import Archive, Code, Job, Outcome, Rearm, Release, Retry
from store.names import MAX_LOG_BYTES

_ABANDONED_EXITCODE: Final = 504
_MESSAGE_CHARS: Final = 200
_VARYING: Final = re.compile(r"0x[0-9a-fA-F]+|\d+|'[^']*'|\"[^\"]*\"")


class RetryRules(NamedTuple):
    policy: RetryPolicy

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(
            RetryPolicy(
                base_s=settings.retry_base_s,
                max_s=settings.retry_max_s,
                max_attempts=settings.max_attempts,
                window_s=settings.retry_window_s,
            )
        )


def release_of(job: Job, stopped: Stopped, version: int, rules: RetryRules, now_ms: int, luck: float) -> Release:
    """`luck` in [0, 1) is the jitter of a retry."""
    code = Code(stopped.code)
    duration_us = round(stopped.duration_ms * 1000)
    message = "" if code in (Code.OK, Code.RETRY) else last_line(stopped.result)
    outcome = Outcome(
        code,
        stopped.exitcode,
        now_ms - duration_us // 1000,
        duration_us,
        stopped.result,
        stopped.log[-MAX_LOG_BYTES:],
        version,
        stopped.level.name,
        fingerprint(stopped.exitcode, message) if message else "",
        message,
    )
    if code in (Code.OK, Code.FAILED):
        return Archive(job.id, job.token, outcome)
    verdict = next_attempt(rules.policy, job.attempts, job.create_ms, now_ms, luck, stopped.retry_after_ms)
    if isinstance(verdict, Abandon):
        return Archive(job.id, job.token, outcome._replace(code=Code.ABANDONED))
    return Retry(job.id, job.token, verdict.at_ms, outcome)


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
    """The end of an error text, where the cause stands."""
    lines = result[-2000:].decode("utf-8", "replace").strip().splitlines()
    return "".join(char if char.isprintable() else " " for char in lines[-1])[:_MESSAGE_CHARS] if lines else ""


def fingerprint(exitcode: int, message: str) -> str:
    """The same for errors that differ only in numbers, addresses and quoted values."""
    kind = _VARYING.sub("?", message)
    return hashlib.blake2s(f"{exitcode} {kind}".encode("utf-8", "replace"), digest_size=8).hexdigest()
