"""Escape sequences with which a program colours what it prints."""

import re
from typing import Final

_SEQUENCE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])"
)
"""CSI, OSC, strings, and the short ones."""


def without_codes(text: str) -> str:
    return _SEQUENCE.sub("", text) if "\x1b" in text else text
