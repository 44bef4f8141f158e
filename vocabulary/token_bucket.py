"""The arithmetic of a token bucket, the same for rate domains and for requests. Pure: time comes in."""

import math


def refill(tokens: float, updated_ms: float, *, rate_per_s: float, burst: int, now_ms: float) -> float:
    """Tokens at now_ms. A clock that is behind the bucket's last change adds nothing and takes nothing."""
    grown = tokens + max(now_ms - updated_ms, 0) * rate_per_s / 1000.0
    return min(grown, float(burst))


def next_token_ms(tokens: float, *, rate_per_s: float, now_ms: int) -> int:
    """When there is a whole token: now_ms, if there is one."""
    if tokens >= 1.0:
        return now_ms
    return now_ms + math.ceil((1.0 - tokens) * 1000.0 / rate_per_s)
