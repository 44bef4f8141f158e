"""A context as the daemon holds it: its three pipes, its pidfd, and the socket on which its init reports.

Ensures: when `wait` or `kill` returns, no process of the context is left and its cgroup, uid and scratch are
given back. The pidfd and not the pid is signalled, so a number that was reused is never hit.
"""

import asyncio
import contextlib
import json
import logging
import os
import select
import signal
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

from runner.errors import ContextLostError, LaunchError, ProgramError
from runner.launch import Exit, Level
from runner.pipes import PipedChild
from runner.sandbox.inner.order import KILL, REPORT_BYTES, TERMINATE, TIDY, TIDY_BUT_CHILDREN
from runner.sandbox.room import Room

logger = logging.getLogger(__name__)

_TIDY_S: Final = 3.0
"""Several times what the context's init takes at most (inner/init.py). It has the uid of the tenant's programs, which
may let it run when nothing else does."""


class SandboxedChild(PipedChild):
    """One running context; made by `SandboxLauncher.launch` only."""

    def __init__(
        self,
        *,
        level: Level,
        namespaces: bool,
        pipes: tuple[int, int, int],
        report: socket.socket,
        room: Room,
    ) -> None:
        super().__init__(*pipes)
        self._level = level
        self._namespaces = namespaces
        self._report = report
        self._room = room
        self.scratch_env = {"HOME": room.scratch, "TMPDIR": room.scratch}
        self._is_frozen = False
        self._tidied: asyncio.Future[int] | None = None
        self._pidfd: int | None = None
        self._pid = 0
        self._status: int | None = None  # as waitpid gives it
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[Exit] = self._loop.create_future()
        self._ending: asyncio.Task[None] | None = None
        report.setblocking(False)
        self._loop.add_reader(report.fileno(), self._on_report)  # a number: it may be removed twice

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def level(self) -> Level:
        return self._level

    async def ready(self) -> None:
        """Wait until all layers are in place.

        Raises LaunchError when one was refused; then nothing is left.
        """
        await asyncio.shield(self._ready)

    @property
    def alive(self) -> bool:
        return self._ending is None

    def go_at_once(self, environment: bytes) -> bool:
        """Set a blank context going if that takes no waiting.

        False: it has got nothing yet; `go` will wait, or say what is wrong.
        """
        if len(environment) > select.PIPE_BUF:  # up to there a write is all or nothing
            return False
        try:
            return os.write(self.writer, environment) > 0
        except OSError:
            return False

    async def go(self, environment: bytes) -> None:
        """Set a blank context going. Raises ContextLostError when it has ended meanwhile."""
        view = memoryview(environment)
        while view:
            try:
                view = view[os.write(self.writer, view) :]
            except BlockingIOError:
                await self._writable()
            except BrokenPipeError as error:
                raise ContextLostError("the context ended before it got going") from error

    async def _writable(self) -> None:
        free = asyncio.Event()
        self._loop.add_writer(self.writer, free.set)
        try:
            await free.wait()
        finally:
            self._loop.remove_writer(self.writer)

    async def terminate(self) -> None:
        self._tell(TERMINATE)

    async def kill(self) -> None:
        if not self._ended.done():
            self.set_frozen(frozen=False)
            if self._namespaces and self._pidfd is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            else:
                self._tell(KILL)
        await self.wait()

    async def wait(self) -> Exit:
        return await asyncio.shield(self._ended)

    def memory_bytes(self) -> int:
        return 0 if self._ended.done() else self._room.memory_bytes(self._pid)

    def oom_kills(self) -> int:
        return 0 if self._ended.done() else self._room.oom_kills()

    @property
    def is_metered(self) -> bool:
        return self._room.is_metered

    def tasks(self) -> int:
        return 0 if self._ended.done() else self._room.tasks(self._pid)

    def cpu_s(self) -> float:
        return 0.0 if self._ended.done() else self._room.cpu_s(self._pid)

    async def tidy(self, *, keep_children: bool) -> int:
        if self._ending is not None:
            return 0
        self._tidied = self._loop.create_future()
        self._tell(TIDY_BUT_CHILDREN if keep_children else TIDY)
        try:
            async with asyncio.timeout(_TIDY_S):
                return await self._tidied
        except TimeoutError:
            return max(self.tasks(), 1)

    def set_frozen(self, *, frozen: bool) -> bool:
        if frozen == self._is_frozen:
            return True
        if not self._room.set_frozen(frozen=frozen):
            return False
        self._is_frozen = frozen
        return True

    async def discard(self) -> None:
        """Kill and close, even if the caller is cancelled meanwhile."""
        await asyncio.shield(self.kill())
        self.close()

    def on_end(self, callback: Callable[["SandboxedChild"], None]) -> None:
        self._ended.add_done_callback(lambda _: callback(self))

    def _tell(self, word: bytes) -> None:
        with contextlib.suppress(OSError):  # it has ended already
            self._report.send(word)

    def _on_report(self) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._report, REPORT_BYTES, 2)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if data:
            self._note(json.loads(data), fds)  # init and the code before the tenant's write here, no tenant does
            return
        self._loop.remove_reader(self._report.fileno())  # every process that could report is gone
        if self._pidfd is None:
            self._on_gone()

    def _note(self, message: dict[str, Any], fds: Sequence[int]) -> None:
        if "init" in message:
            self._pidfd = fds[0]
            self._pid = _pid_of(fds[0])
            self._loop.add_reader(self._pidfd, self._on_gone)
            if len(fds) > 1:
                self._listener = socket.socket(fileno=fds[1])
        elif "ready" in message and not self._ready.done():
            self._ready.set_result(None)
        elif "failed" in message and not self._ready.done():
            self._ready.set_exception(LaunchError(f"the context could not be isolated: {message['failed']}"))
        elif "unstartable" in message and not self._ready.done():
            self._ready.set_exception(ProgramError(message["unstartable"]))
        elif "tidied" in message and self._tidied is not None and not self._tidied.done():
            self._tidied.set_result(message["tidied"])
        elif "exit" in message:
            self._status = message["exit"]

    def _on_gone(self) -> None:
        if self._ending is None:
            if self._pidfd is not None:
                self._loop.remove_reader(self._pidfd)
                self._drain_report()
            self._ending = self._loop.create_task(self._end())

    def _drain_report(self) -> None:
        """The context may have reported just before it went, and the two events come in any order."""
        with contextlib.suppress(OSError):
            while data := self._report.recv(REPORT_BYTES):
                self._note(json.loads(data), ())

    async def _end(self) -> None:
        self._loop.remove_reader(self._report.fileno())
        self._report.close()
        if (listener := self.take_listener()) is not None:
            listener.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        if self._tidied is not None and not self._tidied.done():
            self._tidied.set_result(0)
        if not self._ready.done():
            self._ready.set_exception(ContextLostError("the context ended before it was ready"))
        self._ready.exception()  # seen, even if nobody waits for it
        code = -signal.SIGKILL if self._status is None else os.waitstatus_to_exitcode(self._status)
        oom = False
        try:
            oom = await asyncio.to_thread(self._room.give_back)
        except OSError:  # the context is over all the same, and whoever waits for it must know
            logger.exception("what context %d occupied could not be given back", self._pid)
        finally:
            self._ended.set_result(
                Exit(status=code, signal=None, oom=oom) if code >= 0 else Exit(status=None, signal=-code, oom=oom)
            )


_FDINFO_BYTES: Final = 4096


def _pid_of(pidfd: int) -> int:
    """The pid behind a pidfd as this process sees it; -1 when it has just ended."""
    fd = os.open(f"/proc/self/fdinfo/{pidfd}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for line in os.pread(fd, _FDINFO_BYTES, 0).decode().splitlines():
            if line.startswith("Pid:"):
                return int(line.split()[1])
    finally:
        os.close(fd)
    return -1
