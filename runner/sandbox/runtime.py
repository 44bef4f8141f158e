"""What a context can see of the file system: the read-only root that bubblewrap makes for a spawner.

Owns the list of paths of the base runtime (programs, libraries, certificates, the python of this daemon) and
the command line of bubblewrap. Nothing else of the machine is there: no home, no /var, no /run, no other
tenant.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.sandbox.interpreter import Interpreter

SCRATCH: Final = "/tmp"  # noqa: S108  # inside the sandbox, where it is the context's own tmpfs

_PROGRAMS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS: Final = (
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/pki",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
)
_NETWORK_SETTINGS: Final = (
    "/etc/gai.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
)
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_DEVICE_LINKS: Final = {
    "/dev/fd": "/proc/self/fd",
    "/dev/stdin": "/proc/self/fd/0",
    "/dev/stdout": "/proc/self/fd/1",
    "/dev/stderr": "/proc/self/fd/2",
    "/dev/shm": SCRATCH,  # noqa: S108  # POSIX shared memory counts as scratch space
}
_PASSWD: Final = f"context:x:1000:1000::{SCRATCH}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"
_GROUP: Final = "context:x:1000:\nnobody:x:65534:\n"
_PACKAGE: Final = Path(__file__).resolve().parent
_SPAWNER_CAPABILITIES: Final = (
    "CAP_SYS_ADMIN",
    "CAP_SETUID",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SYS_RESOURCE",
)


@dataclass(frozen=True, slots=True)
class View:
    """The paths that contexts of one spawner can read, and whether they have the network."""

    python: Interpreter
    extra: tuple[Path, ...]
    network: bool
    preload: tuple[Path, ...] = ()  # packages and modules that its contexts find loaded

    def readable(self, *, own_proc: bool) -> tuple[str, ...]:
        """For Landlock.

        /proc only where it is the context's own and does not show the machine's processes.
        """
        settings = (*_SETTINGS, *(_NETWORK_SETTINGS if self.network else ()), "/etc/passwd", "/etc/group")
        proc = ("/proc",) if own_proc else ()
        return (*_PROGRAMS, *settings, *proc, *_DEVICES, *self.python.prefixes, *map(str, self.extra))

    def writable(self, scratch: str) -> tuple[str, ...]:
        return (scratch, "/dev/null", "/dev/zero", "/dev/full")


def spawner_command(view: View, control_fd: int) -> list[str]:
    root = str(_PACKAGE.parent.parent)
    start = (
        f"import sys; sys.path.insert(0, {root!r}); from runner.sandbox.inner.spawner import main; "
        "sys.path.pop(0); main()"
    )
    return [view.python.path, "-I", "-c", start, str(control_fd), *map(str, view.preload)]


def in_bubblewrap(command: list[str], view: View, bwrap: str, data_fds: tuple[int, int]) -> list[str]:
    """`command` in a root of its own. It keeps the power to make namespaces, which it gives up in every
    context.

    `data_fds` hold the texts of `passwd_and_group`.
    """
    flags = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    flags += ["--die-with-parent", "--new-session"]
    if not view.network:
        flags.append("--unshare-net")
    if os.geteuid() != 0:
        flags.append("--unshare-user")
    for capability in _SPAWNER_CAPABILITIES:
        flags += ["--cap-add", capability]
    settings = _SETTINGS + (_NETWORK_SETTINGS if view.network else ())
    paths = (*settings, *view.python.prefixes, *_own_code(), *map(str, view.extra))
    for parent in _parents((*paths, *_DEVICES)):  # left to itself, bubblewrap makes some of them for root only
        flags += ["--dir", parent]
    for path in _PROGRAMS:
        flags += _same_place(Path(path))
    for path in paths:
        flags += ["--ro-bind-try", path, path]
    for path, fd in zip(("/etc/passwd", "/etc/group"), data_fds, strict=True):
        flags += ["--ro-bind-data", str(fd), path]
    for path in _DEVICES:
        flags += ["--dev-bind", path, path]
    for path, target in _DEVICE_LINKS.items():
        flags += ["--symlink", target, path]
    flags += ["--proc", "/proc", "--dir", SCRATCH, "--remount-ro", "/", "--chdir", "/"]
    return [bwrap, *flags, "--", *command]


def passwd_and_group() -> tuple[bytes, bytes]:
    return _PASSWD.encode(), _GROUP.encode()


def _parents(paths: Iterable[str]) -> list[str]:
    """All directories above these paths, outermost first; not below /usr, which is bound as a whole."""
    above = {parent for path in paths for parent in Path(path).parents if not path.startswith("/usr/")}
    return [str(path) for path in sorted(above) if path != Path("/")]


def _same_place(path: Path) -> list[str]:
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind-try", str(path), str(path)]


def _own_code() -> Iterable[str]:
    return (str(_PACKAGE.parent / "__init__.py"), str(_PACKAGE / "__init__.py"), str(_PACKAGE / "inner"))
