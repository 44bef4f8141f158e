"""What leaves a context past its replies: prints of jobs that take a while, sub-processes, a dying interpreter.

Keeps the end of it and takes out `J: ` lines, in bounded memory whatever comes: one endless line, ten gigabytes, no
newline ever. It belongs to the job that was running when it was read.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from runner.errors import ProtocolError
from runner.protocol import NewJob, parse_new_job

_MARKS: Final = (b"J: ", b"#J: ")
_NOTE: Final = b" [not a new job: write J: type|payload]"


class Printed(NamedTuple):
    """What one job printed. `too_much` says which limit its new jobs passed; then there are none."""

    log: bytes
    dropped: int
    new_jobs: tuple[NewJob, ...]
    too_much: str


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
        self._dropped = 0
        self._open = bytearray()  # the last line while it has no newline
        self._inside = False  # `_open` continues a line whose beginning is in the log already
        self._found: list[NewJob] = []
        self._too_much = ""

    def feed(self, data: bytes) -> None:
        self.total_bytes += len(data)
        self._open += data
        cut = self._open.rfind(b"\n") + 1
        if cut:
            done = bytes(self._open[:cut])
            del self._open[:cut]
            self._settle(done)
        marked = self._open.startswith(_MARKS) and not self._inside
        if len(self._open) > (self._line_bytes if marked else self._keep_bytes):
            if marked:
                self._too_much = f"printed a new job line of more than {self._line_bytes} bytes"
            self._kept += self._open
            self._open.clear()
            self._inside = True
        self._trim(2 * self._keep_bytes)

    def take(self) -> Printed:
        """All since the last call."""
        if self._open:
            self._settle(bytes(self._open))
        self._trim(self._keep_bytes)
        new_jobs = () if self._too_much else tuple(self._found)
        taken = Printed(bytes(self._kept), self._dropped, new_jobs, self._too_much)
        self._reset()
        return taken

    def _trim(self, bound: int) -> None:
        if len(self._kept) > bound:
            self._dropped += len(self._kept) - self._keep_bytes
            del self._kept[: -self._keep_bytes]

    def _settle(self, text: bytes) -> None:
        if b"J: " in text:
            text = b"\n".join(self._without_marks(text))
        self._inside = False
        self._kept += text

    def _without_marks(self, text: bytes) -> Iterator[bytes]:
        for line in text.split(b"\n"):
            if not line.startswith(_MARKS) or self._inside:
                self._inside = False
                yield line
            elif (new := _new_job(line)) is None:
                yield line if line.endswith(_NOTE) else line + _NOTE  # the context may have said so already
            elif len(self._found) < self._new_jobs:
                self._found.append(new)
            else:
                self._too_much = f"made more than {self._new_jobs} new jobs"


def _new_job(line: bytes) -> NewJob | None:
    try:
        return parse_new_job(line.split(b"J: ", 1)[1])
    except ProtocolError:
        return None
