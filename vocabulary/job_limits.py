"""What a job says of its own retries and its expiry: how often and when it is tried again, and how long it may wait.

`RANGES` is the one statement of these numbers; the options of a handler with the same names take theirs from it.

The limits of a job are kept in its options, first of all: `{"limits":{"max_attempts":3}}`, with what its tenant says
after them. Options are a tenant's to write, too. So only what `with_limits` might have written is read: known names,
none twice, whole numbers within their ranges. Anything else is the tenant's own text, and limits nothing.

Ensures: text that is no such thing costs one look at its beginning, however long it is.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, NamedTuple

RANGES: Final[Mapping[str, tuple[int, int]]] = MappingProxyType(
    {
        "max_attempts": (1, 1000),
        "retry_base_ms": (1, 86_400_000),
        "retry_max_ms": (1, 86_400_000),
        "retry_window_s": (1, 31_536_000),
        "max_wait_s": (1, 31_536_000),
    }
)
"""Smallest and biggest value of each."""
KEPT_AS: Final = "limits"
"""Their key in the options of a job."""


class JobLimits(NamedTuple):
    """None: what the type of the job says holds, or else what the service does."""

    max_attempts: int | None = None
    retry_base_ms: int | None = None
    retry_max_ms: int | None = None
    retry_window_s: int | None = None
    max_wait_s: int | None = None

    def said(self) -> dict[str, int]:
        """Those that are given, by their names."""
        return {name: value for name, value in self._asdict().items() if value is not None}


NO_LIMITS: Final = JobLimits()
_LIMIT: Final = rf'"(?:{"|".join(RANGES)})":[1-9][0-9]{{0,7}}'
_OPTIONS: Final = re.compile(rf'\{{"{KEPT_AS}":\{{({_LIMIT}(?:,{_LIMIT}){{0,{len(RANGES) - 1}}})\}}(?:,"|\}}\Z)')


def trouble_with(name: str, value: object) -> str:
    """What is wrong with a limit, to be read after its name; empty if nothing is."""
    low, high = RANGES[name]
    if type(value) is int and low <= value <= high:  # True is no number
        return ""
    return f"must be a whole number between {low} and {high}, not {_shown(value):.40}"


def _shown(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > 100:  # a very long one has no decimal text
        return "a longer one"
    return repr(value) if isinstance(value, str | int | float) else f"a value of type {type(value).__name__}"


def with_limits(options: str, limits: JobLimits) -> str:
    """The options of a job, JSON of an object without `limits` or empty, with its limits."""
    if limits == NO_LIMITS:
        return options
    text = ",".join(f'"{name}":{value}' for name, value in limits.said().items())
    rest = "}" if options in {"", "{}"} else f",{options[1:]}"
    return f'{{"{KEPT_AS}":{{{text}}}{rest}'


def limits_of(options: str) -> JobLimits:
    """`NO_LIMITS` if the job has none. For jobs without options, a truth test before the call is cheaper."""
    found = _OPTIONS.match(options)
    return NO_LIMITS if found is None else _read(found[1])


@lru_cache(maxsize=4096)
def _read(text: str) -> JobLimits:
    pairs = [pair.partition(":") for pair in text.split(",")]
    return _limits((name[1:-1], int(value)) for name, _, value in pairs)


def _limits(pairs: Iterable[tuple[str, int]]) -> JobLimits:
    said: dict[str, int] = {}
    for name, value in pairs:
        if name in said or trouble_with(name, value):
            return NO_LIMITS
        said[name] = value
    return JobLimits(**said)
