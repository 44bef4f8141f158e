"""Values on the command line: pairs, counts, moments. Each raises ArgumentTypeError with what was expected."""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any


def pair(text: str) -> tuple[str, str]:
    """`NAME=VALUE`"""
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def number_pair(text: str) -> tuple[str, float | bool]:
    """`NAME=NUMBER`, or `NAME=true`"""
    name, value = pair(text)
    if value in {"true", "false"}:
        return name, value == "true"
    try:
        return name, _number(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: {value!r} is neither a number nor true or false") from None


def limit_pair(text: str) -> tuple[str, float | bool | str]:
    """As `number_pair`, and bytes may have a unit: `max_bytes=10GB`. The one limit that is a text,
    `hosts=*.example.org`, is taken as it is."""
    name, value = pair(text)
    if name == "hosts":
        return name, value
    if name.endswith("_bytes") and value[-1:].isalpha():
        from functory.setting_values import size  # noqa: PLC0415 (not for other commands)

        try:
            return name, size(value)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None
    return number_pair(text)


def _number(text: str) -> float:
    """A whole number stays one, also below 0: it is the server that says what is allowed."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def per_second(text: str) -> float:
    """A rate: `5` or `5/s` a second, `10/m` in a minute, `1000/h` in an hour, `1/d` in a day."""
    from vocabulary.rate_text import parse_rate  # noqa: PLC0415 (only for those who give one)

    try:
        return parse_rate(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def positive(text: str) -> int:
    """A whole number from 1 on."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return number


def moment_ms(text: str) -> int:
    """`2h` (ago), `2026-11-14T23:59:59Z`, `2026-11-14 23:59:59` in UTC, also as it is printed, or milliseconds."""
    from functory.setting_values import duration  # noqa: PLC0415 (only for those who give a time)
    from vocabulary.time_text import parse_time  # noqa: PLC0415

    with suppress(ValueError):
        return max(round((time.time() - duration(text)) * 1000), 0)
    with suppress(ValueError):
        return parse_time(text)
    expected = "a time such as 2h (ago, up to 100 years), 2026-11-14T23:59:59Z, 2026-11-14 (UTC), or milliseconds"
    raise argparse.ArgumentTypeError(f"{text!r:.80} is not {expected}")


def seconds(text: str) -> int:
    """`90s`, `10m`, `26h`, in whole seconds."""
    from functory.setting_values import duration  # noqa: PLC0415 (only for those who give one)

    try:
        return round(duration(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def decoded(data: bytes, what: str) -> str:
    """Raises InvalidInput."""
    from functory.errors import InvalidInput  # noqa: PLC0415 (not for the parser)

    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{what} is not UTF-8 text: {error.reason} at byte {error.start:,}") from None


def some_of(names: Sequence[str], also: Mapping[str, str] | None = None) -> Callable[[str], list[str]]:
    """One or more of these, separated by commas: for `action="extend"`, so that they may also be given one by one.
    also: other words for some of them."""

    def parse(text: str) -> list[str]:
        found = [(also or {}).get(part.strip(), part.strip()) for part in text.split(",")]
        for name in found:
            if name not in names:
                raise argparse.ArgumentTypeError(f"{name!r:.80} is none of {', '.join([*names, *(also or ())])}")
        return found

    return parse


def given(**values: Any) -> dict[str, Any]:
    """Those that the user gave."""
    return {name: value for name, value in values.items() if value is not None and value is not False}
