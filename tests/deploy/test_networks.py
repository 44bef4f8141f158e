"""Daemons on one server of MongoDB's protocol, each in a network of its own: one link is cut and mended, another is
slow. No acknowledged job is lost, and none has two outcomes that count."""

import asyncio
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientSession

from functory.client import Client, ClientError, ServerUnreachable
from tests.support.daemon_process import DaemonProcess, daemon, make_key
from tests.support.mongo_server import MongoServer, shared_server
from tests.support.network import Link, links, need_namespaces
from tests.support.polling import until
from tests.support.told import Told

pytestmark = pytest.mark.slow

TIMEOUTS = "serverSelectionTimeoutMS=1500&socketTimeoutMS=3000&connectTimeoutMS=1500"
WAVES = 4
JOBS_A_WAVE = 60


@pytest.fixture
def server() -> MongoServer:
    need_namespaces()
    return shared_server()


async def test_a_cut_and_a_slow_link_lose_nothing_and_double_nothing(server: MongoServer, tmp_path: Path) -> None:
    address = urlsplit(server.url)
    assert address.hostname is not None
    assert address.port is not None
    database = f"net_{token_hex(4)}"
    told = Told()
    async with links(3, (address.hostname, address.port)) as ends:
        (steady, _), (cut, _), (slow, _) = ends
        settings = [
            {
                "store": f"mongodb://{link.here}:{port}/{database}?{TIMEOUTS}",
                "host": link.there,
                "lease": "4s",
                "poll": "200ms",
                "slots": "2",
            }
            for link, port in ends
        ]
        async with (
            daemon(tmp_path / "a", settings[0], prefix=steady.prefix) as a,
            daemon(tmp_path / "b", settings[1], prefix=cut.prefix) as b,
            daemon(tmp_path / "c", settings[2], prefix=slow.prefix) as c,
        ):
            key = await make_key(a, "acme")
            operator = await asyncio.to_thread(lambda: a.operator_key)
            b.key = c.key = operator
            async with Client(a.url, key, "acme") as acme:
                await acme.put_handler("x", "python", "import time\ntime.sleep(0.2)\nreturn payload")
                await until(lambda: _all_work(acme, told, [a, b, c], key))
                await _trouble(told, cut, slow, [a, b, c], key)
                await until(lambda: _all_ended(acme, told), timeout_s=180)
                ended = await _ended(acme)
                told.check(ended, told.acknowledged)
                (row,) = (await acme.scoreboard()).types
            assert len(told.acknowledged) >= WAVES * JOBS_A_WAVE
            # Every job counts once, however often it was delivered: a second outcome would be a second ok.
            assert (row.ok, row.running, row.waiting) == (len(ended), 0, 0)
            taken = [await each.metric("jobs_claimed_total") for each in (a, b, c)]
            assert all(taken), f"one daemon did nothing: {taken}"


async def _trouble(told: Told, cut: Link, slow: Link, daemons: list[DaemonProcess], key: str) -> None:
    """Jobs go in all the time, to every daemon that answers. c's link is slow; b's is cut while it holds jobs, and
    mended when others have taken them over, so that it comes back with outcomes that are too late."""
    a, b, c = daemons
    slow.delay_s = 0.15
    for wave in range(WAVES):
        await asyncio.gather(*[_submit(told, each, key, f"{wave}-{n}") for n, each in enumerate(daemons)])
        if wave == 0:
            await until(lambda: b.metric("leases_held"))
            await cut.cut()
        if wave == 2:
            await until(lambda: _taken_over([a, c]))
            await cut.mend()
    slow.delay_s = 0.0
    await until(lambda: _answers(b))


async def _taken_over(daemons: list[DaemonProcess]) -> bool:
    return any([await each.metric("leases_expired_total") for each in daemons])


async def _submit(told: Told, server: DaemonProcess, key: str, name: str) -> None:
    payloads = [f"{name}-{n}" for n in range(JOBS_A_WAVE // 3)]
    told.submit(payloads)
    async with Client(server.url, key, "acme", timeout_s=2) as client:
        try:
            added = await client.add_jobs("x", payloads)
        except (ServerUnreachable, ClientError):
            return  # unknown: they may have been taken or not
    told.acknowledge(added.ids or [], payloads)


async def _all_work(acme: Client, told: Told, daemons: list[DaemonProcess], key: str) -> bool:
    """Before the trouble begins each of them has run something."""
    await _submit(told, daemons[0], key, token_hex(4))
    return all([await each.metric("jobs_claimed_total") for each in daemons])


async def _answers(server: DaemonProcess) -> bool:
    try:
        async with ClientSession() as session, session.get(f"{server.url}/readyz") as answer:
            return answer.status == 200
    except OSError:
        return False


async def _ended(acme: Client) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    cursor: str | None = None
    while True:
        page = await acme.results(limit=500, cursor=cursor)
        ids = [job.id for job in page.jobs if job.state == "archived"]
        found += [(id_, (await acme.get_job(id_)).payload or "") for id_ in ids]
        cursor = page.cursor
        if cursor is None:
            return found


async def _all_ended(acme: Client, told: Told) -> bool:
    try:
        row = next(row for row in (await acme.scoreboard()).types if row.type == "x")
    except ClientError:
        return False
    return row.ok >= len(told.acknowledged) and not row.running and not row.waiting
