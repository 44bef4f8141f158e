"""The launcher without isolation (L0): a plain subprocess. Only for an operator who trusts all tenants, and
for tests.

It keeps the rest of the promise of `runner.launch`: the same descriptors, no inherited environment, limits of
size where rlimits can give them, and an end of the whole process group. What left its group, survives.
"""

import asyncio
import contextlib
import os
import resource
import shutil
import signal
import tempfile
from asyncio.subprocess import Process
from collections.abc import Callable
from typing import Final

from runner.errors import LaunchError
from runner.launch import REPLY_FD, REQUEST_FD, Exit, LaunchSpec, Level, Limits
from runner.sandbox.memory import tree_bytes

# The pipes arrive as 0, 1 and 2, the only numbers that every sh can move, and go to where the program expects
# them. sh because it is everywhere, and because running python code between fork and exec is unsafe in a
# threaded daemon.
_PLACE: Final = f'exec {REQUEST_FD}<&0 {REPLY_FD}>&1 0</dev/null 1>&2; exec "$@"'


class PlainChild:
    """A subprocess in a process group and a scratch directory of its own."""

    def __init__(self, process: Process, pipes: tuple[int, int, int], scratch: str) -> None:
        self._process = process
        self._reader, self._writer, self._log_fd = pipes
        self._pipes_open = True
        self._scratch = scratch
        self._ended = asyncio.create_task(self._end())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def level(self) -> Level:
        return Level.L0

    @property
    def reader(self) -> int:
        return self._reader

    @property
    def writer(self) -> int:
        return self._writer

    @property
    def log_fd(self) -> int:
        return self._log_fd

    async def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    async def kill(self) -> None:
        self._signal(signal.SIGKILL)
        await self.wait()

    async def wait(self) -> Exit:
        return await asyncio.shield(self._ended)

    def memory_bytes(self) -> int:
        return 0 if self._ended.done() else tree_bytes(self._process.pid)

    def close(self) -> None:
        if self._pipes_open:
            self._pipes_open = False
            for fd in (self._reader, self._writer, self._log_fd):
                os.close(fd)

    def on_end(self, callback: Callable[["PlainChild"], None]) -> None:
        self._ended.add_done_callback(lambda _: callback(self))

    def _signal(self, number: int) -> None:
        if not self._ended.done():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    async def _end(self) -> Exit:
        code = await self._process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # what it left behind in its group
        await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)
        return Exit(status=code, signal=None) if code >= 0 else Exit(status=None, signal=-code)


class PlainLauncher:
    """Starts plain subprocesses."""

    def __init__(self) -> None:
        self._children: set[PlainChild] = set()

    @property
    def level(self) -> Level:
        return Level.L0

    async def start(self) -> None:
        """Nothing to get ready."""

    async def launch(self, spec: LaunchSpec) -> PlainChild:
        task = asyncio.create_task(self._start(spec))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:  # what has begun is finished and then undone, or parts of it would stay
            with contextlib.suppress(LaunchError):
                child = await task
                await child.kill()
                child.close()
            raise

    async def _start(self, spec: LaunchSpec) -> PlainChild:
        scratch = await asyncio.to_thread(tempfile.mkdtemp, prefix="functory-")
        request_read, request_write = os.pipe2(os.O_CLOEXEC)
        reply_read, reply_write = os.pipe2(os.O_CLOEXEC)
        log_read, log_write = os.pipe2(os.O_CLOEXEC)
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", _PLACE, "sh", *spec.argv,
                stdin=request_read, stdout=reply_write, stderr=log_write,
                env={"HOME": scratch, "TMPDIR": scratch, **spec.env}, cwd=scratch,
                start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            for fd in (request_write, reply_read, log_read):
                os.close(fd)
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
            raise LaunchError(f"{spec.argv[0]}: {error}") from error
        finally:
            for fd in (request_read, reply_write, log_write):
                os.close(fd)
        _limit(process.pid, spec.limits)
        for fd in (request_write, reply_read, log_read):
            os.set_blocking(fd, False)
        child = PlainChild(process, (reply_read, request_write, log_read), scratch)
        self._children.add(child)
        child.on_end(self._children.discard)
        return child

    async def close(self) -> None:
        await asyncio.gather(*(child.kill() for child in tuple(self._children)))


def _limit(pid: int, limits: Limits) -> None:
    """From outside, as far as that goes: there is nothing between fork and exec here that could do it."""
    chosen = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: limits.open_files,
        resource.RLIMIT_FSIZE: limits.file_bytes,
    }
    if limits.cpu_s:
        chosen[resource.RLIMIT_CPU] = limits.cpu_s
    with contextlib.suppress(ProcessLookupError):
        for number, value in chosen.items():
            resource.prlimit(pid, number, (value, value))
