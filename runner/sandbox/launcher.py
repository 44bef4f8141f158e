"""Starts isolated contexts: chooses the layers, keeps warm spawners, gives every context its cgroup, uid and pipes.

A context that cannot get every layer that was chosen is not started. Contexts with the same view of the file system
share a spawner; a spawner that died is replaced at the next launch.
"""

import asyncio
import contextlib
import os
import resource
import shutil
import socket
import tempfile
from collections.abc import Set
from pathlib import Path
from typing import Final

from runner.errors import IsolationError, LaunchError
from runner.launch import LaunchSpec, Level, Limits
from runner.sandbox import cgroups, layers, runtime, seccomp
from runner.sandbox.child import SandboxedChild
from runner.sandbox.inner import kernel
from runner.sandbox.inner.order import Order
from runner.sandbox.layers import Layer
from runner.sandbox.memory import tree_bytes
from runner.sandbox.runtime import SCRATCH, View
from runner.sandbox.spawner import Spawner
from runner.sandbox.uids import DEFAULT_BASE, Uids

_OVERHEAD_PROCESSES: Final = 2  # the context's init, and its usher while it starts
_BYTES_PER_FILE: Final = 4096  # scratch space is bounded in files too, or empty ones would fill the memory
_MIN_FILES: Final = 64
_LOCKED_BYTES: Final = 1 << 16


class SandboxLauncher:
    """The launcher of the daemon. `layers` are those to use; by default all that the machine can give."""

    def __init__(self, use: Set[Layer] | None = None, *, uid_base: int = DEFAULT_BASE) -> None:
        self._use = use
        self._uids = Uids(uid_base)
        self._cgroups: cgroups.Cgroups | None = None
        self._bwrap: str | None = None
        self._spawners: dict[View, asyncio.Task[Spawner]] = {}
        self._children: set[SandboxedChild] = set()
        self._started = 0

    @property
    def layers(self) -> frozenset[Layer]:
        return frozenset(self._use or ())

    @property
    def level(self) -> Level:
        return layers.level_of(self.layers)

    async def start(self) -> None:
        if self._use is None:
            self._use = layers.available(await asyncio.to_thread(layers.detect))
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # the daemon's memory and environment are nobody's business
        if Layer.NAMESPACES in self._use:
            self._bwrap = await asyncio.to_thread(shutil.which, "bwrap")
            if self._bwrap is None:
                raise IsolationError("namespaces were asked for, and bubblewrap is not installed")
        if Layer.UID in self._use and os.geteuid() != 0:
            raise IsolationError("a uid per context was asked for, and only root can give it")
        if Layer.CGROUP in self._use and self._cgroups is None:
            self._cgroups = await asyncio.to_thread(_open_cgroups)

    async def prepare(self, spec: LaunchSpec) -> None:
        """Have a warm spawner for launches like this one, so that the first of them does not wait for it."""
        await self._spawner(_view(spec))

    async def launch(self, spec: LaunchSpec) -> SandboxedChild:
        if self._use is None:
            raise LaunchError("the launcher has not been started")
        view = _view(spec)
        spawner = await self._spawner(view)
        self._started += 1
        name = f"{self._started}-{spec.tenant}"
        uid = self._uids.take() if Layer.UID in self._use else None
        room = _Room(self._uids, uid)
        ours: list[int] = []
        theirs: list[int] = []
        try:
            await asyncio.to_thread(room.prepare, self._cgroups, name, spec.limits, scratch=Layer.NAMESPACES not in self._use)
            child = self._make_child(room, ours, theirs)
        except BaseException:
            for fd in ours:
                os.close(fd)
            for fd in theirs:
                os.close(fd)
            await asyncio.shield(asyncio.to_thread(room.give_back))
            raise
        return await self._hand_over(child, spawner, self._order(spec, view, room), theirs)

    def _make_child(self, room: "_Room", ours: list[int], theirs: list[int]) -> SandboxedChild:
        request_read, request_write = os.pipe2(os.O_CLOEXEC)
        reply_read, reply_write = os.pipe2(os.O_CLOEXEC)
        log_read, log_write = os.pipe2(os.O_CLOEXEC)
        report, their_report = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours += [reply_read, request_write, log_read]
        theirs += [request_read, reply_write, log_write, their_report.detach(), *room.open_procs()]
        for fd in ours:
            os.set_blocking(fd, False)
        return SandboxedChild(
            level=self.level,
            namespaces=Layer.NAMESPACES in self.layers,
            pipes=(reply_read, request_write, log_read),
            report=report,
            memory=room.memory_bytes,
            cleanup=lambda: asyncio.to_thread(room.give_back),
        )

    async def _hand_over(
        self, child: SandboxedChild, spawner: Spawner, order: Order, theirs: list[int]
    ) -> SandboxedChild:
        self._children.add(child)
        child.on_end(self._children.discard)
        try:
            try:
                await spawner.send(order, theirs)
            finally:
                for fd in theirs:
                    os.close(fd)
            await child.ready()
        except BaseException:
            await asyncio.shield(child.kill())
            child.close()
            raise
        return child

    async def close(self) -> None:
        await asyncio.gather(*(child.kill() for child in tuple(self._children)))
        spawners, self._spawners = self._spawners, {}
        for task in spawners.values():
            with contextlib.suppress(LaunchError):
                await (await task).close()
        subtree, self._cgroups = self._cgroups, None
        if subtree is not None:
            await asyncio.to_thread(subtree.close)

    async def _spawner(self, view: View) -> Spawner:
        task = self._spawners.get(view)
        if task is not None and task.done() and (task.exception() is not None or not task.result().alive):
            task = None
        if task is None:
            task = asyncio.create_task(self._start_spawner(view))
            self._spawners[view] = task
        return await asyncio.shield(task)

    async def _start_spawner(self, view: View) -> Spawner:
        spawner = Spawner(
            view,
            bwrap=self._bwrap,
            clean_environment=Layer.ENVIRONMENT in self.layers,
            close_descriptors=Layer.DESCRIPTORS in self.layers,
        )
        await spawner.start()
        return spawner

    def _order(self, spec: LaunchSpec, view: View, room: "_Room") -> Order:
        use = self.layers
        own_ipc = Layer.NAMESPACES in use
        readable = (*view.readable(), "/proc") if own_ipc else view.readable()
        return Order(
            argv=spec.argv,
            env={"HOME": room.scratch, "TMPDIR": room.scratch, **spec.env},
            fork=spec.template == "python",
            scratch=room.scratch,
            scratch_bytes=spec.limits.scratch_bytes,
            scratch_files=max(_MIN_FILES, spec.limits.scratch_bytes // _BYTES_PER_FILE),
            network=spec.network,
            namespaces=own_ipc,
            own_uid=room.uid,
            close_descriptors=Layer.DESCRIPTORS in use,
            rlimits=tuple(self._rlimits(spec.limits)) if Layer.RLIMITS in use else (),
            landlock=Layer.LANDLOCK in use,
            readable=readable,
            writable=view.writable(room.scratch),
            seccomp=seccomp.build(network=spec.network, own_ipc=own_ipc).hex() if Layer.SECCOMP in use else "",
        )

    def _rlimits(self, limits: Limits) -> list[tuple[int, int]]:
        chosen = [
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NOFILE, limits.open_files),
            (resource.RLIMIT_FSIZE, limits.file_bytes),
            (resource.RLIMIT_MEMLOCK, _LOCKED_BYTES),
            (resource.RLIMIT_RTPRIO, 0),
        ]
        if self.layers & {Layer.UID, Layer.NAMESPACES}:  # else it would count every process of the daemon's user
            chosen.append((resource.RLIMIT_NPROC, limits.processes + _OVERHEAD_PROCESSES))
        if Layer.CGROUP not in self.layers:  # per process and without files, so second best
            chosen.append((resource.RLIMIT_DATA, limits.memory_bytes))
        if limits.cpu_s:
            chosen.append((resource.RLIMIT_CPU, limits.cpu_s))
        return chosen


