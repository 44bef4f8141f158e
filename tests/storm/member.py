"""One daemon of the deployment, and the wall clock that all of them go by."""

import asyncio
import os
import random
import signal
import struct
import sys
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.storm.records import LineFile, read_lines
from tests.support.command_line import clean_environ
from tests.support.daemon_process import free_port, serve_command
from tests.support.processes import Process, descendants, end, leaves

_CLOCKED: Final = Path(__file__).with_name("clocked.py")
_LAST_WORDS_S: Final = 3.0
_STOP_TIMEOUT_S: Final = 60.0


class SteppedClock:
    """The wall clock of all daemons."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._furthest_s = self._offset_s = 0.0
        self._write()

    def step(self, seconds: float) -> None:
        self._offset_s += seconds
        self._furthest_s = max(self._furthest_s, self._offset_s)
        self._write()

    def run_ahead(self, seconds: float) -> None:
        """Past everything that was put off until some time, whatever the clock was then."""
        self.step(self._furthest_s - self._offset_s + seconds)

    def _write(self) -> None:
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600)
        os.write(fd, struct.pack("<q", round(self._offset_s * 1e9)))  # in place: the daemons have it mapped
        os.close(fd)


class Member:
    """One daemon: always on the same port and data directory, however often it is started."""

    def __init__(self, name: str, data_dir: Path, records: Path, clock: SteppedClock, settings: dict[str, str]) -> None:
        self.name = name
        self.data_dir = data_dir
        self.log = LineFile(records / f"{name}.log")
        self.log_path = records / f"{name}.log"
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._command = [
            *(sys.executable, "-P", str(_CLOCKED), str(clock.path)),
            *serve_command(data_dir, settings | {"port": str(port)}),
        ]
        self._process: asyncio.subprocess.Process | None = None
        self._orphans: set[Process] = set()

    async def start(self) -> None:
        """Returns when it has been started, not when it is ready."""
        stderr = await asyncio.to_thread(self.log_path.open, "ab")
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=stderr,
                env=clean_environ() | {"TMPDIR": str(self.log_path.parent)},
            )
        finally:
            stderr.close()

    @property
    def status(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def kill(self) -> None:
        assert self._process is not None
        self._orphans |= await asyncio.to_thread(descendants, self._process.pid)
        self.send(signal.SIGKILL)
        await self._process.wait()

    async def stop(self) -> None:
        """As an operator does. What it runs is finished or given back: that costs no attempt."""
        assert self._process is not None
        self.send(signal.SIGTERM)
        async with asyncio.timeout(_STOP_TIMEOUT_S):
            assert await self._process.wait() == 0

    async def pick_context(self, dice: random.Random) -> Process | None:
        """One of the processes that run handlers, or are about to: those at the end of the tree."""
        assert self._process is not None
        found = sorted(await asyncio.to_thread(leaves, self._process.pid))
        return dice.choice(found) if found else None

    async def last_words(self) -> str:
        """The end of its log without the lines about jobs. One that is about to end may finish its sentence."""
        assert self._process is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._process.wait()

        def read() -> str:
            return "\n".join(deque((line for line in read_lines(self.log_path) if " INFO job." not in line), maxlen=20))

        return await asyncio.to_thread(read)

    async def end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self.send(signal.SIGCONT)
            await self.kill()
        await asyncio.to_thread(end, self._orphans)
        self.log.close()


async def is_ready(member: Member) -> bool:
    assert member.status is None, f"daemon {member.name} ended with {member.status} at its start"
    host, port = member.url.removeprefix("http://").split(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(b"GET /readyz HTTP/1.1\r\nHost: storm\r\nConnection: close\r\n\r\n")
            answer = await reader.readline()
        finally:
            writer.close()
    except OSError:
        return False
    return b" 200 " in answer
