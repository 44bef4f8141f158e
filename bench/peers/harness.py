"""One peer through the phases that ours goes through, too: enqueued, drained, end to end, enqueued one by one.

Executed jobs are counted by the peer's own workers (programs/counting.py), so a phase ends when the last job has run;
what the peer does afterwards (acknowledge, record) is not waited for, in its favour.
"""

import os
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers.install import home, install
from bench.peers.peer import Peer
from bench.peers.servers import server
from bench.tools.cpu import started_seconds

PROGRAMS: Final = Path(__file__).parent / "programs"
_LOOK_S: Final = 0.005
_PHASE_TIMEOUT_S: Final = 120.0
_STOP_TIMEOUT_S: Final = 5.0


class Rates(NamedTuple):
    """Jobs a second."""

    bulk: float
    single: float
    drained: float
    end_to_end: float
    cpu_us: float
    """Processor time of a job end to end, of all processes: producer, server, workers. Here the least is best."""


class Produced(NamedTuple):
    """When the first call began and when the last one returned; the processor time of starting up."""

    began_s: float
    ended_s: float
    start_cpu_s: float

    @property
    def taken_s(self) -> float:
        return self.ended_s - self.began_s


class Bench:
    """A peer whose server runs."""

    def __init__(self, peer: Peer, interpreter: Path, url: str, folder: Path) -> None:
        self._peer = peer
        self._interpreter = interpreter
        self._url = url
        self._folder = folder
        self._counts = folder / "counts"
        self._counts.mkdir()
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            **peer.environ,
            "PYTHONPATH": str(PROGRAMS),
            "BENCH_SERVER": url,
            "BENCH_COUNTS": str(self._counts),
            "BENCH_NODE_MODULES": str(home(peer) / "node_modules"),
        }

    def produce(self, kind: str, count: int) -> Produced:
        name = self._peer.program
        # Imported and not run, so that tasks are named after their module, as the worker knows it.
        program = [PROGRAMS / name] if name.endswith(".js") else ["-c", f"import {name}; {name}.main()"]
        done = subprocess.run(
            [self._interpreter, *program, kind, str(count)],
            env=self._environ, cwd=self._folder, check=True, stdout=subprocess.PIPE, timeout=_PHASE_TIMEOUT_S,
        )  # fmt: skip
        return Produced(*map(float, done.stdout.split()[-3:]))

    @contextmanager
    def workers(self) -> Iterator[None]:
        """Each in a process group of its own, so that what it starts ends with it."""
        command = [part.format(url=self._url) for part in self._peer.worker]
        if command[0] == self._peer.program:  # node has no search path for programs
            command[0] = str(PROGRAMS / command[0])
        with ExitStack() as stack:
            for number in range(self._peer.workers):
                process = self._start([str(self._interpreter), *command], self._folder / f"worker{number}.log")
                stack.callback(_end, process)
            yield

    def _start(self, command: list[str], log: Path) -> "subprocess.Popen[bytes]":
        with log.open("wb") as out:
            return subprocess.Popen(
                command, env=self._environ, cwd=self._folder, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            )  # fmt: skip

    def until_ran(self, count: int) -> tuple[float, int, float]:
        """Wait until all have run. Returns when the first was seen, the count at that time, and when all had run."""
        deadline_s = time.monotonic() + _PHASE_TIMEOUT_S
        first_s, first = 0.0, 0
        while time.monotonic() < deadline_s:
            ran, now_s = self._ran(), time.monotonic()
            if ran and not first:
                first_s, first = now_s, ran
            if ran >= count:
                return first_s, first, now_s
            time.sleep(_LOOK_S)
        logs = "\n".join(log.read_text(errors="replace")[-1000:] for log in self._folder.glob("worker*.log"))
        raise TimeoutError(f"{self._peer.name}: {self._ran()} of {count} jobs have run\n{logs}")

    def _ran(self) -> int:
        return sum(struct.unpack("<Q", file.read_bytes() or bytes(8))[0] for file in self._counts.iterdir())


def measure(peer: Peer, *, scale: float, synced_redis: bool) -> Rates:
    """Raises NotInstalled, or what went wrong."""
    jobs, singles = max(int(peer.jobs * scale), 10), max(int(peer.singles * scale), 10)
    interpreter = install(peer)
    with tempfile.TemporaryDirectory(prefix="bench-peer-") as name:
        folder = Path(name)
        data = folder / "server"
        data.mkdir()
        with server(peer.server, data, synced_redis=synced_redis) as url:
            bench = Bench(peer, interpreter, url, folder)
            bulk = jobs / bench.produce("bulk", jobs).taken_s
            with bench.workers():
                # From the first job on: how long workers take to start is not what is measured.
                first_s, first, all_s = bench.until_ran(jobs)
                drained = (jobs - first) / max(all_s - first_s, 1e-9)
                cpu_s = started_seconds(os.getpid())
                produced = bench.produce("bulk", jobs)
                _, _, all_s = bench.until_ran(2 * jobs)
                end_to_end = jobs / (all_s - produced.began_s)
                cpu_us = (started_seconds(os.getpid()) - cpu_s - produced.start_cpu_s) / jobs * 1e6
            single = singles / bench.produce("single", singles).taken_s
            return Rates(bulk, single, drained, end_to_end, cpu_us)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Asked first; then whatever is left of its group, so that nothing runs on beside the next peer."""
    os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_TIMEOUT_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
