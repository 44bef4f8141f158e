"""One cgroup per context, version 1 or 2: memory, number of processes and processor time of the whole tree, and why it
was killed.

Owns a subtree named after this process below the daemon's own cgroup, and removes it. The subtree bounds the memory of
all contexts together, and weighs less than the daemon where they want the same processor. It never touches a limit of
the cgroup that it found itself in. Memory and pids are required; what else the machine has of processor and freezer is
used. Creating and removing is file access: call it outside the event loop. Readings are of kernel memory.
"""

import contextlib
import errno
import itertools
import os
import re
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.errors import LaunchError
from runner.sandbox import leftovers

_PREFIX: Final = "functory-"
_REQUIRED: Final = ("memory", "pids")
_OPTIONAL: Final = ("cpu", "cpuacct", "freezer")
_CONTROLLERS: Final = _REQUIRED + _OPTIONAL
_REMOVE_DEADLINE_S: Final = 5.0
_READ_BYTES: Final = 1024
_OOM_KILLS: Final = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)
_CORES: Final = os.cpu_count() or 1
_serial = itertools.count(1)  # one process may have several launchers


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where a version keeps what; optional files exist on some machines only."""

    memory_max: str
    memory_now: str
    oom_kills: str
    optional: tuple[tuple[str, str], ...]  # (file of the memory controller, value; {memory} is the limit)
    of_context: tuple[tuple[str, str], ...]  # the same, for one context and not for all together
    weight: tuple[str, str]  # (file of the cpu controller, value: on each core three quarters of what the daemon has)
    cpu_used: tuple[str, str, float]  # (controller, file, its unit in seconds)
    freeze: tuple[str, str, str, str]  # (controller, file, value that freezes, value that thaws)


V1: Final = Dialect(
    memory_max="memory.limit_in_bytes",
    memory_now="memory.usage_in_bytes",
    oom_kills="memory.oom_control",
    optional=(("memory.memsw.limit_in_bytes", "{memory}"), ("memory.swappiness", "0")),
    of_context=(),
    weight=("cpu.shares", str(768 * _CORES)),
    cpu_used=("cpuacct", "cpuacct.usage", 1e-9),
    freeze=("freezer", "freezer.state", "FROZEN", "THAWED"),
)
V2: Final = Dialect(
    memory_max="memory.max",
    memory_now="memory.current",
    oom_kills="memory.events",
    optional=(("memory.swap.max", "0"),),
    of_context=(("memory.oom.group", "1"),),
    weight=("cpu.weight", "75"),
    cpu_used=("memory", "cpu.stat", 1e-6),
    freeze=("memory", "cgroup.freeze", "1", "0"),
)


class Cgroup:
    """The cgroup of one context: a folder for each controller, or the same one for all of them."""

    def __init__(self, folders: Mapping[str, Path], dialect: Dialect) -> None:
        self._folders = folders
        self._dialect = dialect
        self._fds: dict[str, int] = {}

    @property
    def directories(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(self._folders.values()))

    def set_limits(self, *, memory_bytes: int, processes: int) -> None:
        _limit_memory(self._folders["memory"], memory_bytes, self._dialect)
        for name, value in self._dialect.of_context:
            with contextlib.suppress(OSError):
                (self._folders["memory"] / name).write_text(value)
        (self._folders["pids"] / "pids.max").write_text(str(processes))

    def open_procs(self) -> list[int]:
        """Writing "0" to each of these moves the writer in; the caller closes them."""
        flags = os.O_WRONLY | os.O_CLOEXEC
        return [os.open(directory / "cgroup.procs", flags) for directory in self.directories]

    def memory_bytes(self) -> int:
        """Memory charged to the tree now; 0 when it is gone."""
        return int(self._read("memory", self._dialect.memory_now) or 0)

    def tasks(self) -> int:
        """Processes and threads in it now, the context's init included."""
        return int(self._read("pids", "pids.current") or 0)

    def cpu_s(self) -> float:
        """Processor time that the tree has used; 0.0 where that is not counted."""
        controller, name, unit_s = self._dialect.cpu_used
        words = self._read(controller, name).split()
        if b"usage_usec" in words:
            words = words[words.index(b"usage_usec") + 1 :]
        return int(words[0]) * unit_s if words else 0.0

    def set_frozen(self, *, frozen: bool) -> bool:
        """Stop every process of the tree, or let them go on. False where the machine cannot."""
        controller, name, on, off = self._dialect.freeze
        try:
            fd = os.open(self._folders[controller] / name, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (KeyError, OSError):
            return False
        try:
            os.write(fd, (on if frozen else off).encode())
        except OSError:
            return False
        finally:
            os.close(fd)
        return True

    def oom_kills(self) -> int:
        """How often the kernel killed in here because the limit was reached."""
        found = _OOM_KILLS.search(self._read("memory", self._dialect.oom_kills))
        return int(found[1]) if found else 0

    def remove(self) -> None:
        """Remove it; its processes must have ended.

        Idempotent. What is still being torn down is waited for.
        """
        while self._fds:
            os.close(self._fds.popitem()[1])
        self.set_frozen(frozen=False)  # or what is left could not end
        for directory in self.directories:
            _remove(directory, time.monotonic() + _REMOVE_DEADLINE_S)

    def _read(self, controller: str, name: str) -> bytes:
        """What a file says now; nothing when it is gone. Kept open: these are read again and again."""
        fd = self._fds.get(name)
        try:
            if fd is None:
                fd = self._fds[name] = os.open(self._folders[controller] / name, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(fd, _READ_BYTES, 0)
        except (KeyError, OSError):
            return b""


class Cgroups:
    """The daemon's subtree, in which contexts get theirs. `folders` is where this process is, by controller."""

    def __init__(self, folders: Mapping[str, Path], dialect: Dialect) -> None:
        self._folders = dict(folders)
        self._dialect = dialect
        self._name = f"{_PREFIX}{leftovers.mark()}-{next(_serial)}"

    @property
    def version(self) -> int:
        return 1 if self._dialect is V1 else 2

    @property
    def controllers(self) -> tuple[str, ...]:
        return tuple(self._folders)

    def open(self, *, memory_bytes: int | None = None) -> None:
        """Make the subtree, after removing those of daemons that died; its contexts together get `memory_bytes`.

        Raises OSError when that is not allowed.
        """
        for base in self._bases():
            try:
                _sweep(base)
                self._make(base / self._name)
            except OSError:
                if base in (self._folders[controller] for controller in _REQUIRED):
                    raise
                self._folders = {key: folder for key, folder in self._folders.items() if folder != base}
        if memory_bytes is not None:
            _limit_memory(self._folders["memory"] / self._name, memory_bytes, self._dialect)
        if "cpu" in self._folders:
            name, value = self._dialect.weight
            with contextlib.suppress(OSError):
                (self._folders["cpu"] / self._name / name).write_text(value)

    def _bases(self) -> list[Path]:
        """Each once, and that of the freezer first: what is frozen does not end, and keeps the others from going."""
        first = [self._folders[key] for key in ("freezer",) if key in self._folders]
        return list(dict.fromkeys([*first, *self._folders.values()]))

    def _make(self, own: Path) -> None:
        own.mkdir(exist_ok=True)
        if self._dialect is V2:
            (own / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in self._folders))
        elif (hierarchy := own / "memory.use_hierarchy").exists():
            with contextlib.suppress(OSError):  # on already, and then it cannot be changed
                hierarchy.write_text("1")

    def create(self, name: str, *, memory_bytes: int, processes: int) -> Cgroup:
        cgroup = Cgroup({key: base / self._name / name for key, base in self._folders.items()}, self._dialect)
        try:
            for directory in cgroup.directories:
                directory.mkdir()
            cgroup.set_limits(memory_bytes=memory_bytes, processes=processes)
        except OSError as error:
            cgroup.remove()
            raise LaunchError(f"cgroup {name}: {error}; nothing was started") from error
        return cgroup

    def memory_bytes(self) -> int:
        """Memory charged to all contexts together."""
        try:
            return int((self._folders["memory"] / self._name / self._dialect.memory_now).read_text())
        except OSError:
            return 0

    def close(self) -> None:
        """Remove the subtree with all that is left in it. Idempotent."""
        for base in self._bases():
            _remove_tree(base / self._name)


def _limit_memory(folder: Path, memory_bytes: int, dialect: Dialect) -> None:
    (folder / dialect.memory_max).write_text(str(memory_bytes))
    for name, value in dialect.optional:
        with contextlib.suppress(OSError):  # no swap accounting, or an older kernel
            (folder / name).write_text(value.format(memory=memory_bytes))


def find() -> Cgroups:
    """The subtree for this process on this machine. Raises OSError that says what is missing."""
    mounts = dict(_mounts(Path("/proc/self/mountinfo").read_text()))
    paths = dict(_own_paths(Path("/proc/self/cgroup").read_text()))
    if all(controller in mounts for controller in _REQUIRED):
        there = [key for key in mounts if key in _CONTROLLERS]
        return Cgroups({key: _below(mounts[key], paths.get(key, "/")) for key in there}, V1)
    if "unified" in mounts:
        base = _below(mounts["unified"], paths.get("unified", "/"))
        return Cgroups(dict.fromkeys(_delegate(base), base), V2)
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


def _delegate(base: Path) -> tuple[str, ...]:
    """Version 2 has processes in leaves only: step aside into one, so that the controllers can be handed down. Returns
    those that are.
    """
    control = base / "cgroup.subtree_control"
    there = set((base / "cgroup.controllers").read_text().split())
    wanted = [controller for controller in ("memory", "pids", "cpu") if controller in there]
    if set(wanted) <= set(control.read_text().split()) and set(_REQUIRED) <= set(wanted):
        return tuple(wanted)
    missing = set(_REQUIRED) - there
    if missing:
        raise OSError(errno.EPERM, f"the controllers {', '.join(sorted(missing))} are not delegated to {base}")
    leaf = base / f"{_PREFIX}daemon"
    leaf.mkdir(exist_ok=True)
    (leaf / "cgroup.procs").write_text(str(os.getpid()))
    control.write_text(" ".join(f"+{controller}" for controller in wanted))
    return tuple(wanted)


def _sweep(base: Path) -> None:
    """Remove the subtrees of daemons that were killed: their processes died with them, the directories stayed."""
    for directory in base.glob(f"{_PREFIX}[0-9]*"):
        if leftovers.is_left_over(directory.name.removeprefix(_PREFIX)):
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
        if (directory / "freezer.state").exists():
            (directory / "freezer.state").write_text("THAWED")  # what is frozen does not die
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
