"""Memory, processor time and number of tasks of a process tree as /proc tells them, for machines without cgroups.

Kernel memory only, no disk. What has ended meanwhile counts nothing. Shared pages count once per process.
"""

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from typing import Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_READ_BYTES: Final = 1 << 16
_CPU_FIELDS: Final = slice(11, 15)  # of /proc/PID/stat after the name: utime, stime, cutime, cstime


def tree_bytes(pid: int) -> int:
    """Resident bytes of `pid` and its descendants."""
    statm = (_read(f"/proc/{one}/statm").split() for one in _tree(pid))
    return sum(int(fields[1]) * _PAGE_BYTES for fields in statm if fields)


def tree_cpu_s(pid: int) -> float:
    """Processor time of `pid` and its descendants, with that of children that have ended and were waited for."""
    stats = (_read(f"/proc/{one}/stat").rpartition(")")[2].split() for one in _tree(pid))
    return sum(sum(map(int, fields[_CPU_FIELDS])) for fields in stats if fields) * _TICK_S


def tree_tasks(pid: int) -> int:
    """Processes and threads of `pid` and its descendants; of a process that a thread started only its thread counts."""
    return sum(map(_threads, _tree(pid)))


def kill_below(pid: int, *, keep_children: bool) -> None:
    """End the descendants of `pid`; with `keep_children` only those of its children."""
    kept = {pid, *(_children(pid) if keep_children else ())}
    for one in _tree(pid):
        if one not in kept:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)


def _tree(pid: int) -> Iterator[int]:
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += _children(current)


def _children(pid: int) -> list[int]:
    return [int(word) for word in _read(f"/proc/{pid}/task/{pid}/children").split()]


def _threads(pid: int) -> int:
    found = re.search(r"^Threads:\s*(\d+)", _read(f"/proc/{pid}/status"), re.MULTILINE)
    return int(found[1]) if found else 0


def _read(path: str) -> str:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.pread(fd, _READ_BYTES, 0).decode(errors="replace")
    except OSError:
        return ""
    finally:
        os.close(fd)
