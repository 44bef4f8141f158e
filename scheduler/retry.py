"""When a job that ended with retry or error is tried again, and when it is given up. Pure: time and dice come in.

Exponential backoff with full jitter: a delay between nothing and base_s * factor ** (attempts - 1), bounded by max_s,
so that a thousand jobs which failed together do not come back together. Or the delay that the handler asked for. Either
way the window and the limit of attempts hold, and the last try of the backoff is at the window's end, not after it.
"""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from scheduler.errors import InvalidOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Per handler. The window counts from when the job first became due, in each round and after each replay."""

    base_s: float = 1.0
    factor: float = 2.0
    max_s: float = 600.0
    max_attempts: int = 20
    window_s: float = 86_400.0

    def __post_init__(self) -> None:
        for name in ("base_s", "max_s", "window_s"):
            seconds = getattr(self, name)
            if not (math.isfinite(seconds) and seconds > 0):
                raise InvalidOptions(f"retry: {name} must be a number of seconds above 0, not {seconds}")
        if not (math.isfinite(self.factor) and self.factor >= 1):
            raise InvalidOptions(f"retry: factor must be 1 or more, not {self.factor}")
        if self.max_attempts < 1:
            raise InvalidOptions(f"retry: max_attempts must be 1 or more, not {self.max_attempts}")


class AbandonReason(StrEnum):
    ATTEMPTS = "attempts"
    WINDOW = "window"


class RetryAt(NamedTuple):
    at_ms: int


class Abandon(NamedTuple):
    reason: AbandonReason
    message: str


def decide_retry(
    policy: RetryPolicy, *, attempts: int, begun_ms: int, now_ms: int, roll: float, asked_s: float | None = None
) -> RetryAt | Abandon:
    """What becomes of a job after its `attempts`-th try did not end it.

    begun_ms: when its retry window began. roll: a random number in [0, 1). asked_s: the delay that the handler asked
    for; it is the tenant's word, so a negative one or NaN counts as none. Never raises.
    """
    if attempts >= policy.max_attempts:
        return Abandon(AbandonReason.ATTEMPTS, f"tried {attempts} times, the limit is {policy.max_attempts}")
    end_ms = begun_ms + round(policy.window_s * 1000)
    if now_ms >= end_ms:
        return Abandon(AbandonReason.WINDOW, f"not done within the retry window of {policy.window_s:g} s")
    if asked_s is not None and asked_s >= 0:
        if asked_s * 1000 > end_ms - now_ms:
            message = f"asked to wait {asked_s:g} s, past the end of the retry window of {policy.window_s:g} s"
            return Abandon(AbandonReason.WINDOW, message)
        return RetryAt(now_ms + round(asked_s * 1000))
    return RetryAt(min(now_ms + round(roll * backoff_s(policy, attempts) * 1000), end_ms))


def backoff_s(policy: RetryPolicy, attempts: int) -> float:
    """The longest delay after that many attempts."""
    if policy.base_s >= policy.max_s:
        return policy.max_s
    # Compared as logarithms: the power itself may be too large for a float.
    if (attempts - 1) * math.log(policy.factor) >= math.log(policy.max_s / policy.base_s):
        return policy.max_s
    return float(policy.base_s * policy.factor ** max(attempts - 1, 0))
