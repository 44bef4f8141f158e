"""The warm process from which contexts are forked. It has never seen tenant code and holds nothing secret.

Started once per set of readable paths, inside a read-only root that bubblewrap makes (when the machine can).
For each order it forks; the fork takes the steps of `inner.confine` and becomes either the program of a
python context, in this already warm interpreter, or the program that `argv` names:

    spawner ── init (`inner.init`, first process of the context) ── program (the tenant's)

Each context reports on a socket of its own, so the spawner keeps no state about contexts and answers nothing.
The program, every layer in place, waits for its environment before it does anything: until then the context
is blank, and the daemon may keep it in stock.
"""

import gc
import importlib.util
import json
import os
import signal
import socket
import sys
from typing import Final

from runner.sandbox.inner import confine, init, kernel, programs
from runner.sandbox.inner.order import (
    FD_LOG,
    FD_ORDER,
    FD_REPLY,
    FD_REPORT,
    FD_REQUEST,
    FIXED_FDS,
    MAX_FDS,
    Order,
    read_environment,
)

REQUEST_FD: Final = 3  # as in `runner.launch`, which is not loaded into contexts
# What tenants import most; loaded once here, shared by every context.
PRELOAD: Final = (
    "abc", "array", "ast", "asyncio", "base64", "binascii", "bisect", "calendar", "collections", "contextlib",
    "copy", "csv", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "hashlib", "heapq",
    "hmac", "html", "io", "inspect", "itertools", "json", "logging", "math", "operator", "os", "random", "re",
    "secrets", "select", "shlex", "signal", "site", "socket", "statistics", "string", "struct", "subprocess",
    "tempfile", "textwrap", "threading", "time", "traceback", "types", "typing", "unicodedata",
    "urllib.parse", "uuid", "zlib",
)  # fmt: skip

_ANY_ENVIRONMENT: Final = {f"NAME_{number}": "x" * 64 for number in range(8)}


def main() -> None:
    """Serve orders until the daemon closes the control socket; in a forked context, run its program."""
    control = socket.socket(fileno=int(sys.argv[1]))
    control.set_inheritable(False)
    kernel.set_command_line("functory")
    kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel collects ended children: there is nothing to ask them
    os.umask(0o077)
    for name in PRELOAD:
        __import__(name)
    for path in sys.argv[2:]:
        _load(path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "runner"]:
        del sys.modules[name]  # contexts have no business with them
    gc.collect()
    gc.freeze()
    control.send(b"ready")
    program = _serve(control)
    if program is not None:
        program()


def _load(path: str) -> None:
    """A module, or the package in a folder. By path: the folder that an import would search is not in sight here."""
    name = os.path.basename(path).removesuffix(".py")  # noqa: PTH119  # no pathlib in contexts
    package = not path.endswith(".py")
    start = os.path.join(path, "__init__.py") if package else path  # noqa: PTH118
    inside = [path] if package else None
    spec = importlib.util.spec_from_file_location(name, start, submodule_search_locations=inside)
    if spec is None or spec.loader is None:
        raise ImportError(f"no module at {path}")
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])


def _serve(control: socket.socket) -> programs.Program | None:
    known = programs.Programs()
    own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    while True:
        word, fds, _, _ = socket.recv_fds(control, 16, MAX_FDS)
        if not word:
            return None
        report = socket.socket(fileno=fds[FD_REPORT])
        try:
            order = Order.from_fd(fds[FD_ORDER])
            loaded = known.load(order.argv) if order.fork else None
            pid = confine.fork_into_pid_namespace(own_pids) if order.namespaces else os.fork()
        except (OSError, ValueError, SyntaxError) as error:
            _fail(report, "spawner", error)
        else:
            if pid == 0:
                control.close()
                os.close(own_pids)
                return _become_context(order, loaded, report, fds)
        report.close()
        for index, fd in enumerate(fds):
            if index != FD_REPORT:
                os.close(fd)


