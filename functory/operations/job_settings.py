"""From what a caller says of a job to the words of the queue: when it is due, how it repeats, what its lease is."""

import json
from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Final

import msgspec

from functory.errors import InvalidInput
from functory.intake.job_options import DEFAULT_PRIORITY, PLAIN, JobOptions
from functory.wire.add_options import check_limit
from functory.wire.jobs import JobSettings
from functory.wire.nesting import MOST_LEVELS, is_too_deep
from scheduler.cron import Cron, is_cron
from scheduler.errors import SchedulerError
from scheduler.repeat import Repeat, apply_modifiers, check_repeat, first_run_ms, parse_modifiers, parse_repeat
from vocabulary.job_limits import KEPT_AS, NO_LIMITS, JobLimits, with_limits
from vocabulary.time_text import MAX_TIME_MS, parse_time

_LONGEST_RETRY_AFTER_MS: Final = 31_557_600_000
_LIMITS: Final = attrgetter(*JobLimits._fields)
_NONE_SAID: Final = _LIMITS(JobSettings())


def unsaid(settings: JobSettings) -> frozenset[str]:
    """What a live job with the same unique name keeps, because the caller did not say it. A cron pattern says when."""
    kept = {name for name in ("priority", "repeat") if getattr(settings, name) is msgspec.UNSET}
    if settings.delay_s is None and settings.dt is None and not is_cron(settings.repeat or ""):
        kept.add("due")
    return frozenset(kept)


def to_options(settings: JobSettings, now_ms: int, options: Mapping[str, Any] | None = None) -> JobOptions:
    """What the caller said, in the words of the queue; `PLAIN` itself if that is nothing."""
    repeat, first_ms = settings.repeat or "", due_ms(settings.delay_s, settings.dt, now_ms)
    if repeat:
        first_ms = _first_round_ms(repeat, first_ms, now_ms)
    found = JobOptions(
        first_ms,
        DEFAULT_PRIORITY if settings.priority is msgspec.UNSET else settings.priority,
        settings.domain or "",
        with_limits(_options_text(options) if options else "", _limits(settings, options)),
        _retry_after_ms(settings, repeat, now_ms),
        settings.indexed,
        repeat,
        settings.key or "",
    )
    return PLAIN if found == PLAIN else found


def _limits(settings: JobSettings, options: Mapping[str, Any] | None) -> JobLimits:
    """They are kept in the options. Raises InvalidInput if these have some, too: one of the two would be lost."""
    if (said := _LIMITS(settings)) == _NONE_SAID:
        return NO_LIMITS
    limits = JobLimits(*[None if value is msgspec.UNSET else value for value in said])
    for name, value in limits.said().items():
        check_limit(name, value)
        if options and KEPT_AS in options:
            raise InvalidInput(f"use either {name} or options.{KEPT_AS}, not both", detail={"field": name})
    return limits


def _options_text(options: Mapping[str, Any]) -> str:
    """Raises InvalidInput for options that are nested too deeply."""
    if is_too_deep(options):
        raise InvalidInput(f"options: are nested more than {MOST_LEVELS} deep", detail={"field": "options"})
    return json.dumps(options, separators=(",", ":"))


def checked_repeat(text: str, now_ms: int) -> Repeat | Cron:
    """Refuses a pattern that cannot be read, or that never leads forward, before a job is taken with it. Raises
    InvalidInput."""
    try:
        repeat = parse_repeat(text)
        check_repeat(repeat, now_ms)
        first_run_ms(repeat, now_ms)
    except SchedulerError as error:
        raise InvalidInput(f"repeat: {error}", detail={"field": "repeat"}) from None
    return repeat


def _first_round_ms(text: str, said_ms: int | None, now_ms: int) -> int | None:
    """When the first round is due; None: at once. Raises InvalidInput."""
    repeat = checked_repeat(text, now_ms)
    first_ms = first_run_ms(repeat, now_ms) if said_ms is None else said_ms
    return None if first_ms == now_ms else first_ms


def due_ms(delay_s: float | None, at: str | float | None, now_ms: int, field: str = "dt") -> int | None:
    """When a job is to run, of two ways to say it; `field` is the name of the second. None: nothing was said."""
    if at is None:
        return None if delay_s is None else now_ms + round(delay_s * 1000)
    if delay_s is not None:
        raise InvalidInput(f"use either delay_s or {field}, not both", detail={"field": field})
    return parse_time_ms(at, field)


def parse_time_ms(said: str | float, field: str = "dt") -> int:
    """Milliseconds, RFC 3339 with its offset (`2026-11-14T23:59:59Z`), or `2026-11-14 23:59:59` in UTC."""
    time_ms = _read_time(said, field) if isinstance(said, str) else said
    if not 0 <= time_ms <= MAX_TIME_MS:
        raise InvalidInput(f"{field} {said!r:.60} is not between the years 1970 and 9999", detail={"field": field})
    if time_ms != int(time_ms):
        raise InvalidInput(f"{field} {said} is not a whole number of milliseconds", detail={"field": field})
    return int(time_ms)


def _read_time(text: str, field: str) -> int:
    try:
        return parse_time(text)
    except ValueError:
        raise InvalidInput(
            f"{field} {text!r:.60} is neither milliseconds nor a time such as 2026-11-14T23:59:59Z or 2026-11-14 (UTC)",
            detail={"field": field},
        ) from None


def _retry_after_ms(settings: JobSettings, repeat: str, now_ms: int) -> int | None:
    """How long a delivery may take before the job counts as lost: in seconds, or as modifiers, whose length is measured
    once, from now. Such a job neither repeats nor has a unique name: two of it may run at once."""
    if settings.retry_after_s is None and not settings.retry_after:
        return None
    field = "retry_after" if settings.retry_after else "retry_after_s"
    if settings.retry_after_s is not None and settings.retry_after:
        raise InvalidInput("use either retry_after or retry_after_s, not both", detail={"field": field})
    if repeat or settings.unique:
        other = "repeat" if repeat else "unique"
        raise InvalidInput(f"use either {field} or {other}, not both", detail={"field": field})
    if settings.retry_after_s is not None:
        return round(settings.retry_after_s * 1000)
    whole_ms = now_ms // 1000 * 1000
    try:
        length_ms = apply_modifiers(parse_modifiers(settings.retry_after), whole_ms) - whole_ms
    except SchedulerError as error:
        raise InvalidInput(f"retry_after: {error}", detail={"field": field}) from None
    if not 0 < length_ms <= _LONGEST_RETRY_AFTER_MS:
        raise InvalidInput(
            f"retry_after {settings.retry_after!r} is {length_ms / 1000:g} s: it must be more than 0 s, at most a year",
            detail={"field": field},
        )
    return length_ms
