"""One cgroup per context, version 1 or 2: memory and number of processes of the whole tree, and why it was
killed.

Owns a subtree named after this process below the daemon's own cgroup, and removes it. It never touches a
limit of the cgroup that it found itself in. All calls are short but are file access: call them outside the
event loop.
"""

import contextlib
import errno
import itertools
import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.errors import LaunchError

_PREFIX: Final = "functory-"
_CONTROLLERS: Final = ("memory", "pids")
_REMOVE_DEADLINE_S: Final = 5.0
_serial = itertools.count(1)  # one process may have several launchers


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where a version keeps what: `(controller, file)` each; optional files exist on some machines only."""

    memory_max: str
    memory_now: str
    oom_kills: str
    optional: tuple[tuple[str, str], ...]  # (file of the memory controller, value; {memory} is the limit)


V1: Final = Dialect(
    memory_max="memory.limit_in_bytes",
    memory_now="memory.usage_in_bytes",
    oom_kills="memory.oom_control",
    optional=(("memory.memsw.limit_in_bytes", "{memory}"), ("memory.swappiness", "0")),
)
V2: Final = Dialect(
    memory_max="memory.max",
    memory_now="memory.current",
    oom_kills="memory.events",
    optional=(("memory.swap.max", "0"), ("memory.oom.group", "1")),
)


class Cgroup:
    """The cgroup of one context."""

    def __init__(self, memory: Path, pids: Path, dialect: Dialect) -> None:
        self._memory = memory
        self._pids = pids
        self._dialect = dialect

    @property
    def directories(self) -> tuple[Path, ...]:
        return (self._memory,) if self._memory == self._pids else (self._memory, self._pids)

    def set_limits(self, *, memory_bytes: int, processes: int) -> None:
        (self._memory / self._dialect.memory_max).write_text(str(memory_bytes))
        (self._pids / "pids.max").write_text(str(processes))
        for name, value in self._dialect.optional:
            with contextlib.suppress(OSError):  # no swap accounting, or an older kernel
                (self._memory / name).write_text(value.format(memory=memory_bytes))

    def open_procs(self) -> list[int]:
        """Writing "0" to each of these moves the writer in; the caller closes them."""
        flags = os.O_WRONLY | os.O_CLOEXEC
        return [os.open(directory / "cgroup.procs", flags) for directory in self.directories]

    def memory_bytes(self) -> int:
        """Memory charged to the tree now; 0 when it is gone. Kernel memory only: safe on the event loop."""
        try:
            fd = os.open(self._memory / self._dialect.memory_now, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return 0
        try:
            return int(os.pread(fd, 64, 0))
        finally:
            os.close(fd)

    def oom_kills(self) -> int:
        """How often the kernel killed in here because the limit was reached."""
        try:
            text = (self._memory / self._dialect.oom_kills).read_text()
        except OSError:
            return 0
        found = re.search(r"^oom_kill (\d+)$", text, re.MULTILINE)
        return int(found[1]) if found else 0

    def remove(self) -> None:
        """Remove it; its processes must have ended.

        Idempotent. What is still being torn down is waited for.
        """
        for directory in self.directories:
            _remove(directory, time.monotonic() + _REMOVE_DEADLINE_S)


class Cgroups:
    """The daemon's subtree, in which contexts get theirs."""

    def __init__(self, memory: Path, pids: Path, dialect: Dialect) -> None:
        self._bases = {"memory": memory, "pids": pids}
        self._dialect = dialect
        self._name = f"{_PREFIX}{os.getpid()}-{next(_serial)}"

    @property
    def version(self) -> int:
        return 1 if self._dialect is V1 else 2

    def open(self) -> None:
        """Make the subtree, after removing those of daemons that died.

        Raises OSError when that is not allowed.
        """
        for base in set(self._bases.values()):
            _sweep(base)
            own = base / self._name
            own.mkdir(exist_ok=True)
            if self._dialect is V2:
                (own / "cgroup.subtree_control").write_text("+memory +pids")

    def create(self, name: str, *, memory_bytes: int, processes: int) -> Cgroup:
        directories = {key: base / self._name / name for key, base in self._bases.items()}
        cgroup = Cgroup(directories["memory"], directories["pids"], self._dialect)
        try:
            for directory in cgroup.directories:
                directory.mkdir()
            cgroup.set_limits(memory_bytes=memory_bytes, processes=processes)
        except OSError as error:
            cgroup.remove()
            raise LaunchError(f"cgroup {name}: {error}; nothing was started") from error
        return cgroup

    def close(self) -> None:
        """Remove the subtree with all that is left in it. Idempotent."""
        for base in set(self._bases.values()):
            _remove_tree(base / self._name)


