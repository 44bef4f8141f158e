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

from runner.egress import needs_own_network
from runner.errors import LaunchError
from runner.launch import FOLDER_VARIABLE, REPLY_FD, REQUEST_FD, Exit, LaunchSpec, Level, Limits
from runner.pipes import PipedChild, close_all, open_pipes, undisturbed
from runner.sandbox import processes

# The pipes arrive as 0, 1 and 2, the only numbers that every sh can move, and go to where the program expects
# them. sh because it is everywhere, and because running python code between fork and exec is unsafe in a
# threaded daemon.
_PLACE: Final = f'exec {REQUEST_FD}<&0 {REPLY_FD}>&1 0</dev/null 1>&2; exec "$@"'


class PlainChild(PipedChild):
    """A subprocess in a process group and a scratch directory of its own."""

    def __init__(self, process: Process, pipes: tuple[int, int, int], scratch: str) -> None:
        super().__init__(*pipes)
        self._process = process
        self._scratch = scratch
        self._ended = asyncio.create_task(self._end())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def level(self) -> Level:
        return Level.L0

    async def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    async def kill(self) -> None:
        self._signal(signal.SIGKILL)
        await self.wait()

    async def wait(self) -> Exit:
        return await asyncio.shield(self._ended)

    def memory_bytes(self) -> int:
        return 0 if self._ended.done() else processes.tree_bytes(self._process.pid)

    def oom_kills(self) -> int:
        return 0

    @property
    def is_metered(self) -> bool:
        return False

    def tasks(self) -> int:
        return 0 if self._ended.done() else processes.tree_tasks(self._process.pid)

    def cpu_s(self) -> float:
        return 0.0 if self._ended.done() else processes.tree_cpu_s(self._process.pid)

    async def tidy(self, *, keep_children: bool) -> int:
        """As far as the tree shows them; one whose parent has ended is somebody else's child by now."""
        if not self._ended.done():
            await asyncio.to_thread(processes.kill_below, self._process.pid, keep_children=keep_children)
        return 0

    def set_frozen(self, *, frozen: bool) -> bool:  # noqa: ARG002
        return False

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
        if spec.egress:
            raise LaunchError(needs_own_network(self.level))
        return await undisturbed(self._start(spec))

    async def _start(self, spec: LaunchSpec) -> PlainChild:
        scratch = await asyncio.to_thread(tempfile.mkdtemp, prefix="functory-")
        ours, theirs = open_pipes()
        request_read, reply_write, log_write = theirs
        try:
            process = await asyncio.create_subprocess_exec(
                "/bin/sh", "-c", _PLACE, "sh", *map(str, spec.argv),
                stdin=request_read, stdout=reply_write, stderr=log_write,
                env=_environment(scratch, spec), cwd=scratch,
                start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            close_all(*ours)
            await asyncio.to_thread(shutil.rmtree, scratch, ignore_errors=True)
            raise LaunchError(f"{spec.argv[0]}: {error}") from error
        finally:
            close_all(*theirs)
        _limit(process.pid, spec.limits)
        child = PlainChild(process, ours, scratch)
        self._children.add(child)
        child.on_end(self._children.discard)
        return child

    async def close(self) -> None:
        await asyncio.gather(*(child.kill() for child in tuple(self._children)))


def _environment(scratch: str, spec: LaunchSpec) -> dict[str, str]:
    folder = {} if spec.tree is None else {FOLDER_VARIABLE: str(spec.tree)}
    return {"HOME": scratch, "TMPDIR": scratch, **spec.env, **folder}


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
