"""Daemons on one MongoDB: both work, one is killed, and the server itself goes away and comes back."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from functory.client import Client, ClientError
from tests.support.daemon_process import daemon, make_key
from tests.support.mongo_server import MongoServer, find_server
from tests.support.polling import until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server() -> Iterator[MongoServer]:
    """One of our own: a test kills it."""
    found = find_server()
    found.start()
    yield found
    found.close()


async def test_two_daemons_and_one_of_them_killed(server: MongoServer, tmp_path: Path) -> None:
    store = {"store": f"{server.url}{'acc_' + token_hex(4)}", "lease": "2s", "poll": "200ms"}
    async with daemon(tmp_path / "b", store) as b:
        key = await make_key(b, "acme")
        async with Client(b.url, key, "acme") as by_b:
            await by_b.put_handler("x", "python", "return payload")
            async with daemon(tmp_path / "a", store) as a, Client(a.url, key, "acme") as by_a:
                ids = (await by_a.add_jobs("x", [str(n) for n in range(100)], ack="store")).ids or []
                ids += (await by_b.add_jobs("x", [str(n) for n in range(100, 200)])).ids or []
                assert len(set(ids)) == 200
                await a.kill()
            results = [(await by_b.get_job(id_, wait_s=60)).result for id_ in ids]
            assert results == [f'"{n}"' for n in range(200)]
            await until(lambda: is_counted(by_b, 200))  # what the one that died had not counted yet, upkeep counts


async def test_intake_goes_on_while_the_store_is_away(server: MongoServer, tmp_path: Path) -> None:
    if not server.can_be_killed:
        pytest.skip("the server of FUNCTORY_TEST_MONGODB_URL is not ours to kill")
    store = {"store": f"{server.url}{'acc_' + token_hex(4)}", "poll": "200ms"}
    async with daemon(tmp_path / "data", store) as running:
        key = await make_key(running, "acme")
        async with Client(running.url, key, "acme") as acme:
            await acme.put_handler("x", "python", "return payload")
            ids = (await acme.add_jobs("x", ["0"])).ids or []
            assert (await acme.get_job(ids[0], wait_s=60)).code == "ok"
            await asyncio.to_thread(server.kill)
            for n in range(1, 50):
                ids += (await acme.add_jobs("x", [str(n)])).ids or []
            assert running.status is None
            await asyncio.to_thread(server.start)
            await until(lambda: have_ended(acme, len(ids)))
            results = [(await acme.get_job(id_, wait_s=60)).result for id_ in ids]
            assert results == [f'"{n}"' for n in range(50)]
        assert await running.stop() == 0


async def is_counted(client: Client, ok: int) -> bool:
    (row,) = (await client.scoreboard()).types
    return (row.ok, row.waiting, row.running) == (ok, 0, 0)


async def have_ended(client: Client, count: int) -> bool:
    """As far as the daemon can tell: it has to find its server again first."""
    try:
        return sum(row.ok for row in (await client.scoreboard()).types) == count
    except ClientError as error:
        if error.status != 503:
            raise
        return False