def find() -> Cgroups:
    """The subtree for this process on this machine. Raises OSError that says what is missing."""
    mounts = dict(_mounts(Path("/proc/self/mountinfo").read_text()))
    paths = dict(_own_paths(Path("/proc/self/cgroup").read_text()))
    if all(controller in mounts for controller in _CONTROLLERS):
        bases = {key: _below(mounts[key], paths.get(key, "/")) for key in _CONTROLLERS}
        return Cgroups(bases["memory"], bases["pids"], V1)
    if "unified" in mounts:
        base = _below(mounts["unified"], paths.get("unified", "/"))
        _delegate(base)
        return Cgroups(base, base, V2)
    raise OSError("no cgroup file system with the controllers memory and pids is mounted")


def own_procs() -> list[str]:
    """The `cgroup.procs` files of this process's own cgroups: the way out of a context's, if it were open."""
    mounts = dict(_mounts(Path("/proc/self/mountinfo").read_text()))
    paths = dict(_own_paths(Path("/proc/self/cgroup").read_text()))
    return [str(_below(mount, paths.get(key, "/")) / "cgroup.procs") for key, mount in mounts.items()]


def _mounts(mountinfo: str) -> Iterator[tuple[str, tuple[str, Path]]]:
    """(controller, (root of the mount, mount point)); version 2 under the name "unified"."""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, (kind, _, options) = left.split(), right.split(maxsplit=2)
        if kind == "cgroup2":
            yield "unified", (fields[3], Path(fields[4]))
        elif kind == "cgroup":
            for controller in set(_CONTROLLERS) & set(options.split(",")):
                yield controller, (fields[3], Path(fields[4]))


def _own_paths(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield (controller or "unified"), path


def _below(mount: tuple[str, Path], path: str) -> Path:
    """The directory of cgroup `path`; in a container the mount shows only what is below its own root."""
    root, point = mount
    if root != "/" and path.startswith(root):
        path = path[len(root) :]
    return point / path.lstrip("/")


def _delegate(base: Path) -> None:
    """Version 2 has processes in leaves only: step aside into one, so that the controllers can be handed
    down.
    """
    control = base / "cgroup.subtree_control"
    if {"memory", "pids"} <= set(control.read_text().split()):
        return
    missing = {"memory", "pids"} - set((base / "cgroup.controllers").read_text().split())
    if missing:
        raise OSError(errno.EPERM, f"the controllers {', '.join(sorted(missing))} are not delegated to {base}")
    leaf = base / f"{_PREFIX}daemon"
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(str(os.getpid()))
    control.write_text("+memory +pids")


def _sweep(base: Path) -> None:
    """Remove the subtrees of daemons that were killed: their processes died with them, the directories
    stayed.
    """
    for directory in base.glob(f"{_PREFIX}[0-9]*"):
        pid = directory.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            with contextlib.suppress(OSError):  # the next start will try again
                _remove_tree(directory)


def _remove_tree(directory: Path) -> None:
    deadline = time.monotonic() + _REMOVE_DEADLINE_S
    if directory.is_dir():
        for child in directory.iterdir():
            if child.is_dir():
                _remove(child, deadline)
    _remove(directory, deadline)


def _kill_all(directory: Path) -> None:
    """A second line: whoever is still in the cgroup of a context that is over, has no business there."""
    with contextlib.suppress(OSError):
        for pid in (directory / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)


def _remove(directory: Path, deadline: float) -> None:
    while True:
        try:
            directory.rmdir()
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            _kill_all(directory)
            time.sleep(0.001)  # ended processes leave a moment after they are reported
        else:
            return
