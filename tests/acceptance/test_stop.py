"""Stopping: under load nothing is lost and nobody is left behind; a second signal hurries; a kill takes all with it."""

import asyncio
import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest

from functory.client import Client, ClientError, ServerUnreachable
from tests.support.daemon_process import SANDBOXED, DaemonProcess, daemon, free_port, make_key, make_tenant
from tests.support.needs import need_isolation
from tests.support.polling import until
from tests.support.processes import descendants, gone

pytestmark = pytest.mark.slow

ENDLESS = "import time\nopen(payload, 'w').close()\nwhile True: time.sleep(0.05)"


async def test_a_stop_under_load_loses_nothing_and_leaves_nobody(tmp_path: Path) -> None:
    await asyncio.to_thread(need_isolation)
    acknowledged: list[str] = []
    async with daemon(tmp_path / "data", SANDBOXED) as server:
        key = await make_key(server, "acme")

        async def post() -> None:
            async with Client(server.url, key, "acme") as acme:
                while True:
                    try:
                        added = await acme.add_jobs("x", [str(n) for n in range(20)])
                    except (ClientError, ServerUnreachable):
                        return  # it has stopped taking jobs
                    acknowledged.extend(added.ids or [])

        async with Client(server.url, key, "acme") as acme:
            await acme.put_handler("x", "python", "return payload")
            posters = [asyncio.create_task(post()) for _ in range(4)]
            await until(lambda: have_ended(acme, 100))
        started = await asyncio.to_thread(descendants, server.pid)
        assert started
        assert await server.stop() == 0
        await asyncio.gather(*posters)
        await gone(started)
    async with daemon(tmp_path / "data") as server, Client(server.url, key, "acme") as acme:
        codes = [(await acme.get_job(id_, wait_s=60)).code for id_ in acknowledged]
        assert codes == ["ok"] * len(acknowledged)
        (row,) = (await acme.scoreboard()).types
        assert row.ok >= len(acknowledged)


async def test_until_the_last_job_has_ended_others_are_taken(tmp_path: Path) -> None:
    """They run when a daemon is there again. Who waits for them is told how far they are, and is not cut off."""
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    async with daemon(tmp_path / "data", grace="1h") as server:
        key = await make_key(server, "acme")
        async with Client(server.url, key, "acme") as acme:
            await acme.put_handler("x", "python", gated(runs, gate), timeout_s=3000)
            (first,) = (await acme.add_jobs("x", ["-"])).ids or []
            await until(lambda: asyncio.to_thread(runs.exists))
            server.send(signal.SIGTERM)
            await server.says(re.compile(rb"daemon\.stopping"))
            (second,) = (await acme.add_jobs("x", ["-"])).ids or []
            waits = asyncio.create_task(acme.get_job(second, wait_s=60))
            assert "stopping" in (await acme.health()).problems  # whoever spreads requests sends them elsewhere
            await asyncio.to_thread(gate.touch)
            assert (await waits).state == "waiting"
        assert await server.wait() == 0
    async with daemon(tmp_path / "data") as server, Client(server.url, key, "acme") as acme:
        assert [(await acme.get_job(id_, wait_s=60)).attempts for id_ in (first, second)] == [1, 1]


async def test_a_second_signal_hurries(tmp_path: Path) -> None:
    """The grace period is longer than the test may take: only the second signal ends it."""
    async with daemon(tmp_path / "data", grace="1h") as server:
        key = await make_key(server, "acme")
        async with Client(server.url, key, "acme") as acme:
            await acme.put_handler("x", "python", ENDLESS, timeout_s=3000)
            (id_,) = (await acme.add_jobs("x", [str(tmp_path / "runs")])).ids or []
            await until(lambda: asyncio.to_thread((tmp_path / "runs").exists))
        started = await asyncio.to_thread(descendants, server.pid)
        server.send(signal.SIGTERM)
        await server.says(re.compile(rb"daemon\.stopping"))
        assert server.status is None
        assert await server.stop() == 0
        await gone(started)
    async with daemon(tmp_path / "data", role="api") as server, Client(server.url, key, "acme") as acme:
        job = await acme.get_job(id_)
        assert (job.state, job.attempts) == ("waiting", 0)  # given back, not left to its lease


