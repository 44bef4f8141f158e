"""Patterns of names, as SQLite's GLOB has them: `*` is any text, `?` one character, `[a-c]` one of a set, `[^a]` one
that is not in it. Case counts, and nothing escapes.

Ensures: no pattern makes it slow. Between two stars a pattern has a fixed length, so that the leftmost place that fits
is the right one and nothing is tried twice. A set that is not closed matches nothing.
"""

import re
from functools import lru_cache
from typing import Final

_NOTHING: Final = "(?!)"
_KEPT: Final = 100


def glob_matches(pattern: str, text: str) -> bool:
    segments = _compile(pattern)
    if segments is None:
        return False
    if len(segments) == 1:
        return segments[0].fullmatch(text) is not None
    first, *between, last = segments
    found = first.match(text)
    for segment in between:
        found = found and segment.search(text, found.end())
    return found is not None and last.search(text, found.end()) is not None


@lru_cache(_KEPT)
def _compile(pattern: str) -> tuple[re.Pattern[str], ...] | None:
    """What stands between the stars; None if nothing can match."""
    segments = [""]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            segments.append("")
        elif char == "?":
            segments[-1] += "."
        elif char != "[":
            segments[-1] += re.escape(char)
        else:
            found = _parse_set(pattern, at)
            if found is None:
                return None
            chars, at = found
            segments[-1] += chars
    if len(segments) > 1:
        segments[-1] += r"\Z"
    return tuple(re.compile(segment, re.DOTALL) for segment in segments)


def _parse_set(pattern: str, at: int) -> tuple[str, int] | None:
    """The set that begins here and where the pattern goes on; None if it is not closed."""
    is_inverted = pattern[at : at + 1] == "^"
    at += is_inverted
    chars = before = ""
    if pattern[at : at + 1] == "]":
        chars = r"\]"
        at += 1
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "]":
            return _one_of(chars, is_inverted=is_inverted), at
        if char == "-" and before and pattern[at : at + 1] not in {"", "]"}:
            if before <= pattern[at]:
                chars += f"{re.escape(before)}-{re.escape(pattern[at])}"
            before, at = "", at + 1
        else:
            chars += re.escape(char)
            before = char
    return None


def _one_of(chars: str, *, is_inverted: bool) -> str:
    if not chars:
        return "." if is_inverted else _NOTHING
    return f"[{'^' if is_inverted else ''}{chars}]"
