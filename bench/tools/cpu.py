"""Processor time of a daemon as /proc tells it: by thread, of everything that it started, and of the client.

On a busy machine processor time stays true, the wall clock does not. Ensures: the parts of one process add
up to the whole of it, also when threads have ended in between.
"""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

EVENT_LOOP: Final = "event loop"
OTHER: Final = "other"
CONTEXTS: Final = "contexts"
CLIENT: Final = "client"

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_NUMBERED: Final = re.compile(r"_\d*$")


class Stat(NamedTuple):
    """What we use of /proc/PID/stat and of /proc/PID/task/TID/stat, times in seconds."""

    name: str
    parent: int
    own_s: float
    """User and system time of the process (all its threads, also ended ones), or of the thread."""
    reaped_s: float
    """Of children that have ended and were waited for, with theirs."""


def parse_stat(text: str) -> Stat:
    """The name is in parentheses, and may hold any character, parentheses and blanks among them."""
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    user, system, reaped_user, reaped_system = (int(field) / _TICKS_PER_S for field in fields[11:15])
    return Stat(name, int(fields[1]), user + system, reaped_user + reaped_system)


def by_thread(process_s: float, threads: Mapping[int, Stat], pid: int, default_name: str) -> dict[str, float]:
    """Seconds by the thread's name. Nameless threads and those that have ended are OTHER."""
    found = {OTHER: process_s}
    for tid, stat in threads.items():
        name = EVENT_LOOP if tid == pid else _NUMBERED.sub("", stat.name)
        if tid != pid and stat.name == default_name:
            continue
        found[name] = found.get(name, 0.0) + stat.own_s
        found[OTHER] -= stat.own_s
    found[OTHER] = max(found[OTHER], 0.0)  # the two are read one after the other
    return found


def cpu_seconds(pid: int) -> dict[str, float]:
    """Of the daemon's threads, of its contexts together, and of this process, which is the client."""
    whole = parse_stat(Path(f"/proc/{pid}/stat").read_text())
    threads = {int(task.name): parse_stat((task / "stat").read_text()) for task in Path(f"/proc/{pid}/task").iterdir()}
    here = os.times()
    return {
        **by_thread(whole.own_s, threads, pid, whole.name),
        CONTEXTS: started_seconds(pid),
        CLIENT: here.user + here.system,
    }


def spent(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Seconds by name between two looks."""
    return {name: max(after_s - before.get(name, 0.0), 0.0) for name, after_s in after.items()}


def told_apart(seconds: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """By these names; whatever has another one is OTHER."""
    found = {name: seconds.get(name, 0.0) for name in names}
    found[OTHER] += sum(seconds.values()) - sum(found.values())
    return found


def started_seconds(pid: int) -> float:
    """Of everything that a process has started, and of what that has started, living or waited for."""
    total_s = parse_stat(Path(f"/proc/{pid}/stat").read_text()).reaped_s
    everyone = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                everyone[int(entry.name)] = parse_stat((entry / "stat").read_text())
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has ended since it was listed
    parents = {pid}
    while parents:
        children = {child for child, stat in everyone.items() if stat.parent in parents}
        total_s += sum(everyone[child].own_s + everyone[child].reaped_s for child in children)
        parents = children
    return total_s
