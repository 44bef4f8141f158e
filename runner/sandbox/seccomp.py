"""The seccomp filter: a BPF program, assembled here by hand, that every context runs under for life.

Ensures: a system call of another architecture kills the process; x32 calls are refused; the calls of
`syscalls.DENIED` fail with EPERM, and those of `syscalls.NEEDLESS` are not made and succeed; no process can be put
into a new namespace; without network no socket but a unix one can be made, whatever its protocol (TCP, UDP, MPTCP, raw,
netlink, vsock, packet); socket pairs are unix ones, and where no unix socket can be made they reach nobody but each
other; with a proxy a TCP socket too, and no other of that family;
nobody is told what others do with a file. Everything else is allowed: this is a deny list, chosen so that ordinary
runtimes work unchanged, behind the namespaces and not instead of them.
"""

import errno
import platform
import socket
import struct
from functools import lru_cache
from typing import Final

from runner.errors import IsolationError
from runner.sandbox import syscalls

_ARCHITECTURES: Final = {"x86_64": (0, 0xC000_003E), "aarch64": (1, 0xC000_00B7)}  # (column, AUDIT_ARCH_*)
_X32_BIT: Final = 0x4000_0000

# Offsets into struct seccomp_data; of a 64-bit argument the low half comes first on both architectures.
_NUMBER, _ARCH, _ARG0, _ARG1, _ARG2 = 0, 4, 16, 24, 32

_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_REFUSE: Final = _ERRNO | errno.EPERM
_NOT_THERE: Final = _ERRNO | errno.ENOSYS
_DONE: Final = _ERRNO | 0

_NAMESPACE_FLAGS: Final = 0x7E02_0080  # CLONE_NEW{USER,PID,NET,IPC,UTS,CGROUP,NS,TIME}
_TERMINAL_IOCTLS: Final = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: typing into somebody's terminal
_WATCHING_FCNTLS: Final = (1024, 1026)  # F_SETLEASE, F_NOTIFY: what others do with a file or folder
_NETWORK_FAMILIES: Final = (
    socket.AF_INET,
    socket.AF_INET6,
    socket.AF_NETLINK,
)  # netlink: addresses, for getaddrinfo


_SOCKET_KIND: Final = 0xF  # without SOCK_NONBLOCK and SOCK_CLOEXEC
_TCP: Final = (0, socket.IPPROTO_TCP)


def supported() -> bool:
    return platform.machine() in _ARCHITECTURES


@lru_cache(maxsize=16)
def build(*, network: bool, namespaces: bool, unix: bool, proxied: bool = False, machine: str | None = None) -> bytes:
    """The program as `struct sock_filter[]`. `namespaces`: whether the context has some of its own. `unix`: whether
    its unix sockets reach nobody else's. `proxied`: whether a proxy listens in its network, which must be one of
    those namespaces."""
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise IsolationError(
            f"no seccomp filter for the architecture {machine}, only for {', '.join(sorted(_ARCHITECTURES))}"
        )
    column, audit_arch = _ARCHITECTURES[machine]
    code = [
        _load(_ARCH),
        _jump(_JUMP_EQUAL, audit_arch, then=1, otherwise=0),
        _answer(_KILL_PROCESS),
        _load(_NUMBER),
    ]
    if machine == "x86_64":
        code += [_jump(_JUMP_GREATER_EQUAL, _X32_BIT, then=0, otherwise=1), _answer(_NOT_THERE)]
    denied = dict(syscalls.DENIED) if namespaces else syscalls.DENIED | syscalls.SYSTEM_V_IPC
    for numbers in denied.values():
        if (number := numbers[column]) is not None:
            code += [_jump(_JUMP_EQUAL, number, then=0, otherwise=1), _answer(_REFUSE)]
    for needless in syscalls.NEEDLESS.values():
        code += [_jump(_JUMP_EQUAL, needless[column], then=0, otherwise=1), _answer(_DONE)]
    # clone3 hides its flags behind a pointer, where a filter cannot look; libc falls back to clone.
    code += [_jump(_JUMP_EQUAL, syscalls.CLONE3[column], then=0, otherwise=1), _answer(_NOT_THERE)]
    code += _refuse_if(syscalls.CLONE[column], _ARG0, _JUMP_ANY_BIT, (_NAMESPACE_FLAGS,))
    code += _refuse_if(syscalls.IOCTL[column], _ARG1, _JUMP_EQUAL, _TERMINAL_IOCTLS)
    code += _refuse_if(syscalls.FCNTL[column], _ARG1, _JUMP_EQUAL, _WATCHING_FCNTLS)
    # Without namespaces the machine's own unix sockets are in reach, by path or by name, with its network those by
    # name, and nothing but this stops a connection to them. Socket pairs are another call; those that send datagrams
    # send them to any name.
    families = (*((socket.AF_UNIX,) if unix else ()), *(_NETWORK_FAMILIES if network else ()))
    code += _tcp(syscalls.SOCKET[column]) if proxied and namespaces else []
    code += _refuse_unless(syscalls.SOCKET[column], _ARG0, families)
    code += _pairs(syscalls.SOCKETPAIR[column], datagrams=unix)
    code.append(_answer(_ALLOW))
    return b"".join(code)


