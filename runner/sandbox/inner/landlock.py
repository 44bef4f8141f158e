"""Landlock by ctypes: files outside the given lists cannot be opened, whoever owns them; no way back.

Where the kernel is new enough it also stops TCP (ABI 4), and signals and abstract unix sockets that would
leave the context (ABI 6). What it does not stop, on any ABI: seeing that a path exists (stat, chdir) and
changing its metadata.
"""

import ctypes
import os
import stat
from collections.abc import Iterable
from typing import Final

from runner.sandbox.inner import kernel

_CREATE_RULESET_VERSION: Final = 1
_RULE_PATH_BENEATH: Final = 1
_RULE_NET_PORT: Final = 2

_EXECUTE: Final = 1 << 0
_WRITE_FILE: Final = 1 << 1
_READ_FILE: Final = 1 << 2
_READ_DIR: Final = 1 << 3
_TRUNCATE: Final = 1 << 14
_IOCTL_DEV: Final = 1 << 15
_FS_RIGHTS: Final = {
    1: 1 << 13,
    2: 1 << 14,
    3: 1 << 15,
    4: 1 << 15,
    5: 1 << 16,
}  # ABI -> first bit that it lacks
_NET_TCP: Final = 0b11  # bind, connect
_CONNECT_TCP: Final = 0b10
_SCOPE_ABSTRACT_UNIX_AND_SIGNAL: Final = 0b11
_SCOPES: Final = 6
"""The first ABI that has them (Linux 6.12)."""

_ON_A_FILE: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR


class _RulesetAttributes(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # as packed structures always were; Python 3.14 wants it said
    _fields_ = (("access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


class _NetPort(ctypes.Structure):
    _fields_ = (("access", ctypes.c_uint64), ("port", ctypes.c_uint64))


def abi() -> int:
    """The ABI that this kernel offers, 0 for none (not built in, or not in the boot parameter `lsm=`)."""
    try:
        return kernel.syscall(kernel.SYS_LANDLOCK_CREATE_RULESET, None, 0, _CREATE_RULESET_VERSION)
    except OSError:
        return 0


def keeps_unix_sockets() -> bool:
    """Whether abstract unix sockets stay inside, also where contexts share a network."""
    return abi() >= _SCOPES


def restrict(*, readable: Iterable[str], writable: Iterable[str], network: bool, port: int, serves: int) -> None:
    """Confine this process for ever. Paths that do not exist are left out: nothing is granted by them.

    Without `network`, TCP connects to nothing but `port`, and to `serves`, which is the one port to listen at.
    """
    version = abi()
    if version == 0:
        raise OSError("Landlock is not available: the kernel was built or booted without it")
    rights = _FS_RIGHTS[min(version, 5)] - 1
    attributes = _RulesetAttributes(rights, 0, 0)
    size = 8
    if version >= 4:
        attributes.net = 0 if network else _NET_TCP
        size = 16
    if version >= _SCOPES:
        attributes.scoped = _SCOPE_ABSTRACT_UNIX_AND_SIGNAL
        size = 24
    ruleset = kernel.syscall(kernel.SYS_LANDLOCK_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0)
    try:
        for path in readable:
            _allow(ruleset, path, _READ & rights)
        for path in writable:
            _allow(ruleset, path, rights)
        for access, number in ((_CONNECT_TCP, port), (_NET_TCP, serves)) if attributes.net else ():
            if not number:
                continue
            rule = _NetPort(access, number)
            kernel.syscall(kernel.SYS_LANDLOCK_ADD_RULE, ruleset, _RULE_NET_PORT, ctypes.byref(rule), 0)
        kernel.syscall(kernel.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            access &= _ON_A_FILE
        rule = _PathBeneath(access, parent)
        kernel.syscall(kernel.SYS_LANDLOCK_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(parent)
