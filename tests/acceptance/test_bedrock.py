"""`functory serve --bedrock`: a real process, stopped and killed while programs talk to it."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from functory.client import Client
from tests.support.bedrock import Session
from tests.support.daemon_process import DaemonProcess, daemon

pytestmark = pytest.mark.slow
SPOKEN = re.compile(rb"is spoken on 127\.0\.0\.1:(\d+), for tenant acme")
KILLS = 4


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