class _Room:
    """What one context occupies on the machine, and gives back when it has ended."""

    def __init__(self, uids: Uids, uid: int | None) -> None:
        self._uids = uids
        self.uid = uid
        self.scratch = SCRATCH
        self._cgroup: cgroups.Cgroup | None = None

    def prepare(self, subtree: cgroups.Cgroups | None, name: str, limits: Limits, *, scratch: bool) -> None:
        if subtree is not None:
            self._cgroup = subtree.create(
                name, memory_bytes=limits.memory_bytes, processes=limits.processes + _OVERHEAD_PROCESSES
            )
        if scratch:
            self.scratch = tempfile.mkdtemp(prefix="functory-")
            if self.uid is not None:
                os.chown(self.scratch, self.uid, self.uid)

    def open_procs(self) -> list[int]:
        return [] if self._cgroup is None else self._cgroup.open_procs()

    def memory_bytes(self, pid: int) -> int:
        return tree_bytes(pid) if self._cgroup is None else self._cgroup.memory_bytes()

    def give_back(self) -> bool:
        """Ensures: cgroup, scratch and uid are free. Says whether the kernel killed for memory in the cgroup."""
        oom = False
        if self._cgroup is not None:
            oom = self._cgroup.oom_kills() > 0
            self._cgroup.remove()
        if self.scratch != SCRATCH:
            shutil.rmtree(self.scratch, ignore_errors=True)  # does not follow links; its processes have ended
        if self.uid is not None:
            self._uids.release(self.uid)
        return oom


def _view(spec: LaunchSpec) -> View:
    extra = {Path(os.path.abspath(path)) for path in spec.readable}  # noqa: PTH100  # links are kept as named
    if spec.template == "python":
        extra.add(Path(spec.argv[2]))
    return View(tuple(sorted(extra)), spec.network)


def _open_cgroups() -> cgroups.Cgroups:
    try:
        found = cgroups.find()
        found.open()
    except OSError as error:
        raise IsolationError(f"cgroups were asked for, and cannot be made: {error}") from error
    return found
