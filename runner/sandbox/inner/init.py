"""The first process of a context: reaps its orphans, passes on signals, reports how the program ended.

With namespaces it is pid 1 of the context, so its end takes every process of the context with it. Without, it
is the subreaper of the context and kills until no descendant is left. In both cases: when the daemon goes
away, so does the context. It never runs tenant code and cannot be traced or read by it (not dumpable).
"""

import contextlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Final

from runner.sandbox.inner.order import KILL, REPORT_BYTES, TERMINATE, TIDY, TIDY_BUT_CHILDREN, Order

_KILL_ROUND_S: Final = 0.001
_TIDY_S: Final = 0.5
_NOBODYS_UID: Final = 0x7FFF_FFFE

Signaller = Callable[[int], None]


def supervise(report: socket.socket, program: int, order: Order) -> None:
    """Watch over `program` until it has ended or the daemon says so.

    Ensures: no process of the context is left.
    """
    uid = None if order.namespaces else order.own_uid
    tell = _namespace_signaller if order.namespaces else _tree_signaller(uid)
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    poll = select.poll()
    poll.register(wake_read, select.POLLIN)
    poll.register(report, select.POLLIN)
    tidied: int | None = None
    while True:
        status = _reap(program)  # first: the program may have ended before the handler was there
        if status is not None:
            _send(report, {"exit": status})
            break
        if tidied is not None:  # said when the dead are buried, or they would count
            _send(report, {"tidied": tidied})
            tidied = None
        ready = [fd for fd, _ in poll.poll()]
        if wake_read in ready:
            os.read(wake_read, REPORT_BYTES)
        if report.fileno() in ready:
            word = _receive(report)
            if word == TERMINATE:
                tell(signal.SIGTERM)
            elif word in (TIDY, TIDY_BUT_CHILDREN):
                tidied = _tidy(program, uid, keep_children=word == TIDY_BUT_CHILDREN)
            else:  # KILL, or the daemon is gone
                break
    _end_all(tell)


def _receive(report: socket.socket) -> bytes:
    try:
        return report.recv(REPORT_BYTES)
    except OSError:
        return KILL


def _send(report: socket.socket, message: dict[str, object]) -> None:
    try:
        report.send(json.dumps(message).encode())
    except OSError:
        return  # nobody listens any more; the context ends all the same


def _reap(program: int) -> int | None:
    """Collect every child that has ended; the wait status of `program` if it is among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == program:
            return status
        if pid == 0:
            return None


def _tidy(program: int, uid: int | None, *, keep_children: bool) -> int:
    """End what the program has started, and what was started by that. Returns how many outran it.

    Whoever forks faster than this kills is left: the daemon then ends the whole context, which nothing outruns. With
    `uid`, the context's among the processes of the machine, no other's process is hit: one that ended since it was seen
    may have left its number to any of them.
    """
    deadline = time.monotonic() + _TIDY_S
    pause_s = _KILL_ROUND_S
    while others := _others(program, keep_children=keep_children):
        if time.monotonic() > deadline:
            break
        with contextlib.nullcontext() if uid is None else _taking(uid):
            _signal_each(others, signal.SIGKILL)
        time.sleep(pause_s)  # killed is not yet ended: on a busy machine each needs a turn to end
        pause_s = min(2 * pause_s, 20 * _KILL_ROUND_S)
    return len(others)


def _others(program: int, *, keep_children: bool) -> set[int]:
    """The living descendants of this process but the program and those it may keep."""
    parents = _living()
    found = _descendants(parents) - {os.getpid(), program}
    return {pid for pid in found if not (keep_children and parents[pid] == program)}


def _end_all(tell: Signaller) -> None:
    """Kill and collect until the kernel says that no descendant is left: they are all re-parented to this
    process.
    """
    while True:
        tell(signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG) != (0, 0):
                continue
        except ChildProcessError:
            return
        time.sleep(_KILL_ROUND_S)  # killed is not yet ended


def _namespace_signaller(number: int) -> None:
    try:
        os.kill(-1, number)
    except ProcessLookupError:
        return


def _tree_signaller(uid: int | None) -> Signaller:
    if uid is None:
        return _signal_descendants

    def signal_uid(number: int) -> None:
        """All processes of a uid at once and not one by one, so that a fork bomb cannot outrun it.

        As root, -1 would mean everybody.
        """
        with _taking(uid), contextlib.suppress(ProcessLookupError):
            os.kill(-1, number)

    return signal_uid


@contextlib.contextmanager
def _taking(uid: int) -> Iterator[None]:
    """This process, which is root, can signal those of the uid and no others.

    A helper process would be tidier, but a context that has used up its processes leaves none for it. The real uid is
    nobody's, which keeps the context from signalling back.
    """
    os.setresuid(_NOBODYS_UID, uid, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def _signal_descendants(number: int) -> None:
    _signal_each(_descendants(_living()) - {os.getpid()}, number)


def _signal_each(pids: set[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):  # it has ended; at L1, a uid that took another one's number
            continue


def _descendants(parents: dict[int, int]) -> set[int]:
    """This process and all that descend from it."""
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _living() -> dict[int, int]:
    """Every process that has not ended, with its parent."""
    parents: dict[int, int] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208  # no pathlib in contexts
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
                    state, parent = file.read().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state not in "ZX":
                parents[int(name)] = int(parent)
    return parents
