"""Rates as people say them, and back: `5` or `5/s` a second, `10/m` in a minute, `100/h` in an hour, `1/d` in a day."""

from typing import Final

RATE_RULE: Final = "5 or 5/s, or another number a minute (10/m), an hour (h) or a day (d)"
_UNITS_S: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_rate(text: str) -> float:
    """The number a second. Raises ValueError."""
    number, slash, unit = text.strip().partition("/")
    seconds = _UNITS_S.get(unit if slash else "s")
    if seconds is None:
        raise ValueError(f"{text!r:.80} is not a rate: {RATE_RULE}")
    try:
        return float(number) / seconds
    except ValueError:
        raise ValueError(f"{text!r:.80} is not a rate: {RATE_RULE}") from None


def rate_text(rate_per_s: float) -> str:
    """As `parse_rate` takes it. One under 1 a second, or that six digits do not say, in the first unit in which it is a
    whole number, if there is one."""
    plain = f"{rate_per_s:.6g}"
    for unit, seconds in _UNITS_S.items() if rate_per_s < 1 or float(plain) != rate_per_s else ():
        number = rate_per_s * seconds
        if number >= 1 and abs(number - round(number)) < 1e-9 * number:
            return f"{round(number)}/{unit}"
    return f"{plain}/s"