async def test_ctrl_c_is_one_signal_for_several_processes(tmp_path: Path) -> None:
    """A terminal sends it to the whole group, and the parent passes it on."""
    runs, gate = tmp_path / "runs", tmp_path / "gate"
    async with daemon(tmp_path / "data", prefix=["setsid"], processes="2", port=str(free_port()), grace="1h") as server:
        key = await make_key(server, "acme")
        async with Client(server.url, key, "acme") as acme:
            await acme.put_handler("x", "python", gated(runs, gate), timeout_s=3000)
            (id_,) = (await acme.add_jobs("x", ["-"])).ids or []
            await until(lambda: asyncio.to_thread(runs.exists))
        async with Client(server.url, await asyncio.to_thread(lambda: server.operator_key)) as operator:
            await until(lambda: daemons_are(operator, 2))
        started = await asyncio.to_thread(descendants, server.pid)
        os.killpg(server.pid, signal.SIGINT)
        await until(lambda: stopping_are(server, 2))
        await asyncio.to_thread(gate.touch)
        assert await server.wait() == 0
        await gone(started)
    async with daemon(tmp_path / "data", role="api") as server, Client(server.url, key, "acme") as acme:
        assert (await acme.get_job(id_)).state == "archived"  # it was left to end, not given back


async def test_several_processes_end_with_their_parent(tmp_path: Path) -> None:
    async with daemon(tmp_path / "data", processes="2", port=str(free_port())) as server:
        async with Client(server.url, await asyncio.to_thread(lambda: server.operator_key)) as operator:
            await until(lambda: daemons_are(operator, 2))
        await gone(await server.kill())


@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_terminal_that_is_closed_asks_to_stop(tmp_path: Path, processes: str) -> None:
    async with daemon(tmp_path / "data", processes=processes, port=str(free_port())) as server:
        started = await asyncio.to_thread(descendants, server.pid)
        for _ in range(2):  # as a terminal and its shell may both do
            server.send(signal.SIGHUP)
        assert await server.wait() == 0
        await gone(started)


async def test_what_a_killed_daemon_had_started_ends_with_it(tmp_path: Path) -> None:
    await asyncio.to_thread(need_isolation)
    async with daemon(tmp_path / "data", SANDBOXED) as server, await make_tenant(server, "acme") as acme:
        await acme.put_handler("x", "python", "import time; time.sleep(1000)", timeout_s=3000)
        await acme.put_handler("y", "sh", "sleep 1000 & wait", timeout_s=3000)
        ids = [id_ for type_ in "xy" for id_ in (await acme.add_jobs(type_, ["-"])).ids or []]
        for id_ in ids:
            await until(partial(is_running, acme, id_))
        await gone(await server.kill())


async def test_asked_by_http_it_ends_as_by_a_signal(tmp_path: Path) -> None:
    async with daemon(tmp_path / "data") as server:
        await server.order("quit")
        assert await server.wait() == 0


def gated(runs: Path, gate: Path) -> str:
    """A handler that makes one file when it runs, and ends when there is the other."""
    return (
        f"import os, time\nopen({str(runs)!r}, 'w').close()\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.05)"
    )


async def stopping_are(server: DaemonProcess, count: int) -> bool:
    return server.log.count("daemon.stopping") == count


async def daemons_are(operator: Client, count: int) -> bool:
    return len((await operator.list_daemons()).daemons) == count


async def have_ended(client: Client, count: int) -> bool:
    return sum(row.ok for row in (await client.scoreboard()).types) >= count


async def is_running(client: Client, id_: str) -> bool:
    return (await client.get_job(id_)).state == "running"


async def test_after_a_kill_its_own_jobs_run_at_once(tmp_path: Path) -> None:
    """The lease is longer than the test may take: only the daemon's knowledge that it is its own ends it."""
    body = "import os, time\nopen(payload, 'a').close()\nwhile not os.path.exists(payload + '.go'): time.sleep(0.05)"
    async with daemon(tmp_path / "data", lease="1h") as server:
        key = await make_key(server, "acme")
        async with Client(server.url, key, "acme") as acme:
            await acme.put_handler("x", "python", body, timeout_s=3000)
            (id_,) = (await acme.add_jobs("x", [str(tmp_path / "runs")])).ids or []
            await until(lambda: asyncio.to_thread((tmp_path / "runs").exists))
        await server.kill()
    await asyncio.to_thread((tmp_path / "runs.go").touch)
    async with daemon(tmp_path / "data", lease="1h") as server, Client(server.url, key, "acme") as acme:
        job = await acme.get_job(id_, wait_s=60)
        assert (job.state, job.code, job.attempts) == ("archived", "ok", 2)
        assert "daemon.took_over" in server.log
