"""A service on SQLite dies, its store is moved to MongoDB, and the daemon goes on there with its old journal."""

import asyncio
from pathlib import Path

import pytest

from functory.client import Client
from tests.support.command_line import functory
from tests.support.daemon_process import daemon, make_key
from tests.support.polling import until
from tests.support.stores import mongo_database
from tests.support.told import Told

pytestmark = pytest.mark.slow

JOBS = 400
HANDLER = "return payload"


async def all_ended(client: Client) -> bool:
    """Also those whose lines were still in the journal."""
    return sum(row.ok for row in (await client.scoreboard()).types) >= JOBS


async def test_from_one_machine_to_a_shared_store(tmp_path: Path) -> None:
    told = Told()
    data = tmp_path / "data"
    async with mongo_database(tmp_path) as mongo:
        async with daemon(data, lease="1s") as server:
            key = await make_key(server, "acme")
            async with Client(server.url, key, "acme") as acme:
                await acme.put_handler("x", "python", HANDLER)
                for start in range(0, JOBS, 100):
                    payloads = [f"{start + n}" for n in range(100)]
                    told.submit(payloads)
                    told.acknowledge((await acme.add_jobs("x", payloads)).ids or [], payloads)
            await server.kill()

        early = await functory("migrate", "--from", f"sqlite://{data}/functory.db", "--to", mongo)
        assert (early.status, "are alive" in early.err) in {(5, True), (0, False)}, early
        if early.status:
            moved = await functory("migrate", "--from", f"sqlite://{data}/functory.db", "--to", mongo, "--force")
            assert moved.status == 0, moved.err

        async with daemon(data, lease="10s", store=mongo) as server, Client(server.url, key, "acme") as acme:
            await until(lambda: all_ended(acme))
            page = await acme.results(type="x", limit=1000)
            ended = [(job.id, (await acme.get_job(job.id)).payload or "") for job in page.jobs]
            told.check(ended, told.acknowledged)
            (row,) = (await acme.scoreboard()).types
            assert row.ok == JOBS, "one outcome for each, those from before the move counted"
            assert (await acme.get_handler("x")).version == 1
        assert await asyncio.to_thread((data / "functory.db").exists), "the source is left as it is"
