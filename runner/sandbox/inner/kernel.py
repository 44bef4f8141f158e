"""System calls that the standard library does not offer, by ctypes; one thin function each, errors as
OSError.

Owns no policy: which namespaces, mounts or capabilities are wanted is said by the callers.
"""

import ctypes
import errno
import os
from typing import Final

CLONE_NEWNS: Final = 0x0002_0000
CLONE_NEWCGROUP: Final = 0x0200_0000
CLONE_NEWUTS: Final = 0x0400_0000
CLONE_NEWIPC: Final = 0x0800_0000
CLONE_NEWUSER: Final = 0x1000_0000
CLONE_NEWPID: Final = 0x2000_0000
CLONE_NEWNET: Final = 0x4000_0000

MNT_DETACH: Final = 2
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 1 << 18

PR_SET_PDEATHSIG: Final = 1
PR_SET_DUMPABLE: Final = 4
PR_SET_SECCOMP: Final = 22
PR_CAPBSET_DROP: Final = 24
PR_SET_CHILD_SUBREAPER: Final = 36
PR_SET_NO_NEW_PRIVS: Final = 38
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
SECCOMP_MODE_FILTER: Final = 2

# The same numbers on x86_64 and aarch64 (the table is shared since 424); capset is taken from libc.
SYS_LANDLOCK_CREATE_RULESET: Final = 444
SYS_LANDLOCK_ADD_RULE: Final = 445
SYS_LANDLOCK_RESTRICT_SELF: Final = 446

_CAP_LAST: Final = 63  # the kernel answers EINVAL above the last one that it knows
_CAPABILITY_VERSION_3: Final = 0x2008_0522

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl.argtypes = (ctypes.c_int, *[ctypes.c_ulong] * 4)


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, *arguments: int) -> int:
    """`prctl(2)`; the arguments that are not given are 0, as several options insist."""
    return _check(_libc.prctl(option, *(*arguments, 0, 0, 0, 0)[:4]), f"prctl({option})")


def syscall(number: int, *arguments: object) -> int:
    return _check(_libc.syscall(ctypes.c_long(number), *arguments), f"syscall({number})")


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), f"unshare({flags:#x})")


def setns(fd: int, kind: int) -> None:
    _check(_libc.setns(fd, kind), f"setns({kind:#x})")


def mount(source: str, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    arguments = [None if text is None else text.encode() for text in (source, target, kind, options)]
    result = _libc.mount(arguments[0], arguments[1], arguments[2], ctypes.c_ulong(flags), arguments[3])
    _check(result, f"mount({target})")


def unmount(target: str) -> None:
    _check(_libc.umount2(target.encode(), MNT_DETACH), f"umount({target})")


def set_host_name(name: str) -> None:
    _check(_libc.sethostname(name.encode(), len(name)), "sethostname")


def set_command_line(text: str) -> None:
    """What /proc/PID/cmdline shows of this process and its forks: the paths in it are nobody's business."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123  # no pathlib in contexts
        fields = file.read().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, text.encode()[: end - start - 1], min(len(text), end - start - 1))


def drop_capabilities() -> None:
    """Ensures: no capability is left in any set, and none can be gained by an exec."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in range(_CAP_LAST + 1):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL:
                break
            if error.errno != errno.EPERM:  # without CAP_SETPCAP there is nothing that the bounding set could give
                raise
            break
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    empty = (ctypes.c_uint32 * 6)()
    _check(_libc.capset(header, empty), "capset")


def set_no_new_privileges() -> None:
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def load_seccomp(program: bytes) -> None:
    """Load an assembled BPF program (`struct sock_filter[]`).

    It holds for this process and all of its descendants.
    """
    header = _FilterProgram(len(program) // 8, program)
    address = ctypes.cast(ctypes.byref(header), ctypes.c_void_p).value or 0
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, address)
