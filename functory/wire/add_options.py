"""What a program says of new jobs, checked before it is sent: every kind of queue and client refuses the same, in the
same words."""

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from functory.errors import InvalidInput
from functory.wire.base import MAX_DELAY_S, MAX_REPEAT_CHARS, check_text
from vocabulary.job_limits import RANGES, trouble_with
from vocabulary.names import TYPE_RULE, is_type

_TEXTS: Final = ("domain", "unique", "parent", "key", "repeat")


class AddOptions(NamedTuple):
    """What may be said of new jobs; as in docs/http-api.md."""

    delay_s: float | None = None
    priority: int | None = None
    domain: str | None = None
    unique: str | None = None
    parent: str | None = None
    key: str | None = None
    repeat: str | None = None
    max_attempts: int | None = None
    retry_base_ms: int | None = None
    retry_max_ms: int | None = None
    retry_window_s: int | None = None
    max_wait_s: int | None = None

    def said(self) -> dict[str, object]:
        """Those that are given, by their names."""
        return {name: value for name, value in self._asdict().items() if value is not None}


def options_of(said: Mapping[str, Any]) -> AddOptions:
    """Raises InvalidInput for one that jobs do not have."""
    for name in said.keys() - set(AddOptions._fields):
        known = ", ".join(AddOptions._fields)
        raise InvalidInput(f"{name} is not an option of a job; known: {known}", detail={"field": name})
    return AddOptions(**said)


def check_options(options: AddOptions) -> None:
    """What the queues would not both refuse by themselves. Raises InvalidInput."""
    check_delay(options.delay_s)
    for name in _TEXTS:
        text = getattr(options, name)
        if text is not None and not isinstance(text, str):
            raise InvalidInput(f"{name} must be text, not {text!r:.60}", detail={"field": name})
        if text == "" and name != "repeat":  # which ends the repetition of a unique job
            raise InvalidInput(f"{name} is empty: leave it out if the job has none", detail={"field": name})
        if text is not None:
            check_text(text, name)
    for name in RANGES:
        check_limit(name, getattr(options, name))
    if options.repeat is not None and len(options.repeat) > MAX_REPEAT_CHARS:
        told = f"repeat must have at most {MAX_REPEAT_CHARS} characters, and has {len(options.repeat):,}"
        raise InvalidInput(told, detail={"field": "repeat"})


def check_number(options: AddOptions, count: int) -> None:
    """Whether so many jobs may have these. Raises InvalidInput."""
    if options.unique and count > 1:
        raise InvalidInput(
            f"unique is the name of one job, and there are {count:,}: add them one by one", detail={"field": "unique"}
        )


def check_type(job_type: object) -> None:
    """Raises InvalidInput."""
    if not isinstance(job_type, str) or not is_type(job_type):
        raise InvalidInput(f"{job_type!r:.80} is not a type: {TYPE_RULE}", detail={"field": "type"})


def check_limit(name: str, value: object) -> None:
    """Of a job's own retries and expiry. Raises InvalidInput."""
    if value is not None and (trouble := trouble_with(name, value)):
        raise InvalidInput(f"{name} {trouble}", detail={"field": name})


def check_delay(delay_s: object) -> None:
    """Raises InvalidInput."""
    if delay_s is None:
        return
    if not isinstance(delay_s, int | float):
        raise InvalidInput(f"delay_s must be a number of seconds, not {delay_s!r}", detail={"field": "delay_s"})
    if not math.isfinite(delay_s):
        raise InvalidInput(f"delay_s must be a finite number, not {delay_s}", detail={"field": "delay_s"})
    if not 0 <= delay_s <= MAX_DELAY_S:
        raise InvalidInput(f"delay_s must be from 0 to {MAX_DELAY_S:,}, not {delay_s:g}", detail={"field": "delay_s"})
