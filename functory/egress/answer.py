"""The head of an answer to a plain request: it tells the context that the connection is for one request only. Pure.

The proxy asks hosts to close the connection, and some do not. Their answer would let a program send its next request on
it, and that one may be meant for any other host. What is no head of HTTP goes on as it came, and so does everything
behind `MOST_INTERIM` heads that are not the answer: a host could send those without end, and each has to be found.
"""

import re
from typing import Final

from functory.egress.head import MAX_BYTES

_END: Final = re.compile(rb"\n\r?\n")
_BEGINNING: Final = b"HTTP/"
_BEFORE_THE_ANSWER: Final = re.compile(rb"HTTP/[0-9.]+ 1(?!01)[0-9]{2}\b")
_OF_THE_CONNECTION: Final = (b"connection", b"proxy-connection", b"keep-alive")

MOST_INTERIM: Final = 8
"""Heads before the answer, such as 100 and 103."""


class AnswerHead:
    """Holds the head while it arrives, and nothing after it."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._interim = 0
        self.is_over = False
        """The answer itself has begun, or what came is not read as one."""

    def take(self, data: bytes) -> bytes:
        """The next bytes of the host. Returns what goes on now."""
        if self.is_over:
            return data
        passed, start = list[bytes](), max(len(self._held) - 2, 0)
        self._held += data
        while not self.is_over and (end := _END.search(self._held, start)):
            head, start = bytes(self._held[: end.end()]), 0
            del self._held[: end.end()]
            is_interim = _BEFORE_THE_ANSWER.match(head) is not None
            self._interim += is_interim
            self.is_over = not is_interim or self._interim > MOST_INTERIM
            passed.append(head if is_interim or not head.startswith(_BEGINNING) else _closing(head))
        begun = bytes(self._held[: len(_BEGINNING)])
        if self.is_over or not _BEGINNING.startswith(begun) or len(self._held) > MAX_BYTES:
            self.is_over = True
            passed.append(self.rest())
        return b"".join(passed)

    def rest(self) -> bytes:
        """What is held of a head that was not ended."""
        held = bytes(self._held)
        self._held.clear()
        return held


def _closing(head: bytes) -> bytes:
    first, *fields, last, _ = head.split(b"\n")
    kept, is_kept = [], True
    for line in fields:
        if not line.startswith((b" ", b"\t")):  # else it goes on
            is_kept = line.partition(b":")[0].rstrip().lower() not in _OF_THE_CONNECTION
        if is_kept:
            kept.append(line)
    return b"\n".join([first, *kept, b"Connection: close\r", last, b""])
