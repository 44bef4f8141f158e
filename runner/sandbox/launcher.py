"""Starts isolated contexts: chooses the layers, keeps warm spawners and a stock of blank contexts.

A context that cannot get every layer that was chosen is not started. Contexts with the same view of the file
system share a spawner; a spawner that died is replaced at the next launch.
"""

import asyncio
import contextlib
import os
import shutil
import socket
from collections import Counter
from collections.abc import Hashable
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from runner.egress import needs_own_network
from runner.errors import ContextLostError, IsolationError, LaunchError
from runner.launch import FOLDER_VARIABLE, PROXY_PORT, LaunchSpec, Level
from runner.pipes import close_all, open_pipes, undisturbed
from runner.sandbox import cgroups, handover, installed, interpreter, layers, rlimits, runtime, seccomp
from runner.sandbox.child import SandboxedChild
from runner.sandbox.handover import Handover, Stage
from runner.sandbox.inner import kernel, landlock
from runner.sandbox.inner.order import Order, pack_environment
from runner.sandbox.interpreter import Interpreter
from runner.sandbox.kinds import Kind, TreeIdentity, kind_of
from runner.sandbox.layers import Layer
from runner.sandbox.room import Room
from runner.sandbox.runtime import View
from runner.sandbox.spawner import Spawner
from runner.sandbox.stock import Stock
from runner.sandbox.uids import DEFAULT_BASE, UidRange, Uids

_BYTES_PER_FILE: Final = 4096  # scratch space is bounded in files too, or empty ones would fill the memory
_MIN_FILES: Final = 64
_STOCKED_KINDS: Final = 8
_TENANTS_KINDS: Final = 16
_KNOWN_KINDS: Final = 256
_PACKAGED_SPAWNERS: Final = 16
_WATCH_S: Final = 5.0