def _become_context(
    order: Order, loaded: programs.Loaded | None, report: socket.socket, fds: list[int]
) -> programs.Program | None:
    """Runs in the context's init, and returns in its program only. A step that fails ends the context."""
    step = "cgroup"
    gate: list[socket.socket] = []
    try:
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # or, without root, its own files in /proc would be closed to it
        confine.join_cgroups(fds[FIXED_FDS:])
        confine.prefer_for_oom()
        step = "namespaces"
        if order.namespaces:
            sysctls = confine.open_user_sysctls()
            confine.leave_namespaces(network=order.network)
            confine.mount_own(order)
            if order.proxy_port:
                gate.append(confine.open_gate(order.proxy_port))
            _drop(order, sysctls)
        else:
            kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pidfd = os.pidfd_open(os.getpid())
        socket.send_fds(report, [b'{"init": true}'], [pidfd, *(each.fileno() for each in gate)])
        os.close(pidfd)
        for each in gate:
            each.close()
        program = os.fork()
    except OSError as error:
        _fail(report, step, error)
        os._exit(1)
    if program == 0:
        return _become_program(order, loaded, report, fds)
    for index, fd in enumerate(fds):
        if index != FD_REPORT:
            os.close(fd)
    init.supervise(report, program, order)
    os._exit(0)


def _drop(order: Order, sysctls: int | None) -> None:
    if order.own_uid is not None:
        confine.take_uid(order.own_uid)
    if sysctls is not None:
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # or the maps of the user namespace could not be written
        confine.enter_user_namespace(sysctls)
        os.close(sysctls)
        confine.give_up_privileges()


def _become_program(
    order: Order, loaded: programs.Loaded | None, report: socket.socket, fds: list[int]
) -> programs.Program:
    try:
        os.setsid()
        confine.restore_signals(before_exec=loaded is None)
        if not order.namespaces:
            _drop(order, None)
        kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
        os.chdir(order.scratch)
        at = confine.place_descriptors(
            fds[FD_REQUEST], fds[FD_REPLY], fds[FD_LOG], report.fileno(), close_others=order.close_descriptors
        )
        report.detach()
        report = socket.socket(fileno=at)
        confine.set_rlimits(order.rlimits)
        confine.lock(order)
        if loaded is None and not os.access(order.argv[0], os.X_OK):
            _tell(report, "unstartable", f"{order.argv[0]} does not exist in the sandbox, or may not be executed there")
            os._exit(127)
        report.send(b'{"ready": true}')
        report.close()
    except OSError as error:
        _fail(report, "program", error)
        os._exit(127)
    if loaded is None:
        return lambda: _exec(order.argv)
    program = loaded.prepared(order.argv)
    _clear_environment()

    def go() -> None:
        os.environ.update(_wait_for_environment())
        program()

    return go


def _clear_environment() -> None:
    """Make room for the tenant's. Setting some other one first spares the context a first time when somebody waits."""
    os.environ.update(json.loads(json.dumps(_ANY_ENVIRONMENT)))
    os.environ.clear()


def _wait_for_environment() -> dict[str, str]:
    """A blank context waits here, with every layer in place; it leaves when it is not wanted after all."""
    env = read_environment(REQUEST_FD)
    if env is None:
        os._exit(0)
    return env


def _exec(argv: tuple[str, ...]) -> None:
    env = _wait_for_environment()
    try:
        os.execve(argv[0], argv, env)  # noqa: S606  # the purpose of this process
    except OSError as error:
        os.write(2, f"{argv[0]}: {error}\n".encode())
        os._exit(127)


def _fail(report: socket.socket, step: str, error: Exception) -> None:
    _tell(report, "failed", f"{step}: {error}")


def _tell(report: socket.socket, kind: str, text: str) -> None:
    try:
        report.send(json.dumps({kind: text[:1000]}).encode())
    except OSError:
        return
