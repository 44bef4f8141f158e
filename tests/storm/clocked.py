"""`functory` with a wall clock that can be stepped while it runs: `clocked.py OFFSET_FILE serve ...`.

The file holds the step in nanoseconds, as eight bytes, and is mapped: a step is there at the next look. All of the
service's own looks at the wall clock are Python's `time.time` and `time.time_ns` (vocabulary/clock.py and the log). The
monotonic clock goes on as it does on a real machine whose time is set, and contexts, which are other programs, see the
real time.

Not libfaketime: preloaded into the daemon it costs ten to twenty times its CPU time, and a wait for a child with a time
limit fails with EINVAL (0.9.10), so that the sandbox does not come up.
"""

import mmap
import struct
import sys
import time
from pathlib import Path


def fake_clock(path: Path) -> None:
    with path.open("rb") as file:
        step_ns = mmap.mmap(file.fileno(), 8, prot=mmap.PROT_READ)
    real_ns = time.time_ns

    def time_ns() -> int:
        (step,) = struct.unpack("<q", step_ns[:8])
        return real_ns() + int(step)

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1e9


if __name__ == "__main__":
    fake_clock(Path(sys.argv.pop(1)))
    from functory.cli import main  # after the clock is set: nobody may have kept the real function

    sys.exit(main())
