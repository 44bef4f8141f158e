"""Patterns of names, as SQLite's GLOB has them: `*` is any text, `?` one character, `[a-c]` one of a set, `[^a]` one
that is not in it. Case counts, and nothing escapes.

Ensures: no pattern makes it slow. A pattern has at most MOST_CHARS characters, whoever brings it. Between two stars it
has a fixed length, so that the leftmost place that fits is the right one and nothing is tried twice; what follows the
last star is compared with the end of the text first. The first part that does not fit ends the comparison, and so does
a text that is too short for all parts. A set that is not closed matches nothing.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar, Final, NamedTuple

MOST_CHARS: Final = 255
"""Of a pattern: no name that patterns are compared with is longer."""
_NOTHING: Final = "(?!)"
_KEPT: Final = 200
_BASE_COST: Final = 10
_READING: Final = 80
"""Of a character, if there are `?` or sets."""


class PatternTooLong(ValueError):
    """A pattern has more than MOST_CHARS characters."""

    code: ClassVar[str] = "pattern_too_long"


class _Plain(NamedTuple):
    """A text between two stars."""

    text: str

    @property
    def width(self) -> int:
        return len(self.text)

    def end_in(self, name: str, at: int) -> int:
        """Where the leftmost place that fits ends, from here on; -1: there is none."""
        found = name.find(self.text, at)
        return -1 if found < 0 else found + len(self.text)

    def fits(self, name: str, at: int) -> bool:
        return name.startswith(self.text, at)


class _Special(NamedTuple):
    """The same, with `?` or sets."""

    text: re.Pattern[str]
    width: int

    def end_in(self, name: str, at: int) -> int:
        found = self.text.search(name, at)
        return -1 if found is None else found.end()

    def fits(self, name: str, at: int) -> bool:
        return self.text.match(name, at) is not None


class _Glob:
    """A pattern that was read. `parts` stand between stars; the first and the last may be empty, and no other."""

    __slots__ = ("_between", "_first", "_has_star", "_last", "_width")

    def __init__(self, parts: list[_Plain | _Special]) -> None:
        self._first, self._last = parts[0], parts[-1]
        self._between = parts[1:-1]
        self._has_star = len(parts) > 1
        self._width = sum(part.width for part in parts)

    def matches(self, name: str) -> bool:
        size = len(name)
        if not self._has_star:
            return size == self._width and self._first.fits(name, 0)
        end = size - self._last.width
        if size < self._width or not self._first.fits(name, 0) or not self._last.fits(name, end):
            return False
        at = self._first.width
        for part in self._between:
            at = part.end_in(name, at)
            if at < 0:
                return False
        return at <= end


def glob_matcher(pattern: str) -> Callable[[str], bool]:
    """Says of a text whether the pattern matches it. Raises PatternTooLong."""
    glob = _read(pattern)
    return _never if glob is None else glob.matches


def glob_cost(pattern: str) -> int:
    """What a comparison costs, for those who count their work: at most about a tenth of a microsecond each."""
    return _BASE_COST + len(pattern)


def reading_cost(pattern: str) -> int:
    """The same of the first comparison with a pattern, which has to be read."""
    return _READING * len(pattern) if _has_specials(pattern) else glob_cost(pattern)


def is_closed(pattern: str) -> bool:
    """Whether every set of the pattern ends: one that does not matches nothing. Raises PatternTooLong."""
    return _read(pattern) is not None


def check_length(pattern: str) -> None:
    """Raises PatternTooLong."""
    if len(pattern) > MOST_CHARS:
        raise PatternTooLong(f"a pattern has at most {MOST_CHARS} characters, and this one has {len(pattern)}")


def _never(_text: str) -> bool:
    return False


def _has_specials(pattern: str) -> bool:
    return "?" in pattern or "[" in pattern


@lru_cache(_KEPT)
def _read(pattern: str) -> _Glob | None:
    """None if nothing can match. Stars that follow each other are one."""
    check_length(pattern)
    if not _has_specials(pattern):
        first, *rest = pattern.split("*")
        between, last = [text for text in rest[:-1] if text], rest[-1:]
        return _Glob([_Plain(text) for text in (first, *between, *last)])
    parts: list[list[str]] = [[]]
    at = 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "*":
            if parts[-1] or len(parts) == 1:  # else it follows another star
                parts.append([])
        elif char == "?":
            parts[-1].append(".")
        elif char != "[":
            parts[-1].append(re.escape(char))
        else:
            found = _parse_set(pattern, at)
            if found is None:
                return None
            chars, at = found
            parts[-1].append(chars)
    return _Glob([_Special(re.compile("".join(part), re.DOTALL), len(part)) if part else _Plain("") for part in parts])


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
