"""Base64 is often told in lines of 64 or 76 characters. Finds such lines in a text, and joins them.

Ensures: the time is linear in the text.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

SHORTEST_LINE: Final = 60
"""Shorter lines are not joined: they may be anybody's words."""
LONGEST_BREAK: Final = 4
_CHAR: Final = rb"[A-Za-z0-9+/]"
_BREAKS: Final = (rb"\n", rb"\r\n", rb"\\n", rb"\\r\\n")  # also as JSON and `repr` write them
_BREAK: Final = re.compile(rb"|".join(_BREAKS))
_FULL_LINE: Final = rb"(?:%b{%d,}+(?:%b))" % (_CHAR, SHORTEST_LINE, _BREAK.pattern)
_BLOCK: Final = re.compile(rb"(?<!%b)%b++%b*+" % (_CHAR, _FULL_LINE, _CHAR))
_CUT_BLOCK: Final = re.compile(rb"%b*+(?:%b)%b*+%b*+" % (_CHAR, _BREAK.pattern, _FULL_LINE, _CHAR))
_END: Final = re.compile(rb"|".join(rb"%b(?<=%b{%d}%b)" % (each, _CHAR, SHORTEST_LINE, each) for each in _BREAKS))
"""Of a line that may be one of several. It looks back from line ends only, which most of a text is not."""


class Block:
    """Lines of base64, joined to `text`; `start` and `end` are where they are."""

    def __init__(self, found: re.Match[bytes]) -> None:
        lines = _BREAK.split(found[0])
        self.start, self.end = found.span()
        self.text = b"".join(lines)
        self._begins = [0, *accumulate(map(len, lines[:-1]))]
        """Of the lines, in `text`."""
        breaks = accumulate((len(each[0]) for each in _BREAK.finditer(found[0])), initial=self.start)
        self._shifts = list(breaks)

    def place_of(self, at: int) -> int:
        """Where a character of `text` is."""
        return at + self._shifts[bisect_right(self._begins, at) - 1]


def blocks_in(data: bytes, *, cut_begin: bool = False) -> Iterator[Block]:
    """With `cut_begin` the first line may have lost its beginning."""
    at = 0
    if cut_begin and (cut := _CUT_BLOCK.match(data)):
        yield Block(cut)
        at = cut.end()
    while end := _END.search(data, at):
        found = _BLOCK.search(data, data.rfind(b"\n", at, end.start()) + 1 or at)
        if found is None:
            return
        yield Block(found)
        at = found.end()
