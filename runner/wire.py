"""The pipes of one context on the event loop: requests out, replies and raw log text in.

Never blocks and never waits: what cannot be written now is written when the pipe has room, what arrives is handed over
in chunks. Many replies that came meanwhile are one read and one callback, so the daemon does less per job the busier it
is. A context is not read from while the daemon holds too much of its tenant (`runner.flow`), and a message that has
begun must be whole in time. Whatever goes wrong (end of file, a message that is none, too much output) is told once,
through `lost`.
"""

import asyncio
import contextlib
import fcntl
import os
import select
from collections import deque
from collections.abc import Callable
from typing import Final

from runner.errors import OutputError, ProtocolError
from runner.flow import Flow
from runner.launch import Child
from runner.protocol import ReplyParser, ReplyRow
from runner.raw_log import RawLog

_READ_BYTES: Final = 256 * 1024
_PIECE_BYTES: Final = 16 * 1024
_MANY_BARS: Final = 2000
"""Each new job has a bar before its payload. A read with more of them is taken in piece by piece: one may hold forty
thousand new jobs, and to take in a thousand takes two milliseconds."""
_PIPE_BYTES: Final = 64 * 1024  # what a pipe holds as it comes
_FULL_BYTES: Final = _PIPE_BYTES // 2  # a pipe in which there may be no room: each reply may leave a page half empty
_MOST_PIPE_BYTES: Final = 1024 * 1024  # what a pipe holds that its owner has made as wide as the kernel allows
_WIDE_PIPE_BYTES: Final = 256 * 1024  # a usual batch in one write, and so fewer wake-ups
# A log pipe is drained in steps, so that a context that prints without end takes turns with everything else
# on the loop.
_LOG_STEPS: Final = 4
_PAUSE_S: Final = 0.001
_SMALL_BYTES: Final = 64 * 1024
"""Up to so much of an unfinished message is not worth counting: every other read ends within one."""


