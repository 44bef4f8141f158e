"""A launcher without isolation (L0): for tests, and for operators who say that all their tenants are trusted."""

import asyncio
import contextlib
import fcntl
import os
import signal
from pathlib import Path

from runner.errors import LaunchError
from runner.launch import REPLY_FD, REQUEST_FD, Exit, LaunchSpec, Level


def _high(fd: int) -> int:
    """The same descriptor out of the way of those that the child expects."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(fd)
    return moved


class PlainChild:
    def __init__(self, pid: int, reader: int, writer: int, log_fd: int) -> None:
        self.pid = pid
        self.level = Level.L0
        self.reader, self.writer, self.log_fd = reader, writer, log_fd
        self._open = True
        loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[Exit] = loop.create_future()
        self._pidfd = os.pidfd_open(pid)
        loop.add_reader(self._pidfd, self._reap)

    def _reap(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        _, status = os.waitpid(self.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        self._exit.set_result(Exit(code, None) if code >= 0 else Exit(None, -code))

    async def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    async def kill(self) -> None:
        self._signal(signal.SIGKILL)
        await asyncio.shield(self._exit)

    async def wait(self) -> Exit:
        return await asyncio.shield(self._exit)

    def memory_bytes(self) -> int:
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, IndexError, ValueError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        if self._open:
            self._open = False
            for fd in (self.reader, self.writer, self.log_fd):
                os.close(fd)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


class PlainLauncher:
    level = Level.L0

    def __init__(self) -> None:
        self._children: list[PlainChild] = []

    async def start(self) -> None:
        return

    async def launch(self, spec: LaunchSpec) -> PlainChild:
        request, reply, log = os.pipe(), os.pipe(), os.pipe()
        theirs = [_high(request[0]), _high(reply[1]), _high(log[1])]
        ours = [reply[0], request[1], log[0]]
        null = _high(os.open(os.devnull, os.O_RDONLY))
        actions = [
            (os.POSIX_SPAWN_DUP2, null, 0),
            (os.POSIX_SPAWN_DUP2, theirs[2], 1),
            (os.POSIX_SPAWN_DUP2, theirs[2], 2),
            (os.POSIX_SPAWN_DUP2, theirs[0], REQUEST_FD),
            (os.POSIX_SPAWN_DUP2, theirs[1], REPLY_FD),
        ]
        try:
            pid = os.posix_spawn(spec.argv[0], spec.argv, dict(spec.env), file_actions=actions, setsid=True)
        except OSError as err:
            for fd in ours:
                os.close(fd)
            raise LaunchError(f"cannot start {spec.argv[0]}: {err}") from err
        finally:
            for fd in (*theirs, null):
                os.close(fd)
        for fd in ours:
            os.set_blocking(fd, False)
        child = PlainChild(pid, *ours)
        self._children.append(child)
        return child

    async def close(self) -> None:
        for child in self._children:
            await child.kill()
            child.close()
