"""What a program says of jobs, checked before either kind of queue has it: both refuse the same, in the same words."""

import json
import math
from typing import Final

from functory.errors import InvalidInput
from functory.queue.link import AddOptions
from functory.wire.base import MAX_DELAY_S, check_text

_TEXTS: Final = ("domain", "unique", "parent", "key")


def check_options(options: AddOptions) -> None:
    """What the queues would not both refuse by themselves. Raises InvalidInput."""
    check_delay(options.delay_s)
    for name in _TEXTS:
        check_text(getattr(options, name), name)


def check_delay(delay_s: float | None) -> None:
    """Raises InvalidInput."""
    if delay_s is None:
        return
    if not math.isfinite(delay_s):
        raise InvalidInput(f"delay_s must be a finite number, not {delay_s}", detail={"field": "delay_s"})
    if not 0 <= delay_s <= MAX_DELAY_S:
        raise InvalidInput(f"delay_s must be from 0 to {MAX_DELAY_S:,}, not {delay_s:g}", detail={"field": "delay_s"})


def encode(value: object, what: str = "the payload") -> bytes:
    """A payload or a result as bytes: text and bytes as they are, nothing as nothing, anything else as JSON. Raises
    InvalidInput."""
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return check_text(value, what).encode()
    return to_json(value, what)


def to_json(value: object, what: str) -> bytes:
    """Raises InvalidInput for what JSON cannot say, such as nan."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} cannot be written as JSON: {error}") from error
