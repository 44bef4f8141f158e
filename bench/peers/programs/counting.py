"""Shared by the programs of all Python peers: what was executed, counted so that it costs the peer next to nothing.

Each process counts in eight bytes of shared memory, a file of its own in $BENCH_COUNTS; the harness adds them up. A
producer says when it began and ended by the machine's monotonic clock, so its own start is not measured.
"""

import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAYLOAD = "x" * 100
CHUNK = 1000
"""Jobs that one call hands over, where the peer can do that."""
URL = os.environ["BENCH_SERVER"]

_NUMBER = struct.Struct("<Q")
_lock = threading.Lock()


class _Counter:
    def __init__(self) -> None:
        self.pid = os.getpid()
        path = Path(os.environ["BENCH_COUNTS"]) / str(self.pid)
        path.write_bytes(bytes(_NUMBER.size))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), _NUMBER.size)
        self._count = 0

    def add(self) -> None:
        self._count += 1
        _NUMBER.pack_into(self._shared, 0, self._count)


_counter: _Counter | None = None


def ran() -> None:
    """All that the no-op does. A forked worker gets a counter of its own."""
    global _counter  # noqa: PLW0603 (one counter a process is the point)
    with _lock:
        if _counter is None or _counter.pid != os.getpid():
            _counter = _Counter()
        _counter.add()


def order() -> tuple[str, int]:
    """What a producer is asked for: `bulk` or `single`, and how many."""
    return sys.argv[1], int(sys.argv[2])


@contextmanager
def timed() -> Iterator[None]:
    """Says when the block began and ended, and the processor time that was spent before it."""
    began_s, start_cpu_s = time.monotonic(), time.process_time()
    yield
    print(began_s, time.monotonic(), start_cpu_s, flush=True)


def chunks(count: int) -> Iterator[int]:
    """The sizes of the chunks that make up `count`."""
    for at in range(0, count, CHUNK):
        yield min(CHUNK, count - at)
