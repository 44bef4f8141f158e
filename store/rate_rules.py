"""Which limit holds for a rate domain, and what its bucket holds at a time. Pure.

A limit is set on a name. A name with `*`, `?` or `[` is a pattern (vocabulary/glob.py): every domain that it matches
has a bucket of its own. The limit on a domain's own name wins; else the pattern with the longest text before its first
special character; of those one without `*`, then the longer one, then the first in the alphabet. So `*` is the default
of a tenant.

A bucket of a pattern is kept only while it is not full: one that is not there is full.

A token is always taken late: a timer, other work and the claim before it see to that. So a full bucket keeps what comes
next, up to KEPT_MS of its rate and less than a token, and a burst of one gives its rate all the same.

Ensures: in any time t no more than rate * t + burst + kept_part(rate) tokens are given, which is less than one more
than rate and burst alone. Tokens are whole, so in a time in which a whole number of them comes, such as a second of a
rate without a fraction, it is no more than rate and burst.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from store.errors import Conflict, InvalidValue
from vocabulary.glob import glob_matcher, is_closed
from vocabulary.token_bucket import refill, when_grown_ms

MAX_PATTERNS: Final = 50
"""Of a tenant: a claim compares a domain with all of them."""
MAX_LIMITS: Final = 10_000
"""Of a tenant, patterns and names together: they are listed in one answer."""
MOST_WAIT_MS: Final = 60_000
"""A queue without a token is looked at again after this long, even if the next token comes later: whoever changed the
limit may have died before it told all queues."""
KEPT_MS: Final = 10
MOST_KEPT: Final = 0.9
"""Of a token. Less than a whole one, so that no more than the burst can be taken at once."""
_DIGITS: Final = 9
"""Of parts of a token, so that those which are a whole one together make one (vocabulary/token_bucket.py)."""
_SPECIAL: Final = "*?["


class Limit(NamedTuple):
    """What was set on a name, and when."""

    name: str
    rate_per_s: float
    burst: int
    set_ms: int = 0


class Bucket(NamedTuple):
    """What is kept of a domain that a pattern limits: its tokens at a time, and the limit of that time."""

    tokens: float
    updated_ms: int
    rate_per_s: float
    burst: int


class Patterns:
    """The patterns of one tenant."""

    def __init__(self, limits: Iterable[Limit]) -> None:
        found = sorted(limits, key=_place)
        self._limits = [(limit, literal_prefix(limit.name), glob_matcher(limit.name)) for limit in found]

    def find(self, domain: str) -> Limit | None:
        """The limit of a domain that has none on its own name."""
        for limit, prefix, matches in self._limits:
            if domain.startswith(prefix) and (matches(domain) or domain == limit.name):
                return limit
        return None


def is_pattern(name: str) -> bool:
    return any(char in name for char in _SPECIAL)


def literal_prefix(name: str) -> str:
    """What stands before the first special character."""
    places = [place for char in _SPECIAL if (place := name.find(char)) >= 0]
    return name[: min(places)] if places else name


def check_pattern(name: str) -> None:
    """One star, so that no pattern costs more than its length to compare."""
    if name.count("*") > 1:
        raise InvalidValue(f"rate domain {name!r:.80} is a pattern, and a pattern may have one * only")
    if not is_closed(name):
        raise InvalidValue(f"rate domain {name!r:.80} is a pattern, and its [ has no ]: it would match nothing")


def check_limits(limits: int) -> None:
    """For one more limit of a tenant that has so many."""
    if limits >= MAX_LIMITS:
        raise Conflict(
            f"a tenant may have {MAX_LIMITS} rate domains with a limit, and this one has them: delete one first, or"
            " set a limit on a pattern"
        )


def check_room(patterns: int) -> None:
    """For one more pattern of a tenant that has so many."""
    if patterns >= MAX_PATTERNS:
        raise Conflict(
            f"a tenant may have {MAX_PATTERNS} patterns of rate domains, and this one has them: delete one first"
        )


def kept_part(rate_per_s: float) -> float:
    """How much of the next token a full bucket keeps."""
    return min(rate_per_s * KEPT_MS / 1000.0, MOST_KEPT)


def grown(tokens: float, updated_ms: int, *, rate_per_s: float, burst: int, now_ms: int) -> float:
    """What a bucket holds that held those tokens at that time."""
    most = burst + kept_part(rate_per_s)
    return round(refill(tokens, updated_ms, rate_per_s=rate_per_s, most=most, now_ms=now_ms), _DIGITS)


def tokens_at(bucket: Bucket | None, limit: Limit, now_ms: int) -> float:
    """By the rate of the time: the old one until the limit was set, the new one from then on."""
    if bucket is None:
        return float(limit.burst)
    tokens, updated_ms, rate_per_s, burst = bucket
    if (rate_per_s, burst) != (limit.rate_per_s, limit.burst):
        set_ms = min(max(limit.set_ms, updated_ms), max(now_ms, updated_ms))
        tokens = min(grown(tokens, updated_ms, rate_per_s=rate_per_s, burst=burst, now_ms=set_ms), float(burst))
        updated_ms = set_ms
    return grown(tokens, updated_ms, rate_per_s=limit.rate_per_s, burst=limit.burst, now_ms=now_ms)


def full_ms(tokens: float, limit: Limit, now_ms: int) -> int:
    """When a bucket that has so many tokens is full."""
    return when_grown_ms(limit.burst - tokens, rate_per_s=limit.rate_per_s, now_ms=now_ms)


def _place(limit: Limit) -> tuple[int, bool, int, str]:
    return -len(literal_prefix(limit.name)), "*" in limit.name, -len(limit.name), limit.name
