"""Other processes as /proc shows them: who was started by whom, and who is still there."""

import asyncio
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_GONE_TIMEOUT_S = 30.0


class Process(NamedTuple):
    """A process that cannot be taken for a later one with the same pid."""

    pid: int
    started_ticks: int
    name: str

    @property
    def is_there(self) -> bool:
        """A zombie is not: it has ended, and only waits to be counted."""
        found = _stat(self.pid)
        return found is not None and found.process == self and found.state not in "ZX"


class _Stat(NamedTuple):
    process: Process
    parent: int
    state: str


def descendants(pid: int) -> set[Process]:
    """Everything that it started, and what that started."""
    return {stat.process for stat in _below(pid)}


def leaves(pid: int) -> set[Process]:
    """Those of its descendants that have started nothing themselves."""
    found = _below(pid)
    parents = {stat.parent for stat in found}
    return {stat.process for stat in found if stat.process.pid not in parents}


def _below(pid: int) -> set[_Stat]:
    everyone = [
        stat for entry in Path("/proc").iterdir() if entry.name.isdecimal() and (stat := _stat(int(entry.name)))
    ]
    found: set[_Stat] = set()
    parents = {pid}
    while parents:
        children = {stat for stat in everyone if stat.parent in parents} - found
        found |= children
        parents = {child.process.pid for child in children}
    return found


async def gone(processes: set[Process]) -> None:
    """Wait until they have all ended; fails with those that do not."""
    deadline_s = time.monotonic() + _GONE_TIMEOUT_S
    while left := await asyncio.to_thread(lambda: [process for process in processes if process.is_there]):
        assert time.monotonic() < deadline_s, f"left behind: {left}"
        await asyncio.sleep(0.02)  # other processes: there is no event to wait on


def end(processes: set[Process]) -> None:
    """Kill those that are still there."""
    for process in processes:
        if process.is_there:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return _Stat(Process(pid, int(fields[19]), name), int(fields[1]), fields[0])
