"""Memory and open files of a process, as /proc tells them."""

from pathlib import Path
from typing import NamedTuple

MB = 1 << 20


class Memory(NamedTuple):
    """Resident bytes: now, and the most that there ever were."""

    now_bytes: int
    peak_bytes: int


def parse_status(text: str) -> Memory:
    """Of /proc/PID/status, which counts in units of 1,024 bytes and calls them kB."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    now_bytes, peak_bytes = (int(fields[name].split()[0]) << 10 for name in ("VmRSS", "VmHWM"))
    return Memory(now_bytes, peak_bytes)


def memory(pid: int) -> Memory:
    return parse_status(Path(f"/proc/{pid}/status").read_text())


def open_files(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
