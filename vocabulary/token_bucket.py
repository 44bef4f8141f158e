"""The arithmetic of a token bucket, the same for rate domains and for requests. Pure: time comes in."""

import math
from typing import Final

from vocabulary.time_text import MAX_TIME_MS

MIN_RATE_PER_S: Final = 1e-6
"""A token in 11 days. Slower rates are refused."""
ROUNDING: Final = 4e-10
"""Of a token: the sum of parts that are a whole one may lack so much, and is taken for it."""


def refill(tokens: float, updated_ms: float, *, rate_per_s: float, most: float, now_ms: float) -> float:
    """Tokens at now_ms, and no more than most. A clock that is behind the bucket's last change adds nothing and takes
    nothing."""
    grown = tokens + max(now_ms - updated_ms, 0) * rate_per_s / 1000.0
    return min(grown, float(most))


def next_token_ms(tokens: float, *, rate_per_s: float, now_ms: int, updated_ms: int = 0) -> int:
    """When there is a whole token: now_ms, if there is one. None comes before the bucket's last change."""
    if tokens >= 1.0:
        return now_ms
    return when_grown_ms(1.0 - tokens, rate_per_s=rate_per_s, now_ms=max(now_ms, updated_ms))


def when_grown_ms(missing: float, *, rate_per_s: float, now_ms: int) -> int:
    """When that many tokens have come. Ensures: at most MAX_TIME_MS, however slow the rate is."""
    missing -= ROUNDING
    if missing * 1000.0 >= rate_per_s * (MAX_TIME_MS - now_ms):
        return MAX_TIME_MS
    return now_ms + math.ceil(missing * 1000.0 / rate_per_s)