def _refuse_if(number: int, argument: int, test: int, values: tuple[int, ...]) -> list[bytes]:
    """Refuse the call when its argument matches one of the values, allow it otherwise."""
    body = [_load(argument)]
    for value in values:
        body += [_jump(test, value, then=0, otherwise=1), _answer(_REFUSE)]
    body.append(_answer(_ALLOW))
    return [_jump(_JUMP_EQUAL, number, then=0, otherwise=len(body)), *body]


def _refuse_unless(number: int, argument: int, values: tuple[int, ...]) -> list[bytes]:
    body = [_load(argument)]
    for value in values:
        body += [_jump(_JUMP_EQUAL, value, then=0, otherwise=1), _answer(_ALLOW)]
    body.append(_answer(_REFUSE))
    return [_jump(_JUMP_EQUAL, number, then=0, otherwise=len(body)), *body]


def _pairs(number: int, *, datagrams: bool) -> list[bytes]:
    """Allow pairs of unix sockets, with datagrams or only of those that stay connected to each other."""
    if datagrams:
        return _refuse_unless(number, _ARG0, (socket.AF_UNIX,))
    body = [_load(_ARG0), _jump(_JUMP_EQUAL, socket.AF_UNIX, then=1, otherwise=0), _answer(_REFUSE)]
    body += [_load(_ARG1), struct.pack("HBBI", _AND, 0, 0, _SOCKET_KIND)]
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        body += [_jump(_JUMP_EQUAL, kind, then=0, otherwise=1), _answer(_ALLOW)]
    body.append(_answer(_REFUSE))
    return [_jump(_JUMP_EQUAL, number, then=0, otherwise=len(body)), *body]


def _tcp(number: int) -> list[bytes]:
    """Allow sockets for TCP over IPv4; what else is asked for is left to what follows."""
    body = [_load(_ARG0), _jump(_JUMP_EQUAL, socket.AF_INET, then=0, otherwise=8)]
    body += [_load(_ARG1), struct.pack("HBBI", _AND, 0, 0, _SOCKET_KIND)]
    body += [_jump(_JUMP_EQUAL, socket.SOCK_STREAM, then=0, otherwise=5), _load(_ARG2)]
    for protocol in _TCP:
        body += [_jump(_JUMP_EQUAL, protocol, then=0, otherwise=1), _answer(_ALLOW)]
    return [_jump(_JUMP_EQUAL, number, then=0, otherwise=len(body) + 1), *body, _load(_NUMBER)]


def _load(offset: int) -> bytes:
    return struct.pack("HBBI", _LOAD, 0, 0, offset)


def _jump(test: int, value: int, *, then: int, otherwise: int) -> bytes:
    return struct.pack("HBBI", test, then, otherwise, value)


def _answer(action: int) -> bytes:
    return struct.pack("HBBI", _RETURN, 0, 0, action)
