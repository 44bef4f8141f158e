"""The layers of one context, each a step that a forked process takes on itself before it sees a byte of a
tenant.

The sequence is the caller's (`inner.spawner`); each step raises OSError when the kernel refuses, and then the
context is not started. A step is never skipped because it failed: a layer that the machine cannot give is
left out by the daemon, which then reports a lower level.
"""

import fcntl
import os
import resource
import signal
import socket
import struct
from collections.abc import Sequence
from typing import Final

from runner.sandbox.inner import kernel, landlock
from runner.sandbox.inner.order import Order

_INSIDE_ID: Final = 1000  # uid and gid as the context sees them
_FIRST_FREE_FD: Final = 5
_PARKED_FD: Final = 64
_SET_INTERFACE_FLAGS: Final = 0x8914  # SIOCSIFFLAGS
_UP_AND_RUNNING: Final = 0x41
_LISTENING: Final = 32


def join_cgroups(procs_fds: Sequence[int]) -> None:
    """Move this process into the cgroups whose `cgroup.procs` the daemon opened; children follow."""
    for fd in procs_fds:
        os.write(fd, b"0")


def prefer_for_oom() -> None:
    """If the whole machine runs out of memory, contexts go first and the daemon last."""
    with open("/proc/self/oom_score_adj", "w", encoding="utf-8") as file:  # noqa: PTH123  # no pathlib in contexts
        file.write("1000")


def fork_into_pid_namespace(own_namespace_fd: int) -> int:
    """As `os.fork`, and the child is the first process of a new process namespace."""
    kernel.unshare(kernel.CLONE_NEWPID)  # where the next children go, not this process
    try:
        return os.fork()
    finally:
        if os.getpid() != 1:
            kernel.setns(own_namespace_fd, kernel.CLONE_NEWPID)


def leave_namespaces(*, network: bool) -> None:
    """New namespaces for everything but processes, which was done by the fork, and the user, which comes last."""
    flags = kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWUTS | kernel.CLONE_NEWCGROUP
    kernel.unshare(flags if network else flags | kernel.CLONE_NEWNET)


def open_gate(port: int) -> socket.socket:
    """In a new network: its loopback interface goes up, and a socket listens there. Needs power over that network."""
    gate = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    fcntl.ioctl(gate, _SET_INTERFACE_FLAGS, struct.pack("16sH22x", b"lo", _UP_AND_RUNNING))
    gate.bind(("127.0.0.1", port))
    gate.listen(_LISTENING)
    return gate


def mount_own(order: Order) -> None:
    """Own scratch space and own /proc over the read-only root. Needs the new mount and process namespaces."""
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    safe = kernel.MS_NOSUID | kernel.MS_NODEV
    options = f"size={order.scratch_bytes},nr_inodes={order.scratch_files},mode=0777"
    kernel.mount("tmpfs", order.scratch, "tmpfs", safe, options)
    # subset=pid leaves out /proc/sys, /proc/keys, /proc/kallsyms and the like: nothing in them is a tenant's
    # business.
    kernel.mount("proc", "/proc", "proc", safe | kernel.MS_NOEXEC, "subset=pid")
    kernel.set_host_name("context")
    if order.tree:  # a bind of a read-only mount is read-only; the other folders are then out of reach
        kernel.mount(f"{order.trees}/{order.tree}", order.folder, None, kernel.MS_BIND)
        kernel.unmount(order.trees)


def take_uid(uid: int) -> None:
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # a change of uid clears it, and then /proc/self belongs to root


def enter_user_namespace(sysctl_fd: int) -> None:
    """A user namespace of one user, in which no further one can be made.

    Gives up power over all other namespaces.
    """
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(kernel.CLONE_NEWUSER)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{_INSIDE_ID} {uid} 1")
    _write("/proc/self/gid_map", f"{_INSIDE_ID} {gid} 1")
    _write("max_user_namespaces", "0", dir_fd=sysctl_fd)


def open_user_sysctls() -> int:
    """/proc/sys/user, to be opened before the context's own /proc covers it."""
    return os.open("/proc/sys/user", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _write(path: str, text: str, *, dir_fd: int | None = None) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def give_up_privileges() -> None:
    kernel.drop_capabilities()
    kernel.set_no_new_privileges()


def set_rlimits(rlimits: Sequence[tuple[int, int]]) -> None:
    for number, value in rlimits:
        _, hard = resource.getrlimit(number)
        bounded = value if hard == resource.RLIM_INFINITY else min(value, hard)
        later = bounded + (number == resource.RLIMIT_CPU)  # SIGXCPU, which tells the reason, comes before SIGKILL
        resource.setrlimit(number, (bounded, later if hard == resource.RLIM_INFINITY else min(later, hard)))


def place_descriptors(request: int, reply: int, log: int, report: int, *, close_others: bool) -> int:
    """Descriptors 0 to 4 as `runner.launch` promises; returns where `report` is now, the only other one left
    open.
    """
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    wanted = [_park(fd) for fd in (null, log, log, request, reply)]
    report = _park(report)
    for target, fd in enumerate(wanted):
        os.dup2(fd, target)
    if close_others:
        os.closerange(_FIRST_FREE_FD, report)
        os.closerange(report + 1, os.sysconf("SC_OPEN_MAX"))
    return report


def _park(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _PARKED_FD)


def restore_signals(*, before_exec: bool) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if before_exec:  # python ignores these two, and an exec would hand that down
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)


def lock(order: Order) -> None:
    """The last step: from here on nothing but what a tenant may do is possible."""
    kernel.set_no_new_privileges()
    if order.landlock:
        landlock.restrict(
            readable=order.readable,
            writable=order.writable,
            network=order.network,
            port=order.proxy_port,
            serves=order.serves,
        )
    if order.seccomp:
        kernel.load_seccomp(bytes.fromhex(order.seccomp))
