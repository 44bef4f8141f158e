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
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from runner.errors import ContextLostError, LaunchError
from runner.launch import Exit, Level
from runner.sandbox.inner.order import KILL, REPORT_BYTES, TERMINATE

logger = logging.getLogger(__name__)

Cleanup = Callable[[], Awaitable[bool]]  # gives back what the context had; True when it was killed for its memory


class SandboxedChild:
    """One running context; made by `SandboxLauncher.launch` only."""

    def __init__(
        self,
        *,
        level: Level,
        namespaces: bool,
        pipes: tuple[int, int, int],
        report: socket.socket,
        scratch: str,
        memory: Callable[[int], int],
        cleanup: Cleanup,
    ) -> None:
        self._level = level
        self._namespaces = namespaces
        self._reader, self._writer, self._log_fd = pipes
        self._pipes_open = True
        self._report = report
        self.scratch_env = {"HOME": scratch, "TMPDIR": scratch}
        self._memory = memory
        self._cleanup = cleanup
        self._pidfd: int | None = None
        self._pid = 0
        self._status: int | None = None  # as waitpid gives it
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[Exit] = self._loop.create_future()
        self._ending: asyncio.Task[None] | None = None
        report.setblocking(False)
        self._loop.add_reader(report, self._on_report)

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def level(self) -> Level:
        return self._level

    @property
    def reader(self) -> int:
        return self._reader

    @property
    def writer(self) -> int:
        return self._writer

    @property
    def log_fd(self) -> int:
        return self._log_fd

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
            return os.write(self._writer, environment) > 0
        except OSError:
            return False

    async def go(self, environment: bytes) -> None:
        """Set a blank context going. Raises ContextLostError when it has ended meanwhile."""
        view = memoryview(environment)
        while view:
            try:
                view = view[os.write(self._writer, view) :]
            except BlockingIOError:
                await self._writable()
            except BrokenPipeError as error:
                raise ContextLostError("the context ended before it got going") from error

    async def _writable(self) -> None:
        free = asyncio.Event()
        self._loop.add_writer(self._writer, free.set)
        try:
            await free.wait()
        finally:
            self._loop.remove_writer(self._writer)

    async def terminate(self) -> None:
        self._tell(TERMINATE)

    async def kill(self) -> None:
        if not self._ended.done():
            if self._namespaces and self._pidfd is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            else:
                self._tell(KILL)
        await self.wait()

    async def wait(self) -> Exit:
        return await asyncio.shield(self._ended)

    def memory_bytes(self) -> int:
        return 0 if self._ended.done() else self._memory(self._pid)

    def close(self) -> None:
        if self._pipes_open:
            self._pipes_open = False
            for fd in (self._reader, self._writer, self._log_fd):
                os.close(fd)

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
            data, fds, _, _ = socket.recv_fds(self._report, REPORT_BYTES, 1)
        except BlockingIOError:
            return
        except OSError:
            data, fds = b"", []
        if data:
            self._note(json.loads(data), fds)  # init and the code before the tenant's write here, no tenant does
            return
        self._loop.remove_reader(self._report)  # every process that could report is gone
        if self._pidfd is None:
            self._on_gone()

    def _note(self, message: dict[str, Any], fds: Sequence[int]) -> None:
        if "init" in message:
            self._pidfd = fds[0]
            self._pid = _pid_of(fds[0])
            self._loop.add_reader(self._pidfd, self._on_gone)
        elif "ready" in message and not self._ready.done():
            self._ready.set_result(None)
        elif "failed" in message and not self._ready.done():
            self._ready.set_exception(LaunchError(f"the context could not be isolated: {message['failed']}"))
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
        self._loop.remove_reader(self._report)
        self._report.close()
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        if not self._ready.done():
            self._ready.set_exception(ContextLostError("the context ended before it was ready"))
        self._ready.exception()  # seen, even if nobody waits for it
        code = -signal.SIGKILL if self._status is None else os.waitstatus_to_exitcode(self._status)
        oom = False
        try:
            oom = await self._cleanup()
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
