"""The words in a log about what is missing of it. Written and recognised only here.

Ensures: what `split` takes for the note is ours, whatever a job prints. A log whose own first line reads like one has a
note before it, of 0 bytes.
"""

import re
from typing import Final

_TORN: Final = re.compile(rb"[\x80-\xbf]{1,3}+(?![\x80-\xbf])")
"""What stays of a character of UTF-8 that has lost its first byte."""
_NOTE: Final = re.compile(rb"\[(\d{1,15}) bytes before this were dropped\]\n")


def end_of(log: bytes, dropped: int, keep: int) -> tuple[bytes, int]:
    """What is kept of it, and how many bytes are dropped by then. It does not begin within a character: with a part of
    one it would be no text."""
    dropped += max(len(log) - keep, 0)
    log = log[-keep:]
    if dropped and (torn := _TORN.match(log)):
        return log[torn.end() :], dropped + torn.end()
    return log, dropped


def noted(dropped: int, log: bytes) -> bytes:
    """The end of a log, after a note if bytes before it were dropped."""
    return b"[%d bytes before this were dropped]\n%b" % (dropped, log) if dropped or _NOTE.match(log) else log


def split(log: bytes) -> tuple[int, bytes]:
    """The way back."""
    note = _NOTE.match(log)
    return (0, log) if note is None else (int(note[1]), log[note.end() :])


def gap(dropped: int) -> bytes:
    """In the place of bytes that a reader was too slow for."""
    return b"[%d bytes were dropped]\n" % dropped
