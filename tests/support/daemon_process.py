"""A real `functory serve` process for the acceptance tests: started on a free port, stopped, killed, stood still.

Ensures: a test that uses `daemon` leaves no process behind, however it ends, and a failure carries the daemon's log.
"""

import asyncio
import random
import re
import signal
import socket
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from aiohttp import ClientSession

from functory.client import Client
from functory.daemon.operator_key import OPERATOR_KEY_FILE
from tests.support.command_line import clean_environ
from tests.support.processes import Process, descendants, end

UNCONFINED: Final = {"min_isolation": "L0", "all_tenants_trusted": "true"}
"""Without a sandbox: for tests that are about the service, which then starts at once."""
QUICK: Final = {"poll": "100ms", "retry_base": "20ms", "retry_max": "50ms", "log_jobs": "false"}
SANDBOXED: Final = {"min_isolation": "L1", "all_tenants_trusted": "false"}

_LISTENS: Final = re.compile(rb"listens on (http://\S+)")
_RUNS: Final = re.compile(rb"Functory runs jobs of ")
_START_TIMEOUT_S: Final = 120.0
_STOP_TIMEOUT_S: Final = 60.0
_LOG_LINES: Final = 200


class DaemonProcess:
    """One process and what it has said on its standard error."""

    def __init__(self, process: asyncio.subprocess.Process, data_dir: Path) -> None:
        self._process = process
        self._lines: deque[bytes] = deque(maxlen=_LOG_LINES)
        self._said = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())
        self._orphans: set[Process] = set()
        self.data_dir = data_dir
        self.url = ""
        self.key = ""
        """An operator's key, if it is not in the data directory: the first daemon of a store has made it."""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        return self._process.returncode

    @property
    def log(self) -> str:
        """The last of it."""
        return b"".join(self._lines).decode(errors="replace")

    @property
    def operator_key(self) -> str:
        return (self.data_dir / OPERATOR_KEY_FILE).read_text().strip()

    async def says(self, pattern: "re.Pattern[bytes]", timeout_s: float = _START_TIMEOUT_S) -> "re.Match[bytes]":
        """Wait for a line of its log; one that it has said already will do."""
        async with asyncio.timeout(timeout_s), self._said:
            while True:
                for line in self._lines:
                    if match := pattern.search(line):
                        return match
                assert not self._reading.done(), f"the daemon ended with {self.status} before {pattern.pattern!r}"
                await self._said.wait()

    async def started(self) -> None:
        """Wait until it listens, or, without HTTP, until it runs jobs."""
        match = await self.says(re.compile(_LISTENS.pattern + b"|" + _RUNS.pattern))
        self.url = (match[1] or b"").decode()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def wait(self) -> int:
        """Until it has ended; its exit status."""
        async with asyncio.timeout(_STOP_TIMEOUT_S):
            status = await self._process.wait()
            await self._reading
        return status

    async def stop(self) -> int:
        """As an operator stops it."""
        self.send(signal.SIGTERM)
        return await self.wait()

    async def kill(self) -> set[Process]:
        """At once and without a word, as the kernel does it. Returns what it had started."""
        self._orphans = await asyncio.to_thread(descendants, self.pid)
        self.send(signal.SIGKILL)
        await self._process.wait()
        return self._orphans

    async def order(self, word: str) -> None:
        """An operator's order to this very daemon: start, stop (claim no more jobs) or quit."""
        await self._ask("POST", f"/{word}")

    async def metric(self, name: str) -> float:
        """One number of its /metrics, without labels."""
        match = re.search(rf"^functory_{name} (\S+)$", await self._ask("GET", "/metrics"), re.MULTILINE)
        assert match, f"there is no metric {name}"
        return float(match[1])

    async def _ask(self, method: str, path: str) -> str:
        key = self.key or await asyncio.to_thread(lambda: self.operator_key)
        headers = {"Authorization": f"Bearer {key}"}
        async with ClientSession() as session, session.request(method, self.url + path, headers=headers) as answer:
            text = await answer.text()
            assert answer.status < 300, text
            return text

    async def clean_up(self) -> None:
        """Whatever state it is in: end it and everything that it started.

        Without a sandbox the contexts of a killed daemon live on until their job is done.
        """
        started = self._orphans | await asyncio.to_thread(descendants, self.pid)
        if self.status is None:
            for number in (signal.SIGTERM, signal.SIGCONT):  # one that stands still gets it when it goes on
                self.send(number)
            with suppress(TimeoutError):
                await self.wait()
        await asyncio.to_thread(end, started)
        if self.status is None:
            self.send(signal.SIGKILL)
            await self.wait()

    async def _read(self) -> None:
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            async with self._said:
                self._lines.append(line)
                self._said.notify_all()
        async with self._said:
            self._said.notify_all()


def serve_command(data_dir: Path, settings: Mapping[str, str]) -> list[str]:
    """`serve` with its flags: quick ones and no sandbox unless the settings say otherwise."""
    given = {"data_dir": str(data_dir), "port": "0", **UNCONFINED, **QUICK, **settings}
    return ["serve", *(part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value))]


@asynccontextmanager
async def daemon(
    data_dir: Path,
    settings: Mapping[str, str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    prefix: Sequence[str] = (),
    **more: str,
) -> AsyncIterator[DaemonProcess]:
    """A daemon that listens. Settings are named as in `functory.toml`; quick ones and no sandbox are the defaults."""
    process = await asyncio.create_subprocess_exec(
        *prefix, sys.executable, "-m", "functory", *serve_command(data_dir, {**(settings or {}), **more}),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        # What a killed one leaves is removed with the test's.
        env=clean_environ() | {"TMPDIR": str(data_dir.parent)} | dict(environ or {}),
        cwd=data_dir.parent,
    )  # fmt: skip
    running = DaemonProcess(process, data_dir)
    try:
        await running.started()
        yield running
    except BaseException as error:
        error.add_note(f"The log of the daemon on {data_dir}:\n{running.log}")
        raise
    finally:
        await running.clean_up()


def free_port() -> int:
    """For daemons that share one, or come back to one; every other daemon finds its own. It is none of those that the
    kernel gives to whoever asks for any, so that nobody takes it in between."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


async def make_key(server: DaemonProcess, tenant: str, operator_key: str = "", **fields: object) -> str:
    """A new tenant's key."""
    key = operator_key or await asyncio.to_thread(lambda: server.operator_key)
    async with Client(server.url, key) as operator:
        await operator.create_tenant(tenant, **fields)
        return (await operator.create_key(tenant)).key


async def make_tenant(server: DaemonProcess, tenant: str, operator_key: str = "", **fields: object) -> Client:
    """A client of a new tenant, for an `async with`."""
    return Client(server.url, await make_key(server, tenant, operator_key, **fields), tenant)
