"""Text for a descriptor, written by a thread a moment later: the lines of the job log.

Ensures: a log that is read slowly does not slow the jobs down. A pipe that is full stops the thread, and only it. Lines
are written whole and in their order. While they cannot be written, they are kept up to a limit; those beyond it, and
those that the system refuses, are left out and counted, and the count is logged when lines can be written again.
"""

import logging
import os
import stat
import threading
import time
from collections.abc import Iterator
from typing import Final

log = logging.getLogger("functory.job_log")

_GATHER_S: Final = 0.02
"""Lines of this time are written together: a write for each job would cost more than formatting its lines."""
_MOST_CHARACTERS: Final = 8 << 20
_WHOLE_BYTES: Final = 4096
"""What the kernel writes to a pipe in one piece (PIPE_BUF): lines of others on the same pipe do not come in between."""


class LateWrites:
    def __init__(self, descriptor: int, *, most: int = _MOST_CHARACTERS) -> None:
        """most: characters that may wait."""
        self._descriptor = descriptor
        self._most = most
        self._is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._characters = 0
        """Of what waits, and of what is being written."""
        self._left_out = 0
        self._news = threading.Event()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="job-log", daemon=True)
        self._thread.start()

    def write(self, lines: str) -> None:
        """Whole lines. Returns at once."""
        with self._lock:
            if self._characters + len(lines) > self._most:
                self._left_out += lines.count("\n")
                return
            self._characters += len(lines)
            is_first = not self._waiting
            self._waiting.append(lines)
        if is_first:  # the thread is told once, and takes all that waits by then
            self._news.set()

    def close(self, within_s: float = 1.0) -> None:
        """Write what waits, but let nobody wait for longer than this."""
        self._is_closing.set()
        self._news.set()
        self._thread.join(within_s)

    def _run(self) -> None:
        while not self._is_closing.is_set():
            self._news.wait()
            self._is_closing.wait(_GATHER_S)
            self._news.clear()
            self._write_waiting()
        self._write_waiting()  # what came while it wrote

    def _write_waiting(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        size, unwritten = sum(map(len, waiting)), self._write_out(waiting)
        with self._lock:
            self._characters -= size
            left_out, self._left_out = self._left_out + unwritten, 0
        if left_out:
            log.warning("job_log.lines_left_out", extra={"lines": left_out})

    def _write_out(self, waiting: list[str]) -> int:
        """Empties the list. Returns how many lines could not be written."""
        text = "".join(waiting).encode()
        waiting.clear()
        pieces = iter([text] if self._is_file else _pieces(text))
        for piece in pieces:
            try:
                _write_all(self._descriptor, piece)
            except OSError:  # nobody reads this log any more, or its disk is full
                return sum(each.count(b"\n") for each in (piece, *pieces))
        return 0


def _pieces(text: bytes) -> Iterator[bytes]:
    """Whole lines, as many together as the kernel writes in one piece. A line that is longer is a piece of its own."""
    start = 0
    while start < len(text):
        end = text.rfind(b"\n", start, start + _WHOLE_BYTES) + 1 or text.find(b"\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def _write_all(descriptor: int, piece: bytes) -> None:
    while piece:
        try:
            piece = piece[os.write(descriptor, piece) :]
        except BlockingIOError:  # somebody set it to be non-blocking
            time.sleep(_GATHER_S)
