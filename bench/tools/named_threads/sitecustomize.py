"""Put on a daemon's PYTHONPATH by the benches: every thread tells the kernel its name, so that /proc tells them apart.

Python does this itself from 3.14 on. It costs one write when a thread starts, and nothing afterwards.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path


def _named(run: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    def run_with_name(thread: threading.Thread) -> None:
        with suppress(OSError):
            Path("/proc/thread-self/comm").write_text(thread.name)
        run(thread)

    return run_with_name


threading.Thread.run = _named(threading.Thread.run)  # type: ignore[assignment, method-assign]  # all pass here
