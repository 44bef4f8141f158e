"""`functory serve --bedrock`: a real process, stopped and killed while programs talk to it."""

import asyncio
import json
import re
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from functory.client import Client
from tests.support.bedrock import Session
from tests.support.daemon_process import DaemonProcess, daemon
from tests.support.needs import need_command
from tests.support.service import until

pytestmark = pytest.mark.slow
SPOKEN = re.compile(rb"is spoken on 127\.0\.0\.1:(\d+), for tenant acme")
KILLS = 4
MANY = 64


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[DaemonProcess]:
    async with daemon(folder, bedrock="127.0.0.1:0", bedrock_tenant="acme") as server:
        yield server


async def connect(server: DaemonProcess) -> Session:
    port = int((await server.says(SPOKEN))[1])
    return Session(*await asyncio.open_connection("127.0.0.1", port))


async def make_tenant(server: DaemonProcess) -> None:
    key = await asyncio.to_thread(lambda: server.operator_key)
    async with Client(server.url, key) as operator:
        await operator.create_tenant("acme")


async def test_a_kill_after_the_answer_to_finish_job_loses_neither_outcome_nor_carried_data(tmp_path: Path) -> None:
    for round_number in range(KILLS):
        async with serving(tmp_path / "data") as server:
            if round_number == 0:
                await make_tenant(server)
            session = await connect(server)
            if round_number == 0:
                feed = await session.ask("CreateJob", name="feed", repeat="FINISHED, +1 SECOND", data='{"n":0}')
                assert feed.json == {"jobID": 1}
            once = (await session.ask("CreateJob", name="once")).json["jobID"]
            assert once == 2 + round_number, "numbers go on after a kill"
            taken = await session.ask("GetJob", name="feed", Connection="wait", Timeout=60_000)
            assert taken.json == {"data": {"n": round_number}, "jobID": 1, "name": "feed"}
            assert (await session.ask("GetJob", name="once")).json["jobID"] == once
            session.send("FinishJob", jobID=once, data=f'{{"r":{round_number}}}')
            session.send("FinishJob", jobID=1, data=f'{{"n":{round_number + 1}}}')
            assert [(await session.reply()).status for _ in range(2)] == [200, 200]
            await server.kill()
            await session.close()
    async with serving(tmp_path / "data") as server:
        session = await connect(server)
        assert (await session.ask("QueryJob", jobID=1)).json["data"] == {"n": KILLS}
        for round_number in range(KILLS):
            ended = (await session.ask("QueryJob", jobID=2 + round_number)).json
            assert (ended["state"], ended["data"]) == ("FINISHED", {"r": round_number})
        await session.close()


async def test_a_stop_ends_those_who_wait_at_once_and_what_was_taken_is_finished_after_the_restart(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "data") as server:
        await make_tenant(server)
        session, waits = await connect(server), await connect(server)
        await session.ask("CreateJob", name="x")
        assert (await session.ask("GetJob", name="x")).json["jobID"] == 1
        waits.send("GetJob", name="x", Connection="wait")
        assert (await session.ask("QueryJob", jobID=1)).json["state"] == "RUNNING"
        assert await server.stop() == 0
        assert await waits.rest() == b"303 Timeout\n\n"
        for each in (session, waits):
            await each.close()
    async with serving(tmp_path / "data") as server:
        session = await connect(server)
        assert (await session.ask("FinishJob", jobID=1)).status == 200
        assert (await session.ask("QueryJob", jobID=1)).json["state"] == "FINISHED"
        await session.close()


@pytest.fixture
def nc() -> str:
    return need_command("nc", "netcat-openbsd")


@pytest.fixture
async def many_nc() -> AsyncIterator[list[Process]]:
    """A place for processes that are ended with the test."""
    started: list[Process] = []
    yield started
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_of_64_nc_that_wait_each_job_goes_to_one_and_those_that_were_killed_lose_none(
    tmp_path: Path, nc: str, many_nc: list[Process]
) -> None:
    async with serving(tmp_path / "data") as server:
        await make_tenant(server)
        port = (await server.says(SPOKEN))[1].decode()
        session = await connect(server)
        await session.ask("CreateJob", name="x", firstRun="2135-01-01")
        for _ in range(MANY):
            many_nc.append(await asyncio.create_subprocess_exec(nc, "127.0.0.1", port, stdin=PIPE, stdout=PIPE))
            _stdin(many_nc[-1]).write(b"GetJob\nname: x\nConnection: wait\nTimeout: 600000\n\n")
        await until(lambda: _waiting(server, MANY))
        for process in many_nc[::4]:
            process.kill()
        for _ in range(MANY):
            session.send("CreateJob", name="x")
        staying = [process for number, process in enumerate(many_nc) if number % 4]
        async with asyncio.timeout(60):
            taken = [await _read_job(process) for process in staying]
        assert {(await session.reply()).status for _ in range(MANY)} == {200}
        rest = (await session.ask("GetJobs", name="x", numResults=MANY)).json["jobs"]
        assert sorted([*taken, *(job["jobID"] for job in rest)]) == list(range(2, MANY + 2))
        await session.close()


def _stdin(process: Process) -> asyncio.StreamWriter:
    assert process.stdin
    return process.stdin


async def _read_job(process: Process) -> int:
    assert process.stdout
    head = await process.stdout.readuntil(b"\n\n")
    assert head.startswith(b"200 OK\n"), head
    body = await process.stdout.readexactly(int(head.rpartition(b"Content-Length: ")[2]))
    return int(json.loads(body)["jobID"])


async def _waiting(server: DaemonProcess, count: int) -> bool:
    return await server.metric("workers_waiting") == count
