"""The seam between the engines and the isolation: what to start, and what one gets back.

Values and protocols only. An engine says in a `LaunchSpec` which program it needs for which tenant; a
`Launcher` (`runner.plain` without isolation, `runner.sandbox` with it) starts it and returns a `Child`.
Neither side knows more about the other. Nothing here reads a message of the child: what travels over the
channel belongs to the engines.

In the child the channel is two pipes: requests arrive on `REQUEST_FD`, replies leave on `REPLY_FD`.
Descriptor 0 is `/dev/null`, 1 and 2 are the log pipe, and no other descriptor is open. So whatever a tenant's
program or its children print is log text, and it cannot be mistaken for a reply by accident (on purpose it
can: replies are hostile input).
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final, Protocol

REQUEST_FD: Final = 3
REPLY_FD: Final = 4
PROXY_PORT: Final = 3128
"""Where a context with `egress` finds the proxy: on the loopback interface of a network that is its own."""
FOLDER_VARIABLE: Final = "FUNCTORY_HANDLER"
"""In the environment of a context whose handler is a folder: where that is."""


class Level(IntEnum):
    """How far a context is isolated; docs/isolation.md says what each level promises."""

    L0 = 0  # nothing
    L1 = 1  # uid, Landlock, seccomp, rlimits
    L2 = 2  # namespaces and seccomp
    L3 = 3  # namespaces, seccomp and cgroups

    __hash__ = int.__hash__
    """That of an enumeration is a call of Python for each job that passes."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one context: of its whole process tree where the level can count a tree, else per process."""

    memory_bytes: int
    processes: int
    open_files: int
    file_bytes: int  # the biggest file that can be written
    scratch_bytes: int  # all of the writable scratch space together
    cpu_s: int = 0  # hard backstop for a spinning process; 0 = none
    reserved_bytes: int = 0  # that a program reserves and need not use: more than memory_bytes where those are counted


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """One context to start.

    A part of `argv` that is a Path is a file or folder of this machine; the context is handed it, and the program gets
    the place where it finds it, which need not be the same. So is `readable`, for what the program is not told of.

    With `template` the context is forked from that warm process instead of exec'ing `argv`. For "python",
    `argv` is still what would have been run, `(python, "-IS", file, *args)`: the fork runs `file` as
    `__main__` with `sys.argv == [file, *args]`. A file that defines `prepare` may find itself prepared before its
    context is wanted: `prepare()` does what needs neither the environment nor a tenant and returns the rest as a
    function; run as `__main__`, such a file calls both. A launcher without that template execs `argv`; the program
    cannot tell the difference but by the time it took.
    """

    tenant: str
    argv: tuple[str | Path, ...]
    env: Mapping[str, str]  # the whole environment of the program; nothing is inherited
    limits: Limits
    network: bool = False
    egress: bool = False  # no network but a loopback interface with `PROXY_PORT`, where the child's listener listens
    serves: int = 0  # with `egress`: a port of that interface at which the program itself may listen
    readable: tuple[Path, ...] = ()  # read-only paths needed beyond the base runtime and `argv`
    template: str | None = None
    preload: tuple[Path, ...] = ()  # packages and modules among these that the template loads before it forks
    packages: Path | None = None  # the folder among these that a context finds at a place that is always the same
    tree: Path | None = None  # the files of the handler; the program is told where by FOLDER_VARIABLE


@dataclass(frozen=True, slots=True)
class Exit:
    """How a context ended: an exit status or a signal, and whether the memory limit was the cause."""

    status: int | None
    signal: int | None
    oom: bool = False


class Child(Protocol):
    """A running context. The caller owns the three descriptors, which `close()` gives back."""

    @property
    def pid(self) -> int:
        """Of the context's first process, as the daemon sees it."""

    @property
    def level(self) -> Level: ...

    @property
    def reader(self) -> int:
        """Replies of the child; non-blocking read end of a pipe."""

    @property
    def writer(self) -> int:
        """Requests to the child; non-blocking write end of a pipe."""

    @property
    def log_fd(self) -> int:
        """Plain text printed by the process tree; non-blocking read end of a pipe."""

    def take_listener(self) -> socket.socket | None:
        """With `egress`, and once: it listens in the network of the context, where nobody else can connect. From then
        on it is the caller's."""

    async def terminate(self) -> None:
        """Ask the whole tree to stop (SIGTERM). It may ignore that. No effect on one that has ended."""

    async def kill(self) -> None:
        """End the whole process tree and return when it is gone. Idempotent; nothing survives."""

    async def wait(self) -> Exit:
        """Wait for the first process to end and say how. May be awaited many times, and by several tasks."""

    def memory_bytes(self) -> int:
        """Memory used by the tree now; 0 when it has ended."""

    def oom_kills(self) -> int:
        """How many processes of the tree the kernel has ended for memory; 0 where that is not counted."""

    @property
    def is_metered(self) -> bool:
        """Whether the kernel counts for the tree, so that `cpu_s` is exact and next to free."""

    def tasks(self) -> int:
        """Processes and threads of the tree now, without what the launcher itself put there; 0 when it has ended."""

    def cpu_s(self) -> float:
        """Processor time that the tree has used so far."""

    async def tidy(self, *, keep_children: bool) -> int:
        """End every process but the program; with `keep_children` its own children stay, and none of theirs.

        Returns how many could not be ended. The program's threads are not touched.
        """

    def set_frozen(self, *, frozen: bool) -> bool:
        """Let no process of the tree run, or let them go on. False where the machine cannot. `kill` thaws first."""

    def close(self) -> None:
        """Close the three descriptors. Idempotent; does not end the child."""


class Launcher(Protocol):
    """Starts contexts. `close()` ends every one that is left; both `start` and `close` are idempotent."""

    @property
    def level(self) -> Level: ...

    async def start(self) -> None:
        """Get ready (templates, cgroups). Raises IsolationError when the machine cannot do what was asked."""

    async def launch(self, spec: LaunchSpec) -> Child:
        """Start one context. Raises LaunchError, and then nothing of it is left behind."""

    async def close(self) -> None: ...