class SandboxLauncher:
    """The launcher of the daemon. `use` are the layers; by default all that the machine can give.

    `proven` is the level that a probe has found; contexts never claim a higher one.
    `python` is what python contexts are forked from; by default the one of the daemon, or of the system where
    the uids of contexts cannot reach that one. `spares` blank contexts are kept ready of each kind that was
    launched lately. `memory_bytes` is what all contexts together may use, where there are cgroups.
    """

    def __init__(
        self,
        use: AbstractSet[Layer] | None = None,
        *,
        python: Interpreter | None = None,
        proven: Level | None = None,
        spares: int = 1,
        uid_base: int = DEFAULT_BASE,
        memory_bytes: int | None = None,
    ) -> None:
        self._use = use
        self._python = python
        self._programs: tuple[str, ...] = ()
        self._proven = proven
        self._memory_bytes = memory_bytes
        self._uid_base = uid_base
        self._uid_range: UidRange | None = None
        self._uids = Uids(uid_base)
        self._cgroups: cgroups.Cgroups | None = None
        self._bwrap: str | None = None
        self._stage: Stage | None = None
        self._spawners: dict[View, asyncio.Task[Spawner]] = {}
        self._stock: Stock[Kind] = Stock(self._make, spares=spares, kinds=_STOCKED_KINDS)
        # Of kinds that belong to a tenant: they do not push out those that all tenants use.
        self._tenants_stock: Stock[Kind] = Stock(self._make, spares=spares, kinds=_TENANTS_KINDS, watch_s=_WATCH_S)
        self._living: Counter[View] = Counter()  # contexts, blank ones and those in the making included
        self._children: set[SandboxedChild] = set()
        self._kinds: dict[Hashable, Kind] = {}  # by the parts of a LaunchSpec
        self._made = 0
        self._with_folder: Counter[Path] = Counter()  # the same, by the folder of their handler
        self._staging = asyncio.Lock()
        self._clearing: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def layers(self) -> frozenset[Layer]:
        """Those in use; none before `start` when they were left to the machine."""
        return frozenset(self._use or ())

    @property
    def level(self) -> Level:
        level = layers.level_of(self.layers)
        return level if self._proven is None else min(level, self._proven)

    async def start(self) -> None:
        if self._use is None:
            self._use = layers.available(await asyncio.to_thread(layers.detect))
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # the daemon's memory and environment are nobody's business
        if self._python is None:
            self._python = await asyncio.to_thread(
                interpreter.choose, own_root=Layer.NAMESPACES in self._use, other_uid=Layer.UID in self._use
            )
        self._programs = await asyncio.to_thread(
            runtime.programs_in_sight, self._python, own_root=Layer.NAMESPACES in self._use
        )
        if Layer.NAMESPACES in self._use:
            self._bwrap = await asyncio.to_thread(shutil.which, "bwrap")
            if self._bwrap is None:
                raise IsolationError("namespaces were asked for, and bubblewrap is not installed")
        if Layer.UID in self._use and self._stage is None:
            self._stage = Stage()
        await asyncio.to_thread(handover.sweep)
        if Layer.UID in self._use and os.geteuid() != 0:
            raise IsolationError("a uid per context was asked for, and only root can give it")
        if Layer.UID in self._use and self._uid_range is None:
            self._uid_range = await asyncio.to_thread(UidRange.reserve, self._uid_base)
            self._uids = Uids(self._uid_range.base)
        if Layer.CGROUP in self._use and self._cgroups is None:
            self._cgroups = await asyncio.to_thread(_open_cgroups, self._memory_bytes)

    async def prepare(self, spec: LaunchSpec) -> None:
        """Have a warm spawner and blank contexts for such launches, so that the first one does not wait."""
        kind = self._kind(spec, await _identity(spec))
        await self._spawner(kind.view)
        await self._stock_of(kind).fill(kind)

    async def launch(self, spec: LaunchSpec) -> SandboxedChild:
        try:
            kind = self._kind(spec, await _identity(spec))
            blank = self._stock_of(kind).take_ready(kind)
            if blank is not None and blank.go_at_once(_environment(blank, spec)):
                return blank  # as a rule: nothing was waited for, so nothing can be left half done
            return await undisturbed(self._launch(kind, spec, blank))
        except LaunchError as error:
            error.add_note(f"tenant {spec.tenant}, program {' '.join(map(str, spec.argv[:3]))}")
            raise

    async def _launch(self, kind: Kind, spec: LaunchSpec, blank: SandboxedChild | None) -> SandboxedChild:
        try:
            return await self._set_going(blank or await self._stock_of(kind).take(kind), spec)
        except ContextLostError:  # the spawner died, and its blank contexts with it; there will be a new one
            return await self._set_going(await self._stock_of(kind).take(kind), spec)

    def _stock_of(self, kind: Kind) -> Stock[Kind]:
        return self._tenants_stock if kind.is_tenants else self._stock

    async def _set_going(self, child: SandboxedChild, spec: LaunchSpec) -> SandboxedChild:
        try:
            await child.go(_environment(child, spec))
        except BaseException:
            await child.discard()
            raise
        return child

    def _kind(self, spec: LaunchSpec, tree: TreeIdentity | None = None) -> Kind:
        if self._python is None or self._closed:
            raise LaunchError("the launcher has not been started, or is closed")
        if any(not name or "=" in name for name in spec.env):
            raise LaunchError("a name in the environment is empty or has a '=' in it")
        if "\0" in "".join((*map(str, spec.argv), *spec.env, *spec.env.values())):
            raise LaunchError("there is a NUL character in the program or in the environment")
        if spec.egress and Layer.NAMESPACES not in self.layers:
            raise LaunchError(needs_own_network(self.level))
        parts = (
            *(spec.argv, spec.template, spec.limits, spec.readable, spec.network, spec.egress, spec.serves),
            *(spec.preload, spec.packages, tree),
        )
        kind = self._kinds.get(parts)
        if kind is None:
            if len(self._kinds) >= _KNOWN_KINDS:
                self._kinds.clear()
            kind = self._kinds[parts] = kind_of(spec, self._python, tree)
        return kind

    async def close(self) -> None:
        self._closed = True
        await asyncio.gather(self._stock.close(), self._tenants_stock.close())
        await asyncio.gather(*(child.kill() for child in tuple(self._children)))
        spawners, self._spawners = self._spawners, {}
        for task in spawners.values():
            with contextlib.suppress(LaunchError):
                await (await task).close()
        uid_range, self._uid_range = self._uid_range, None
        if uid_range is not None:
            uid_range.release()
        subtree, self._cgroups = self._cgroups, None
        if subtree is not None:
            await asyncio.to_thread(subtree.close)
        await self.tidied()
        if self._stage is not None:
            await asyncio.to_thread(self._stage.close)

    async def _make(self, kind: Kind) -> SandboxedChild:
        """A blank context with every layer in place."""
        self._living[kind.view] += 1
        if kind.tree is not None:
            self._with_folder[kind.tree.path] += 1
        try:
            child = await self._make_one(kind)
        except BaseException:
            self._gone(kind)
            raise
        child.on_end(lambda _: self._gone(kind))
        return child

    def _gone(self, kind: Kind) -> None:
        self._living[kind.view] -= 1
        if not self._living[kind.view]:
            del self._living[kind.view]
        if kind.tree is not None:
            self._with_folder[kind.tree.path] -= 1
            if not self._with_folder[kind.tree.path]:
                del self._with_folder[kind.tree.path]
                self._clear_later(kind.tree.path)

    def _clear_later(self, path: Path) -> None:
        """Remove what was copied of it, if nobody needs it by then."""
        if self._stage is not None and not self._closed:
            task = asyncio.create_task(self._clear(path, self._stage), name="clear staged copies")
            self._clearing.add(task)
            task.add_done_callback(self._clearing.discard)

    async def _clear(self, path: Path, stage: Stage) -> None:
        async with self._staging:
            if path not in self._with_folder and not any(view.packages == path for view in self._spawners):
                await asyncio.to_thread(stage.drop, path)

    async def tidied(self) -> None:
        """Return when nothing lies about that contexts left which have ended."""
        await asyncio.gather(*self._clearing)

    async def _make_one(self, kind: Kind) -> SandboxedChild:
        spawner = await self._spawner(kind.view)
        self._made += 1
        room = Room(self._uids, self._uids.take() if Layer.UID in self.layers else None)
        own_directory = Layer.NAMESPACES not in self.layers
        try:
            await asyncio.to_thread(
                room.prepare, self._cgroups, str(self._made), kind.limits, own_directory=own_directory
            )
        except BaseException:
            await asyncio.shield(asyncio.to_thread(room.give_back))
            raise
        child, theirs = self._connect(room)
        try:
            try:
                order = await self._with_tree(self._order(kind, room, spawner.handed), kind.tree and kind.tree.path)
                if order.folder:
                    child.scratch_env[FOLDER_VARIABLE] = order.folder
                await spawner.send(order, theirs)
            finally:
                close_all(*theirs)
            await child.ready()
        except BaseException:
            await child.discard()
            raise
        if self._closed:
            await child.discard()
            raise LaunchError("the launcher was closed meanwhile")
        return child

    def _connect(self, room: Room) -> tuple[SandboxedChild, list[int]]:
        """The pipes of a context: our ends in a child, and the list of theirs, in the sequence of
        `inner.order`.
        """
        pipes, theirs = open_pipes()
        report, their_report = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        child = SandboxedChild(
            level=self.level,
            namespaces=Layer.NAMESPACES in self.layers,
            pipes=pipes,
            report=report,
            room=room,
        )
        self._children.add(child)
        child.on_end(self._children.discard)
        return child, [*theirs, their_report.detach(), *room.open_procs()]

    async def _spawner(self, view: View) -> Spawner:
        task = self._spawners.get(view)
        if task is not None and task.done():
            if task.exception() is not None:
                task = None
            elif not task.result().alive:
                if self._spawners.get(view) is task:
                    del self._spawners[view]
                await task.result().close()
                task = self._spawners.get(view)  # somebody else may have been faster
        if task is None and view.packages is not None:
            await self._make_way()
            task = self._spawners.get(view)
        if task is None:
            task = asyncio.create_task(self._start_spawner(view))
        self._spawners.pop(view, None)
        self._spawners[view] = task  # the last is the one that was used last
        return await asyncio.shield(task)

    async def _make_way(self) -> None:
        """End spawners with packages that were used longest ago, if there are many and nothing of theirs runs."""
        packaged = [view for view in self._spawners if view.packages is not None]
        for view in packaged[: max(0, len(packaged) - _PACKAGED_SPAWNERS + 1)]:
            if self._living[view] > self._tenants_stock.blanks(partial(_is_of, view)):
                continue
            blanks, task = self._tenants_stock.take_all(partial(_is_of, view)), self._spawners.pop(view)
            await asyncio.gather(*(child.discard() for child in blanks))
            with contextlib.suppress(LaunchError):
                await (await task).close()
            if view.packages is not None:
                self._clear_later(view.packages)

    async def _start_spawner(self, view: View) -> Spawner:
        try:
            async with self._staging:
                handed = await asyncio.to_thread(self._hand_over, view)
        except OSError as error:
            raise IsolationError(f"what contexts need cannot be handed to them: {error}") from error
        spawner = Spawner(
            view,
            handed,
            bwrap=self._bwrap,
            own_uids=Layer.UID in self.layers,
            clean_environment=Layer.ENVIRONMENT in self.layers,
            close_descriptors=Layer.DESCRIPTORS in self.layers,
        )
        await spawner.start()
        return spawner

    def _hand_over(self, view: View) -> Handover:
        if Layer.NAMESPACES in self.layers:
            return handover.into_own_root(view.given, self._stage, installed.folders(view.python), view.packages)
        return handover.in_sight(view.given, self._stage)

    def _order(self, kind: Kind, room: Room, handed: Handover) -> Order:
        use = self.layers
        view = kind.view
        namespaces = Layer.NAMESPACES in use
        limits = kind.limits
        return Order(
            argv=handed.translate(kind.argv),
            fork=kind.fork,
            scratch=room.scratch,
            scratch_bytes=limits.scratch_bytes,
            scratch_files=max(_MIN_FILES, limits.scratch_bytes // _BYTES_PER_FILE),
            network=view.network,
            proxy_port=PROXY_PORT if view.egress else 0,
            namespaces=namespaces,
            own_uid=room.uid,
            close_descriptors=Layer.DESCRIPTORS in use,
            rlimits=tuple(rlimits.of(limits, use)) if Layer.RLIMITS in use else (),
            landlock=Layer.LANDLOCK in use,
            readable=view.readable(handed, self._programs),
            writable=view.writable(room.scratch),
            seccomp=self._filter(view) if Layer.SECCOMP in use else "",
            serves=view.serves if view.egress else 0,
        )

    def _filter(self, view: View) -> str:
        namespaces = Layer.NAMESPACES in self.layers
        is_scoped = Layer.LANDLOCK in self.layers and landlock.keeps_unix_sockets()
        unix = namespaces and (is_scoped or not view.network)  # abstract names are those of a network namespace
        return seccomp.build(network=view.network, namespaces=namespaces, unix=unix, proxied=view.egress).hex()

    async def _with_tree(self, order: Order, tree: Path | None) -> Order:
        """With a root of its own a context has the folder at a fixed place; otherwise where it lies, or a copy that its
        uid can read."""
        if tree is None:
            return order
        if order.namespaces:
            readable = (*order.readable, handover.HANDLER)
            return replace(order, tree=tree.name, trees=handover.TREES, folder=handover.HANDLER, readable=readable)
        async with self._staging:
            handed = await asyncio.to_thread(handover.in_sight, [tree], self._stage)
        return replace(order, folder=handed.places[tree], readable=(*order.readable, handed.places[tree]))


async def _identity(spec: LaunchSpec) -> TreeIdentity | None:
    return None if spec.tree is None else await asyncio.to_thread(TreeIdentity.of, spec.tree)


def _is_of(view: View, kind: Kind) -> bool:
    return kind.view == view


def _environment(child: SandboxedChild, spec: LaunchSpec) -> bytes:
    return pack_environment({**child.scratch_env, **spec.env})


def _open_cgroups(memory_bytes: int | None) -> cgroups.Cgroups:
    try:
        found = cgroups.find()
        found.open(memory_bytes=memory_bytes)
    except OSError as error:
        raise IsolationError(f"cgroups were asked for, and cannot be made: {error}") from error
    return found
