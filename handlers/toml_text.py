"""TOML that a tenant wrote. Pure."""

import tomllib
from typing import Any, Final

_MOST_DOTS: Final = 200
"""In one line. The time for a key grows with the square of its parts: one of 30,000 takes the parser 20 seconds."""


def parse_toml(text: str) -> dict[str, Any]:
    """Raises ValueError with the reason. The caller has bounded the length."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > _MOST_DOTS:
            raise ValueError(f"line {number} has more than {_MOST_DOTS} dots")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
