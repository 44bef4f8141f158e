"""What a context can see of the file system: the read-only root that bubblewrap makes for a spawner.

Owns the list of paths of the base runtime (programs, libraries, certificates, the python of contexts) and the command
line of bubblewrap. Beside them a context sees what it was handed (`handover`). Nothing else of the machine is there: no
home, no /var, no /run, no other tenant; and where packages were installed beside a language, an empty folder.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from runner.sandbox import installed
from runner.sandbox.handover import BASE_RUNTIME, HANDLER, ROOT, TREES, Handover
from runner.sandbox.interpreter import Interpreter

SCRATCH: Final = "/tmp"  # noqa: S108  # inside the sandbox, where it is the context's own tmpfs

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
_ACCOUNTS: Final = {
    "/etc/passwd": f"context:x:1000:1000::{SCRATCH}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n".encode(),
    "/etc/group": b"context:x:1000:\nnobody:x:65534:\n",
}
_CODE: Final = Path(__file__).resolve().parents[2]  # where `runner` is imported from
_CODE_INSIDE: Final = f"{ROOT}/code"
_SPAWNER_CAPABILITIES: Final = (
    "CAP_SYS_ADMIN",
    "CAP_SETUID",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SYS_RESOURCE",
    "CAP_DAC_READ_SEARCH",  # to load packages of a checkout that belongs to somebody else; no context keeps it
)


@dataclass(frozen=True, slots=True)
class View:
    """What contexts of one spawner can read beyond the base runtime, and whether they have the network or a proxy."""

    python: Interpreter
    given: tuple[Path, ...]
    network: bool
    egress: bool = False
    preload: tuple[Path, ...] = ()  # packages and modules among `given` that its contexts find loaded
    packages: Path | None = None  # of one tenant's handlers, among `given`
    trees: Path | None = None  # has the folders of handlers: each context gets one of them, and sees no other
    serves: int = 0  # with `egress`: where they may listen themselves

    def readable(self, handed: Handover, programs: tuple[str, ...]) -> tuple[str, ...]:
        """For Landlock; `programs` as `programs_in_sight` has them."""
        settings = (*_SETTINGS, *(_NETWORK_SETTINGS if self.network else ()), *_ACCOUNTS)
        return (*programs, *settings, *_DEVICES, *handed.places.values())

    def writable(self, scratch: str) -> tuple[str, ...]:
        return (scratch, "/dev/null", "/dev/zero", "/dev/full")


def programs_in_sight(python: Interpreter, *, own_root: bool) -> tuple[str, ...]:
    """Where contexts find programs and libraries. Reads directories: not for the event loop.

    /proc only where it is the context's own and does not show the machine's processes.
    """
    if own_root:
        return (*BASE_RUNTIME, *python.inside().prefixes, "/proc")
    return installed.without((*BASE_RUNTIME, *python.prefixes), installed.folders(python))


def spawner_command(view: View, handed: Handover, control_fd: int, *, own_root: bool) -> list[str]:
    python = view.python.inside() if own_root else view.python
    start = (
        f"import sys; sys.path.insert(0, {_CODE_INSIDE if own_root else str(_CODE)!r}); "
        "from runner.sandbox.inner.spawner import main; sys.path.pop(0); main()"
    )
    return [python.path, "-IS", "-c", start, str(control_fd), *handed.translate(view.preload)]


def copied_files(handed: Handover) -> dict[str, bytes]:
    """All that bubblewrap writes into the root of a spawner, by place. Reads our own code: not for the event loop."""
    code = {f"{_CODE_INSIDE}/{path.relative_to(_CODE)}": path.read_bytes() for path in _spawner_code()}
    return {**_ACCOUNTS, **code, **handed.copies}


def in_bubblewrap(
    command: list[str],
    view: View,
    handed: Handover,
    bwrap: str,
    copies: Mapping[str, int],
    *,
    own_uids: bool,
) -> list[str]:
    """`command` in a root of its own. It keeps the power to make namespaces, which it gives up in every
    context.

    `copies` are descriptors with the content of `copied_files`. With `own_uids`, which only root can give, each context
    will take a uid of its own; without, the power comes from a user namespace.
    """
    flags = ["--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    flags += ["--die-with-parent", "--new-session"]
    if not view.network:
        flags.append("--unshare-net")
    if not own_uids:
        flags.append("--unshare-user")
    for capability in (*_SPAWNER_CAPABILITIES, *(("CAP_NET_ADMIN",) if view.egress else ())):  # their own interface
        flags += ["--cap-add", capability]
    settings = _SETTINGS + (_NETWORK_SETTINGS if view.network else ())
    binds = {**{path: path for path in settings}, **view.python.binds(), **handed.binds}
    for parent in _parents((*binds, *_DEVICES, *copies)):  # left to itself, bubblewrap makes some of them for root only
        flags += ["--dir", parent]
    for path in BASE_RUNTIME:
        flags += _same_place(Path(path))
    for place, source in binds.items():
        flags += ["--ro-bind-try", source, place]
    for place in view.python.places(installed.folders(view.python)):
        flags += ["--tmpfs", place, "--remount-ro", place]
    if view.trees is not None:
        flags += ["--dir", HANDLER, "--ro-bind", str(view.trees), TREES]
    for place, fd in copies.items():
        flags += ["--perms", "0444", "--file", str(fd), place]
    flags += _devices()
    flags += ["--proc", "/proc", "--dir", SCRATCH, "--remount-ro", "/", "--chdir", "/"]
    return [bwrap, *flags, "--", *command]


def _devices() -> list[str]:
    binds = [word for path in _DEVICES for word in ("--dev-bind", path, path)]
    return binds + [word for path, target in _DEVICE_LINKS.items() for word in ("--symlink", target, path)]


def _parents(paths: Iterable[str]) -> list[str]:
    """All directories above these paths, outermost first; not below /usr, which is bound as a whole."""
    above = {parent for path in paths for parent in Path(path).parents if not path.startswith("/usr/")}
    return [str(path) for path in sorted(above) if path != Path("/")]


def _same_place(path: Path) -> list[str]:
    if path.is_symlink():
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind-try", str(path), str(path)]


def _spawner_code() -> Iterable[Path]:
    sandbox = _CODE / "runner" / "sandbox"
    return (_CODE / "runner" / "__init__.py", sandbox / "__init__.py", *sorted((sandbox / "inner").glob("*.py")))
