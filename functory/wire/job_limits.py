"""What a job says of its own retries and its expiry, on the wire: when it is added, and when it is shown."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from functory.wire.base import Answer, Request
from vocabulary.job_limits import RANGES


def _number(name: str, told: str) -> Meta:
    low, high = RANGES[name]
    return Meta(ge=low, le=high, description=told)


MaxAttempts = Annotated[int, _number("max_attempts", "so many attempts, instead of those of its type")]
RetryBaseMs = Annotated[int, _number("retry_base_ms", "the longest delay after its first attempt")]
RetryMaxMs = Annotated[int, _number("retry_max_ms", "the longest delay after any of its attempts")]
RetryWindowS = Annotated[int, _number("retry_window_s", "it is tried again for so long after it was due")]
MaxWaitS = Annotated[int, _number("max_wait_s", "not started when it has waited for longer")]


class LimitSettings(Request, kw_only=True):
    """Of a new job. What is not said, or null, is as its type has it.

    Ensures: a request that says none of them has the JSON that it had before there were any. Keys of idempotency are
    bound to that, and versions that share a store compare it.
    """

    max_attempts: MaxAttempts | UnsetType | None = UNSET
    retry_base_ms: RetryBaseMs | UnsetType | None = UNSET
    retry_max_ms: RetryMaxMs | UnsetType | None = UNSET
    retry_window_s: RetryWindowS | UnsetType | None = UNSET
    max_wait_s: MaxWaitS | UnsetType | None = UNSET


class ShownLimits(Answer, kw_only=True):
    """Of a job: those that it has of its own. The others are left out."""

    max_attempts: MaxAttempts | UnsetType = UNSET
    retry_base_ms: RetryBaseMs | UnsetType = UNSET
    retry_max_ms: RetryMaxMs | UnsetType = UNSET
    retry_window_s: RetryWindowS | UnsetType = UNSET
    max_wait_s: MaxWaitS | UnsetType = UNSET


def attempts_text(attempts: int, most: int | UnsetType | None) -> str:
    """`2 of 3`. A job that was lost each time it ran has been claimed once more than it may run."""
    return f"{attempts} of {most}" if most and attempts <= most else str(attempts)


def limits_text(said: Mapping[str, int]) -> str:
    """In one line, by the names with which they are given."""
    return ", ".join(f"{name} {value}" for name, value in said.items())
