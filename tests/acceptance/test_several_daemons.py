"""Several daemons on one SQLite store: both work, one is killed or stands still, and each job has one outcome."""

import asyncio
import json
import signal
from pathlib import Path

import pytest

from functory.client import Client, ServerUnreachable
from tests.support.daemon_process import DaemonProcess, daemon, free_port, make_key
from tests.support.polling import until
from tests.support.processes import descendants, gone

pytestmark = pytest.mark.slow

LEASE = {"lease": "1s", "slots": "2"}
GATED = """
import json, os, time
where = json.loads(payload)
with open(where["runs"], "a") as file: file.write("run\\n")
while not os.path.exists(where["gate"]): time.sleep(0.02)
return {"attempt": ctx.attempt}
"""


async def test_both_run_jobs_of_one_store(tmp_path: Path) -> None:
    """Each job waits until jobs are running on both, which one daemon alone cannot make true with one slot."""
    store = {"store": f"sqlite:///{tmp_path}/shared.db", "slots": "1"}
    meet = """
import os, time
open(os.path.join(payload, ctx.id), "w").close()
while len(os.listdir(payload)) < 2: time.sleep(0.02)
"""
    async with daemon(tmp_path / "a", store) as a, daemon(tmp_path / "b", store) as b:
        key = await make_key(a, "acme")
        await asyncio.to_thread((tmp_path / "meeting").mkdir)
        async with Client(a.url, key, "acme") as by_a, Client(b.url, key, "acme") as by_b:
            await by_a.put_handler("meet", "python", meet)
            place = str(tmp_path / "meeting")
            ids = [
                *((await by_a.add_jobs("meet", [place])).ids or []),
                *((await by_b.add_jobs("meet", [place])).ids or []),
            ]
            assert len(set(ids)) == 2
            for id_ in ids:
                assert (await by_b.get_job(id_, wait_s=60)).code == "ok"


async def test_jobs_of_a_killed_daemon_run_on_the_other(tmp_path: Path) -> None:
    store = {"store": f"sqlite:///{tmp_path}/shared.db", **LEASE}
    where = {"runs": str(tmp_path / "runs"), "gate": str(tmp_path / "gate")}
    async with daemon(tmp_path / "b", store) as b:
        key = await make_key(b, "acme")
        async with (
            daemon(tmp_path / "a", store) as a,
            Client(b.url, key, "acme") as by_b,
            Client(a.url, key, "acme") as by_a,
        ):
            await by_b.put_handler("gated", "python", GATED, timeout_s=300)
            await b.order("stop")
            (id_,) = (await by_a.add_jobs("gated", [json.dumps(where)])).ids or []
            await lines_in(tmp_path / "runs", 1)
            await a.kill()
            await b.order("start")
            await lines_in(tmp_path / "runs", 2)
            await asyncio.to_thread((tmp_path / "gate").touch)
            job = await by_b.get_job(id_, wait_s=60)
            assert (job.code, job.result, job.attempts) == ("ok", '{"attempt":2}', 2)
            (row,) = (await by_b.scoreboard()).types
            assert (row.ok, row.running, row.waiting) == (1, 0, 0)


async def test_a_daemon_that_stood_still_past_the_lease_changes_nothing(tmp_path: Path) -> None:
    store = {"store": f"sqlite:///{tmp_path}/shared.db", **LEASE}
    where = {"runs": str(tmp_path / "runs"), "gate": str(tmp_path / "gate")}
    async with daemon(tmp_path / "b", store) as b, daemon(tmp_path / "a", store) as a:
        key = await make_key(b, "acme")
        a.key = await asyncio.to_thread(lambda: b.operator_key)
        async with Client(b.url, key, "acme") as by_b, Client(a.url, key, "acme") as by_a:
            await by_b.put_handler("gated", "python", GATED, timeout_s=300)
            await b.order("stop")
            (id_,) = (await by_a.add_jobs("gated", [json.dumps(where)])).ids or []
            await lines_in(tmp_path / "runs", 1)
            await stand_still(a, by_b)
            await b.order("start")
            await lines_in(tmp_path / "runs", 2)
            await asyncio.to_thread((tmp_path / "gate").touch)  # both runs end now
            job = await by_b.get_job(id_, wait_s=60)
            assert (job.code, job.result, job.attempts) == ("ok", '{"attempt":2}', 2)
            a.send(signal.SIGCONT)
            await until(lambda: a.metric("outcomes_stale_total"))
            assert await by_a.get_job(id_) == job
            row = next(row for row in (await by_a.scoreboard()).types if row.type == "gated")
            assert (row.ok, row.running, row.waiting) == (1, 0, 0)


