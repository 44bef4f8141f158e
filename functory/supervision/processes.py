"""Several daemons on one machine, sharing the port. A parent starts them, passes signals on, and replaces those that
die or hang. Each has its own journal; they share the store. They stop when the parent dies.

To the service manager, the parent is the service. It reports ready when all daemons are ready, and speaks for them from
then on. Its children report to it as they would to the manager (child_reports.py), so a child that hangs is replaced
alone, and the others go on.
"""

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from functory.supervision.child_reports import ChildReports, listen_to_child
from functory.supervision.notifier import Notifier
from functory.supervision.stop_signals import as_parent, when_asked_to_stop
from functory.supervision.watchdog import keep_watch

log = logging.getLogger("functory.processes")

_RESTART_PAUSE_S: Final = 1.0
_WRONG_SETTING: Final = 2
"""The exit status of a daemon that refuses its settings."""


class OwnPorts(NamedTuple):
    """Ports that the daemons do not share: the first has these, each other one the next. 0: none, or any."""

    status: int = 0
    wake: int = 0
    wake_host: str = ""


NO_PORTS: Final = OwnPorts()


def own_arguments(index: int, ports: OwnPorts = NO_PORTS) -> list[str]:
    """Arguments that differ from daemon to daemon. They come last on the command line, so they win."""
    status = ["--status-port", str(ports.status + index)] if ports.status else []
    wake = ["--wake", f"[{ports.wake_host}]:{ports.wake + index}"] if ports.wake else []
    return ["--processes", "1", "--share-port", "true", "--journal", journal_name(index), *status, *wake]


def journal_name(index: int) -> str:
    return f"journal-{index}"


def common_arguments(count: int) -> list[str]:
    """Each daemon knows the journals of the others, also before those are started. It empties the ones that remain from
    another number of daemons."""
    return ["--other-journals", ",".join(map(journal_name, range(count)))]


async def run_processes(count: int, arguments: Sequence[str], ports: OwnPorts, notifier: Notifier) -> int:
    """Run `functory serve` `count` times until asked to stop. 0 when all ended well, 2 when a setting is wrong."""
    family = _Family([*arguments, *common_arguments(count)], ports, notifier.watchdog_s)
    stop = asyncio.Event()

    def pass_on() -> None:
        if not stop.is_set():
            notifier.stopping()
        stop.set()
        family.terminate()

    when_asked_to_stop(pass_on)
    speaking = asyncio.create_task(_speak(notifier, family, count))
    try:
        statuses = await asyncio.gather(*[family.keep_running(index, stop) for index in range(count)])
    finally:
        speaking.cancel()
        with suppress(asyncio.CancelledError):
            await speaking
    return max(abs(status) for status in statuses)


async def _speak(notifier: Notifier, family: "_Family", count: int) -> None:
    await family.all_ready(count)
    notifier.ready("running")
    await keep_watch(notifier, lambda _: [], lambda: {} if len(family.children) == count else {"a daemon died": ""})


class _Family:
    def __init__(self, arguments: Sequence[str], ports: OwnPorts, watchdog_s: float | None) -> None:
        self._arguments = arguments
        self._ports = ports
        self._watchdog_s = watchdog_s
        self._ready: set[int] = set()
        self._news = asyncio.Condition()
        self.children: dict[int, asyncio.subprocess.Process] = {}

    def terminate(self) -> None:
        for child in self.children.values():
            with suppress(ProcessLookupError):
                child.terminate()

    async def all_ready(self, count: int) -> None:
        """Wait until each child has been ready once."""
        async with self._news:
            await self._news.wait_for(lambda: len(self._ready) == count)

    async def keep_running(self, index: int, stop: asyncio.Event) -> int:
        """Run one daemon, and another after it, until `stop`. Returns the exit status of the last. One that refuses its
        settings before it was ever ready stops all."""
        while True:
            async with listen_to_child(time.monotonic) as reports:
                child = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-P",  # nothing is imported from the folder in which it was started
                    "-m",
                    "functory",
                    "serve",
                    *self._arguments,
                    *own_arguments(index, self._ports),
                    env={**os.environ, **reports.environment(self._watchdog_s), **as_parent()},
                    process_group=0,  # a terminal's Ctrl-C reaches us alone, or it would count twice
                )
                self.children[index] = child
                if stop.is_set():
                    child.terminate()
                listening = asyncio.create_task(self._listen(index, child, reports))
                status = await child.wait()
                listening.cancel()
                del self.children[index]
            if stop.is_set():
                return 0 if status == -signal.SIGTERM else status  # it was stopped before it could end in order
            if status == _WRONG_SETTING and index not in self._ready:  # and would be wrong again
                log.error("processes.not_started", extra={"index": index, "status": status})
                stop.set()
                self.terminate()
                return status
            log.error("processes.died", extra={"index": index, "status": status})
            with suppress(TimeoutError):
                async with asyncio.timeout(_RESTART_PAUSE_S):
                    await stop.wait()
                    return 0

    async def _listen(self, index: int, child: asyncio.subprocess.Process, reports: ChildReports) -> None:
        await reports.ready.wait()
        async with self._news:
            self._ready.add(index)
            self._news.notify_all()
        if self._watchdog_s is not None:
            await reports.silence(self._watchdog_s)
            log.error("processes.stalled", extra={"index": index, "silent_s": self._watchdog_s})
            child.kill()