class Wire:
    """One context's three descriptors. `close` is idempotent and leaves no callback behind."""

    def __init__(
        self,
        child: Child,
        parser: ReplyParser,
        log: RawLog,
        *,
        tenant: str,
        flow: Flow,
        message_s: float,
        received: Callable[[list[ReplyRow]], None],
        lost: Callable[[Exception | None], None],
    ) -> None:
        self._child = child
        self._parser = parser
        self._log = log
        self._tenant = tenant
        self._flow = flow
        self._message_s = message_s
        self._received = received
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[memoryview] = deque()
        self._waiting = False  # for room in the request pipe
        self._wide: set[int] = set()
        """Descriptors of pipes that hold more than they do as they come."""
        self._rest = b""
        """Of what was read, what is not taken in yet."""
        self._next: asyncio.Handle | None = None  # takes in a piece of it
        self._resume: asyncio.TimerHandle | None = None
        self._log_resume: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None  # of a big message that is not whole
        self.is_held_back = False
        """Whether the tenant has so much on its way that this context is not read from."""
        self._is_counted = False
        """Whether the flow knows that this is in the midst of a reply."""
        self._log_open = True
        self._is_draining = self._closed = False
        self._loop.add_reader(child.reader, self._readable)
        self._loop.add_reader(child.log_fd, self._log_readable)

    def send(self, *frames: bytes) -> None:
        """Write `frames`, now or as the pipe takes them.

        A context that has ended is noticed by its reply pipe, not here.
        """
        if self._closed:  # its descriptors may be somebody else's by now
            return
        if self._child.writer not in self._wide and sum(map(len, frames)) > _PIPE_BYTES:
            self._widen(self._child.writer)
        self._unsent.extend(map(memoryview, frames))
        self._writable()

    def pause(self) -> None:
        """Look away for a moment while many small replies are on their way, to read them together."""
        if self._resume is None and not self._closed:
            self._loop.remove_reader(self._child.reader)
            self._resume = self._loop.call_later(_PAUSE_S, self._look_again)

    def drain_log(self) -> None:
        """Take in the text that is in the pipe now, within one turn's measure."""
        if not self._log_open or self._closed:
            return
        for _ in range(_LOG_STEPS):
            try:
                data = os.read(self._child.log_fd, _PIPE_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._log_open = False
                self._loop.remove_reader(self._child.log_fd)
                return
            self._log.feed(data)
            if self._log.is_too_much:
                self._log_open = False
                self._loop.remove_reader(self._child.log_fd)
                self._lost(OutputError(f"printed more than {self._log.total_bytes >> 20} MB"))
                return
            if len(data) >= _PIPE_BYTES:
                return  # it may take a while to search so much for secrets: the loop goes round first

    async def drain(self) -> None:
        """Take in the replies that a context left behind when it ended: as much as a pipe can hold, and no more.
        Somebody may still hold its other end, and write on."""
        self._is_draining = True
        self._loop.remove_reader(self._child.reader)
        left_bytes = _MOST_PIPE_BYTES
        while left_bytes > 0 and not self._closed and (read_bytes := self._read_once()):
            left_bytes -= read_bytes
            await asyncio.sleep(0)

    @property
    def is_at_end(self) -> bool:
        """Whether the context has ended, or is about to, and all its replies were read."""
        end = select.poll()
        end.register(self._child.reader, select.POLLIN)
        return not self._rest and [event for _, event in end.poll(0)] == [select.POLLHUP]

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._resume is not None:
            self._resume.cancel()
        if self._log_resume is not None:
            self._log_resume.cancel()
        if self._next is not None:
            self._next.cancel()
        self._clear_deadline()
        self._flow.forget(self)
        self._loop.remove_reader(self._child.reader)
        self._loop.remove_reader(self._child.log_fd)
        self._loop.remove_writer(self._child.writer)
        self._child.close()

    def _writable(self) -> None:
        try:
            while self._unsent:
                written = os.write(self._child.writer, self._unsent[0])
                if written == len(self._unsent[0]):
                    self._unsent.popleft()
                else:
                    self._unsent[0] = self._unsent[0][written:]
        except BlockingIOError:
            self._waiting = True
            self._loop.add_writer(self._child.writer, self._writable)
            return
        except OSError:
            self._unsent.clear()
        if self._waiting:
            self._waiting = False
            self._loop.remove_writer(self._child.writer)

    def _widen(self, pipe: int) -> None:
        self._wide.add(pipe)
        with contextlib.suppress(OSError):  # a user may have so many bytes of pipes; without them it is just slower
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _WIDE_PIPE_BYTES)

    def _look_again(self) -> None:
        self._resume = None
        self._listen()
        self._readable()

    def _readable(self) -> None:
        if self._next is not None or self._is_draining:
            return
        if self._flow.has_room(self._tenant, self):
            self._read_once()
            return
        self.is_held_back = True
        self._clear_deadline()
        self._loop.remove_reader(self._child.reader)
        self._flow.when_room(self._tenant, self, self._go_on)

    def _go_on(self) -> None:
        self.is_held_back = False
        if not self._closed:
            self._listen()
            self._take_rest_soon()

    def _listen(self) -> None:
        if not self._is_draining:
            self._loop.add_reader(self._child.reader, self._readable)

    def _read_once(self) -> int:
        """How many bytes were taken in; 0 if there is nothing to go on with."""
        # A big reply is read to its end and not beyond: whether there is room for the next is asked then.
        most_bytes = min(self._parser.missing_bytes, _READ_BYTES) if self._is_counted else _READ_BYTES
        try:
            data = self._rest or os.read(self._child.reader, most_bytes)
        except BlockingIOError:
            return 0
        if not data:
            self._loop.remove_reader(self._child.reader)
            self._lost(None)
            return 0
        if len(data) >= _FULL_BYTES and self._child.reader not in self._wide:
            self._widen(self._child.reader)
        is_laden = len(data) > _PIECE_BYTES and data.count(b"|") > _MANY_BARS
        data, self._rest = (data[:_PIECE_BYTES], data[_PIECE_BYTES:]) if is_laden else (data, b"")
        try:
            replies = self._parser.feed(data)
            self._received(replies)
            if self._parser.held_bytes or self._is_counted:
                self._watch_unfinished(begun=bool(replies))
            if self._parser.wrong is not None:
                raise self._parser.wrong
        except ProtocolError as err:
            self._rest = b""
            self._loop.remove_reader(self._child.reader)
            self._lost(err)
            return 0
        if self._rest:
            self._take_rest_soon()
        return len(data)

    def _take_rest_soon(self) -> None:
        """In the next turn of the loop, and before anything that comes later."""
        if self._rest and self._next is None and not self._is_draining and not self._closed:
            self._next = self._loop.call_soon(self._take_rest)

    def _take_rest(self) -> None:
        self._next = None
        if self._rest:
            self._readable()

    def _watch_unfinished(self, *, begun: bool) -> None:
        """Count what is there of a message that is not whole, and see to it that it does not stay so."""
        held_bytes = self._parser.held_bytes
        is_big = held_bytes > _SMALL_BYTES
        if begun or not is_big:
            self._clear_deadline()
        if is_big or self._is_counted:
            self._is_counted = is_big
            self._flow.hold_unfinished(self, self._tenant, held_bytes if is_big else 0)
        if is_big and self._deadline is None:
            self._deadline = self._loop.call_later(self._message_s, self._overdue)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _overdue(self) -> None:
        self._loop.remove_reader(self._child.reader)
        self._lost(ProtocolError(f"took more than {self._message_s:g} s over one message"))

    def _log_readable(self) -> None:
        """Not while the tenant has used up its share of searching, if there is something to look for: the context waits
        in its own write."""
        wait_s = 0.0 if self._log.masker is None else self._flow.searches.wait_s(self._tenant)
        if not wait_s:
            self.drain_log()
            return
        self._loop.remove_reader(self._child.log_fd)
        self._log_resume = self._loop.call_later(wait_s, self._log_again)

    def _log_again(self) -> None:
        self._log_resume = None
        if self._log_open:
            self._loop.add_reader(self._child.log_fd, self._log_readable)
