"""The service manager is told the truth: over real sockets, by the parts and by whole daemons."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from functory.daemon.daemon import Daemon
from functory.supervision.child_reports import listen_to_child
from functory.supervision.notifier import Notifier
from functory.supervision.watchdog import keep_watch
from journal import DiskFull
from tests.support.clocks import FakeClock
from tests.support.daemon_process import daemon, free_port
from tests.support.notify_socket import Heard, notify_socket
from tests.support.processes import Process, descendants, gone
from tests.support.service import register, running_daemon


@pytest.mark.parametrize("is_abstract", [False, True])
async def test_a_message_arrives_at_a_path_and_at_an_abstract_name(tmp_path: Path, is_abstract: bool) -> None:
    async with notify_socket(None if is_abstract else tmp_path) as manager:
        notifier = Notifier(manager.address)
        notifier.ready("running\nSTOPPING=1")
        notifier.alive()
        notifier.stopping()
        await manager.hears("STOPPING=1")
        assert manager.messages == [
            ["READY=1", "STATUS=running STOPPING=1"],  # what is in a status cannot become a line of its own
            ["WATCHDOG=1"],
            ["STOPPING=1", "STATUS=stopping"],
        ]


def test_the_environment_is_read_once_and_not_handed_on() -> None:
    environ = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid()), "PATH": "/bin"}
    notifier = Notifier.from_environment(environ)
    assert (notifier.address, notifier.watchdog_s) == ("/run/x", 3.0)
    assert environ == {"PATH": "/bin"}


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},  # meant for another process
    ],
)
def test_who_is_not_watched_does_not_ping(environ: dict[str, str]) -> None:
    assert Notifier.from_environment(environ).watchdog_s is None


async def test_nobody_who_listens_is_no_error(tmp_path: Path) -> None:
    for address in ("", str(tmp_path / "nobody"), "@nobody-" + "x" * 20, "vsock:2:1234", "x" * 500):
        Notifier(address).ready("running")


async def test_silence_is_what_the_parent_hears_of_a_child_that_stands_still() -> None:
    clock = FakeClock()
    async with listen_to_child(clock.monotonic_s) as reports:
        child = Notifier(reports.environment(None)["NOTIFY_SOCKET"])
        child.ready("running")
        await reports.ready.wait()
        silence = asyncio.create_task(reports.silence(0.02))
        await asyncio.sleep(0)
        assert not silence.done()
        clock.advance(0.05)
        await silence


class Watched:
    """A daemon under a watchdog, what the manager hears of it, and how often the watchdog has looked."""

    def __init__(self, running: Daemon, manager: Heard) -> None:
        self._running = running
        self.manager = manager
        self._looks: asyncio.Queue[None] = asyncio.Queue()

    def stalled(self, longer_than_s: float) -> list[str]:
        self._looks.put_nowait(None)
        return self._running.vitals.stalled(longer_than_s)

    async def looks(self, count: int) -> None:
        """Until it has looked so many times from now on."""
        while not self._looks.empty():
            self._looks.get_nowait()
        for _ in range(count):
            await self._looks.get()


@asynccontextmanager
async def watched(running: Daemon, watchdog_s: float = 0.2) -> AsyncIterator[Watched]:
    async with notify_socket() as manager:
        notifier = Notifier(manager.address, watchdog_s)
        it = Watched(running, manager)
        watch = asyncio.create_task(keep_watch(notifier, it.stalled, lambda: running.health().problems))
        try:
            yield it
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)


@pytest.mark.parametrize(
    ("verb", "loop"),
    [
        ("add_jobs", "ingest"),
        ("get_waiting_jobtypes", "execute"),
        ("claim_jobs", "execute"),
        ("release_jobs", "outbox"),
        ("expire_locks", "expire_leases"),
        ("list_tenants", "refresh_tenants"),
    ],
)
async def test_a_loop_that_stands_still_is_not_called_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, loop: str
) -> None:
    """The event loop turns all the time: being alive is not enough."""
    go_on = asyncio.Event()
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(running_daemon(tmp_path, straight="off"))
        watch = await stack.enter_async_context(watched(running))
        stack.callback(go_on.set)  # or a daemon that is asked to stop would wait for what stands still
        manager = watch.manager
        await register(running, "acme-x", "return payload")
        await manager.hears("WATCHDOG=1")
        call = getattr(running.store, verb)

        async def stand_still(*given: Any, **named: Any) -> Any:
            await go_on.wait()
            return await call(*given, **named)

        monkeypatch.setattr(running.store, verb, stand_still)
        await running.journal.write("acme-x", ["x"])
        assert loop in await manager.hears("STATUS=stalled")
        manager.forget()
        await watch.looks(3)
        assert loop in running.vitals.stalled(0.1)
        assert running.gauges()["longest_step_seconds"] > 0.1
        assert "WATCHDOG=1" not in manager.lines()
        go_on.set()
        await manager.hears("WATCHDOG=1")
        await manager.hears("STATUS=running")


async def test_a_write_that_hangs_in_the_disk_is_not_called_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    async with running_daemon(tmp_path) as running, watched(running) as watch:
        manager = watch.manager
        append = running.journal._writer.append

        def hang(batches: Any) -> Any:
            go_on.wait()
            return append(batches)

        monkeypatch.setattr(running.journal._writer, "append", hang)
        write = asyncio.create_task(running.journal.write("acme-x", ["x"]))
        assert await manager.hears("STATUS=stalled") == "STATUS=stalled: journal"
        go_on.set()
        await write
        manager.forget()
        await manager.hears("WATCHDOG=1")


async def test_an_idle_daemon_is_alive_and_says_what_is_wrong(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as running, watched(running, 0.05) as watch:
        manager = watch.manager
        await manager.hears("STATUS=running")
        running.journal._trouble.begin(DiskFull("the disk is full"))
        assert await manager.hears("STATUS=running, with") == "STATUS=running, with problems: journal"
        manager.forget()
        await manager.hears("WATCHDOG=1")
        running.journal._trouble.end()


@pytest.mark.slow
async def test_a_daemon_tells_when_it_is_ready_and_when_it_stops(tmp_path: Path) -> None:
    async with notify_socket(tmp_path) as manager:
        environ = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "400000"}
        async with daemon(tmp_path / "data", environ=environ) as server:
            await manager.hears("READY=1")
            assert manager.lines()[0] == "READY=1"
            await manager.hears("WATCHDOG=1")
            assert await server.stop() == 0
        assert "STOPPING=1" in manager.lines()


@pytest.mark.slow
async def test_the_parent_of_several_speaks_for_all_and_replaces_one_that_stands_still(tmp_path: Path) -> None:
    async with notify_socket(tmp_path) as manager:
        environ = {"NOTIFY_SOCKET": manager.address, "WATCHDOG_USEC": "1500000"}
        async with daemon(
            tmp_path / "data", processes="2", port=str(free_port()), status_port=str(free_port()), environ=environ
        ) as server:
            await manager.hears("READY=1")
            assert manager.lines().count("READY=1") == 1, "the children do not speak to the manager"
            children = await asyncio.to_thread(_daemons_below, server.pid)
            assert len(children) == 2
            victim = min(children)
            os.kill(victim.pid, signal.SIGSTOP)
            await gone({victim})
            manager.forget()
            await manager.hears("WATCHDOG=1")
            assert await server.stop() == 0
        assert "STOPPING=1" in manager.lines()


def _daemons_below(pid: int) -> set[Process]:
    return {it for it in descendants(pid) if b"\0serve\0" in Path(f"/proc/{it.pid}/cmdline").read_bytes()}
