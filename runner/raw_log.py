"""Text that a context's process tree printed past its bootstrap: sub-processes, C libraries, a dying
interpreter.

Keeps the end of it and takes out `J: ` lines, in bounded memory whatever comes: one endless line, ten
gigabytes, no newline ever. It belongs to the job that was running when it was read.
"""

from collections.abc import Iterator
from typing import Final

from runner.errors import ProtocolError
from runner.protocol import NewJob, parse_new_job

_MARKS: Final = (b"J: ", b"#J: ")


class RawLog:
    """The output of one job so far. `take` hands it over and starts anew."""

    def __init__(self, *, keep_bytes: int, line_bytes: int, new_jobs: int) -> None:
        self._keep_bytes = keep_bytes
        self._line_bytes = line_bytes
        self._new_jobs = new_jobs
        self._reset()

    def _reset(self) -> None:
        self.total_bytes = 0
        self._kept = bytearray()
        self._open = bytearray()  # the last line while it has no newline
        self._inside = False  # `_open` continues a line whose beginning is in the log already
        self._found: list[NewJob] = []

    def feed(self, data: bytes) -> None:
        self.total_bytes += len(data)
        self._open += data
        cut = self._open.rfind(b"\n") + 1
        if cut:
            done = bytes(self._open[:cut])
            del self._open[:cut]
            self._settle(done)
        limit = self._line_bytes if self._open.startswith(_MARKS) else self._keep_bytes
        if len(self._open) > limit:
            self._kept += self._open
            self._open.clear()
            self._inside = True
        if len(self._kept) > 2 * self._keep_bytes:
            del self._kept[: -self._keep_bytes]

    def take(self) -> tuple[bytes, tuple[NewJob, ...]]:
        """(the end of the log, the new jobs) since the last call."""
        if self._open:
            self._settle(bytes(self._open))
        taken = bytes(self._kept[-self._keep_bytes :]), tuple(self._found)
        self._reset()
        return taken

    def _settle(self, text: bytes) -> None:
        if b"J: " in text:
            text = b"\n".join(self._without_marks(text))
        self._inside = False
        self._kept += text

    def _without_marks(self, text: bytes) -> Iterator[bytes]:
        for line in text.split(b"\n"):
            if line.startswith(_MARKS) and not self._inside and len(self._found) < self._new_jobs:
                try:
                    self._found.append(parse_new_job(line.split(b"J: ", 1)[1]))
                    continue
                except ProtocolError:
                    pass  # an ordinary line that happens to begin so
            self._inside = False
            yield line
