"""What leaves a context past its replies: prints of jobs that take a while, sub-processes, a dying interpreter.

Keeps the end of it and takes out `J: ` lines, in bounded memory whatever comes: one endless line, ten gigabytes, no
newline ever. It belongs to the job that was running when it was read.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from runner.limits import ContextLimits
from runner.log_note import gap
from runner.new_jobs import NewJobs
from runner.protocol import parse_new_job
from vocabulary.names import TYPE
from vocabulary.new_job import NewJob

if TYPE_CHECKING:
    from runner.masking import Hider

_MARKS: Final = (b"J: ", b"#J: ")
_IDLE_BYTES: Final = 256 * 1024
"""More than a pipe holds: what a job printed may still be on its way when it has ended."""
_NOTE: Final = b" [not a new job: write J: type|payload]"
_LAST_NOTE: Final = b" [not a new job, either: from here on this is not noted]"
MOST_NOTES: Final = 1000
_JOB: Final = re.compile(rb"#?J: %b(?:\?[!-{}~]{0,2000})?\|" % TYPE.encode())
"""All that `parse_new_job` takes: to raise an error for each of many lines would hold up everybody."""


class Printed(NamedTuple):
    """What one job printed. `too_much` says which limit its new jobs passed; then there are none."""

    log: bytes
    dropped: int
    new_jobs: tuple[NewJob, ...]
    too_much: str


class RawLog:
    """The output of one job so far. `take` hands it over and starts anew, `begin` starts anew without that."""

    def __init__(self, limits: ContextLimits) -> None:
        self._limits = limits
        self.masker: Hider | None = None
        """Hides the secrets of the context. To be set before the first byte is read."""
        self.makes_jobs = True
        """Whether `J: ` lines are taken out."""
        self._keep_bytes = limits.log_bytes
        self._is_idle = False
        self._line_bytes = limits.new_job_bytes + len(_MARKS[-1])
        self._reset()

    def _reset(self) -> None:
        self.total_bytes = 0
        self._kept = bytearray()
        self._dropped = 0
        self._open = bytearray()  # the last line while it has no newline
        self._inside = False  # `_open` continues a line whose beginning is in the log already
        self._found = NewJobs(self._limits)
        self._notes = 0

    def begin(self, *, makes_jobs: bool) -> None:
        """A batch runs from now on: what was printed before belongs to none of its jobs."""
        self.makes_jobs = makes_jobs
        self._is_idle = False
        if self.total_bytes:
            self._reset()

    def be_idle(self) -> None:
        """No job runs until `begin` is called: what comes belongs to nobody, and is not kept."""
        self._is_idle = True
        if self.total_bytes:
            self._reset()

    @property
    def is_too_much(self) -> bool:
        """Whether so much was printed that the context is to be ended."""
        return self.total_bytes > (_IDLE_BYTES if self._is_idle else self._limits.output_bytes)

    def feed(self, data: bytes) -> None:
        self.total_bytes += len(data)
        if self._is_idle:
            return
        self._open += data
        cut = self._open.rfind(b"\n") + 1
        if cut:
            done = bytes(self._open[:cut])
            del self._open[:cut]
            self._settle(done)
        marked = self.makes_jobs and self._open.startswith(_MARKS) and not self._inside
        if len(self._open) > (self._line_bytes if marked else self._keep_bytes):
            if marked:
                self._found.refuse(f"printed a new job line of more than {self._limits.new_job_bytes} bytes")
            self._pass_open_line()
            self._inside = True
        self._trim(2 * self._keep_bytes)

    def note(self, text: str) -> None:
        """A line of ours about the job that runs, beside what it prints itself."""
        if not self._is_idle:
            line = self.hide(f"[network] {text}\n".encode("utf-8", "replace"))
            self.total_bytes += len(line)
            self._kept += line
            self._trim(2 * self._keep_bytes)

    def since(self, offset: int) -> tuple[bytes, int]:
        """(whole lines after the first `offset` bytes of this job, the offset after them). Nothing is taken. What a
        reader was too slow for is gone, and is counted in its place."""
        begins = self._dropped
        end = begins + len(self._kept)
        if offset >= begins:
            return self.hide(bytes(self._kept[offset - begins :])), end
        return gap(begins - offset) + self.hide(bytes(self._kept)), end

    def hide(self, data: bytes) -> bytes:
        """Without the secrets of the context."""
        return data if self.masker is None else self.masker.hide(data)

    def hide_cut(self, data: bytes) -> bytes:
        """As `hide`, for a text that may begin or end within a secret."""
        return data if self.masker is None else self.masker.hide_cut(data)

    def take(self) -> Printed:
        """All since the last call."""
        if self._open:
            self._settle(bytes(self._open))
        if self.masker is not None:
            self._kept[:] = self.masker.hide(bytes(self._kept))  # a value of several lines
        self._trim(self._keep_bytes)
        taken = Printed(bytes(self._kept), self._dropped, self._found.taken(), self._found.too_much)
        self._reset()
        return taken

    def _trim(self, bound: int) -> None:
        if len(self._kept) > bound:
            self._dropped += len(self._kept) - self._keep_bytes
            del self._kept[: -self._keep_bytes]

    def _pass_open_line(self) -> None:
        """A long line goes to the log as it grows; so much of it stays as may be the beginning of a secret."""
        text = self._end_of(bytes(self._open))
        cut = len(text) - max(self.masker.longest - 1, 0) if self.masker is not None else len(text)
        self._kept += text[: max(cut, 0)]
        self._open[:] = text[max(cut, 0) :]

    def _settle(self, text: bytes) -> None:
        if self.makes_jobs and b"J: " in text:  # before a search, of which nothing but a mask may be left
            text = b"\n".join(self._without_marks(text))  # what they hold is searched when the job is reported
        self._inside = False
        self._kept += self._end_of(text)

    @property
    def _most_bytes(self) -> int:
        """More than this is not searched at once. The longest form of a secret fits."""
        return 2 * self._keep_bytes + (0 if self.masker is None else self.masker.longest)

    def _end_of(self, text: bytes) -> bytes:
        """Of a long text only the end will be kept, so no more of it is searched. It may begin within a secret."""
        cut = len(text) - self._most_bytes
        if cut <= 0:
            return self.hide(text)
        self._dropped += len(self._kept) + cut
        self._kept.clear()
        return text[cut:] if self.masker is None else self.masker.hide_end(text[cut:])

    def _without_marks(self, text: bytes) -> Iterator[bytes]:
        for line in text.split(b"\n"):
            if not line.startswith(_MARKS) or self._inside or self._found.too_much:  # then the job fails in any case
                self._inside = False
                yield line
            elif (new := _new_job(line)) is None:
                self._notes += 1
                yield line if line.endswith(_NOTE) else line + self._note()  # the context may have said so already
            else:
                self._found.add(new)

    def _note(self) -> bytes:
        """A line of four bytes becomes one of forty: not without end."""
        if self._notes < MOST_NOTES:
            return _NOTE
        return _LAST_NOTE if self._notes == MOST_NOTES else b""


def _new_job(line: bytes) -> NewJob | None:
    return parse_new_job(line.split(b"J: ", 1)[1]) if _JOB.match(line) else None