async def test_a_daemon_that_stood_still_starts_nothing_that_it_has_lost(tmp_path: Path) -> None:
    """It held a batch of which the first job ran. The other daemon runs them all; the first, awake again, none."""
    store = {"store": f"sqlite:///{tmp_path}/shared.db", "lease": "1s", "slots": "1"}
    gate = tmp_path / "gate"
    where = [json.dumps({"runs": str(tmp_path / f"runs-{number}"), "gate": str(gate)}) for number in range(5)]
    async with daemon(tmp_path / "b", store) as b, daemon(tmp_path / "a", store) as a:
        key = await make_key(b, "acme")
        a.key = await asyncio.to_thread(lambda: b.operator_key)
        async with Client(b.url, key, "acme") as by_b, Client(a.url, key, "acme") as by_a:
            await by_b.put_handler("gated", "python", GATED, timeout_s=300, options={"max_batch": 1})
            await b.order("stop")
            await asyncio.to_thread(gate.touch)
            quick = json.dumps({"runs": str(tmp_path / "quick"), "gate": str(gate)})
            for id_ in (await by_a.add_jobs("gated", [quick] * 20)).ids or []:  # it learns that a job takes no time
                await by_a.get_job(id_, wait_s=60)
            await asyncio.to_thread(gate.unlink)
            ids = (await by_a.add_jobs("gated", where, ack="store")).ids or []
            await lines_in(tmp_path / "runs-0", 1)
            assert await a.metric("leases_held") == 5
            await stand_still(a, by_b)
            await b.order("start")
            await lines_in(tmp_path / "runs-0", 2)
            await asyncio.to_thread(gate.touch)
            assert [(await by_b.get_job(id_, wait_s=60)).code for id_ in ids] == ["ok"] * 5
            a.send(signal.SIGCONT)
            await until(lambda: a.metric("outcomes_stale_total"))
            await until(lambda: holds_nothing(a))
    runs = [await asyncio.to_thread((tmp_path / f"runs-{number}").read_text) for number in range(5)]
    assert [text.count("run") for text in runs] == [2, 1, 1, 1, 1]


async def holds_nothing(server: DaemonProcess) -> bool:
    return await server.metric("leases_held") == 0


async def test_a_daemon_that_stood_still_past_its_name_goes_on_with_it(tmp_path: Path) -> None:
    """Its sysid is part of the ids that it makes: it lapses, and even then nobody else may get it."""
    store = {"store": f"sqlite:///{tmp_path}/shared.db", "lease": "300ms"}
    async with daemon(tmp_path / "b", store) as b:
        key, operator_key = await make_key(b, "acme"), await asyncio.to_thread(lambda: b.operator_key)
        async with (
            Client(b.url, key, "acme") as by_b,
            Client(b.url, operator_key) as operator,
            daemon(tmp_path / "a", store) as a,
        ):
            await stand_still(a, by_b)
            await until(lambda: daemons_are(operator, 1))  # its name has lapsed
            async with daemon(tmp_path / "c", store) as c:
                a.send(signal.SIGCONT)
                await until(lambda: daemons_are(operator, 3))
                ids: list[str] = []
                for server in (a, b, c):
                    async with Client(server.url, key, "acme") as client:
                        ids += (await client.add_jobs("probe", ["x"], ack="store")).ids or []
                assert len({id_.split("-")[1] for id_ in ids}) == 3


async def test_several_processes_share_a_port_and_stop_together(tmp_path: Path) -> None:
    port = str(free_port())
    async with daemon(tmp_path / "data", processes="2", port=port) as server:
        key = await make_key(server, "acme")
        operator = await asyncio.to_thread(lambda: server.operator_key)
        async with Client(server.url, operator) as client:
            await until(lambda: daemons_are(client, 2))  # the second may still be starting
        ids: list[str] = []
        async with Client(server.url, key, "acme") as acme:
            await acme.put_handler("x", "python", "return payload")
        async with asyncio.timeout(60):
            while len({id_.split("-")[1] for id_ in ids}) < 2:  # a connection each, so that both get some
                async with Client(server.url, key, "acme") as acme:
                    ids += (await acme.add_jobs("x", [str(len(ids))])).ids or []
        async with Client(server.url, key, "acme") as acme:
            assert [(await acme.get_job(id_, wait_s=60)).result for id_ in ids] == [f'"{n}"' for n in range(len(ids))]
        started = await asyncio.to_thread(descendants, server.pid)
        assert await server.stop() == 0
        await gone(started)
        with pytest.raises(ServerUnreachable):
            async with Client(server.url, key, "acme") as acme:
                await acme.list_handlers()


async def stand_still(stopped: DaemonProcess, other: Client) -> None:
    """SIGSTOP it, but not in the middle of a write: SQLite has one writer, and everybody would wait for that one."""
    while True:
        stopped.send(signal.SIGSTOP)
        try:
            async with asyncio.timeout(2):
                await other.add_jobs("probe", ["x"], ack="store")
        except TimeoutError:
            stopped.send(signal.SIGCONT)
        else:
            return


async def lines_in(path: Path, count: int) -> None:
    def has_them() -> bool:
        return path.exists() and len(path.read_text().splitlines()) >= count

    await until(lambda: asyncio.to_thread(has_them))


async def daemons_are(operator: Client, count: int) -> bool:
    return len((await operator.list_daemons()).daemons) == count
