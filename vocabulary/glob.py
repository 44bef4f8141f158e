"""Patterns of names, as SQLite's GLOB has them: `*` is any text, `?` one character, `[a-c]` one of a set, `[^a]` one
that is not in it. Case counts, and nothing escapes.

Ensures: no pattern makes it slow. Between two stars a pattern has a fixed length, so that the leftmost place that fits
is the right one and nothing is tried twice; what follows the last star is compared with the end of the text. So a
pattern with one star costs no more than its own length. A set that is not closed matches nothing.
"""

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, NamedTuple

_NOTHING: Final = "(?!)"
_KEPT: Final = 100


class _Segment(NamedTuple):
    """What stands between two stars: always so many characters."""

    text: re.Pattern[str]
    width: int


def glob_matches(pattern: str, text: str) -> bool:
    return _matches(_compile(pattern), text)


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """The same for one pattern and many texts."""
    return partial(_matches, _compile(pattern))


def _matches(segments: tuple[_Segment, ...] | None, text: str) -> bool:
    if segments is None:
        return False
    if len(segments) == 1:
        return segments[0].text.fullmatch(text) is not None
    first, *between, last = segments
    found = first.text.match(text)
    for segment in between:
        found = found and segment.text.search(text, found.end())
    at = len(text) - last.width
    return found is not None and at >= found.end() and last.text.match(text, at) is not None


def is_closed(pattern: str) -> bool:
    """Whether every set of the pattern ends: one that does not matches nothing."""
    return _compile(pattern) is not None


@lru_cache(_KEPT)
def _compile(pattern: str) -> tuple[_Segment, ...] | None:
    """What stands between the stars; None if nothing can match."""
    segments: list[list[str]] = [[]]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            segments.append([])
        elif char == "?":
            segments[-1].append(".")
        elif char != "[":
            segments[-1].append(re.escape(char))
        else:
            found = _parse_set(pattern, at)
            if found is None:
                return None
            chars, at = found
            segments[-1].append(chars)
    return tuple(_Segment(re.compile("".join(parts), re.DOTALL), len(parts)) for parts in segments)


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
