"""A backup is taken from a daemon under load, the daemon dies, and what was restored elsewhere is held against what
clients were told."""

import asyncio
import re
from pathlib import Path

import pytest

from functory.client import Client, ClientError, ServerUnreachable
from tests.support.command_line import functory
from tests.support.daemon_process import DaemonProcess, daemon, make_key
from tests.support.polling import until
from tests.support.told import Told

pytestmark = pytest.mark.slow

BACKUPS = 2
CLIENTS = 3
SETTINGS = {"journal_segment": "32KiB", "lease": "2s"}
HANDLER = "return payload"


async def post(url: str, key: str, told: Told, number: int, is_over: asyncio.Event) -> None:
    """One client: it never sends the same job twice."""
    async with Client(url, key, "acme", timeout_s=10) as acme:
        for count in range(1_000_000):
            if is_over.is_set():
                return
            payloads = [f"{number}.{count}.{n}" for n in range(20)]
            told.submit(payloads)
            try:
                added = await acme.add_jobs("x", payloads)
            except (ClientError, ServerUnreachable):
                continue
            told.acknowledge(added.ids or [], payloads)


async def ended_of(client: Client, told: Told) -> list[tuple[str, str]]:
    """Everything that has ended. A listing is without payloads: they are asked for where nobody was told the id."""
    rows: list[tuple[str, str]] = []
    cursor: str | None = ""
    while cursor is not None:
        page = await client.results(type="x", limit=1000, cursor=cursor or None)
        for job in page.jobs:
            payload = told.acknowledged.get(job.id) or (await client.get_job(job.id)).payload or ""
            rows.append((job.id, payload))
        cursor = page.cursor
    return rows


async def all_ended(server: DaemonProcess, client: Client) -> bool:
    """Also those whose lines were still in the journal."""
    if await server.metric("journal_backlog_bytes"):
        return False
    return not any(row.waiting + row.deferred + row.running for row in (await client.scoreboard()).types)


def sysid_of(job_id: str) -> str:
    return job_id.split("-")[1]


async def test_nothing_acknowledged_before_the_backup_is_lost(tmp_path: Path) -> None:
    told, is_over = Told(), asyncio.Event()
    async with daemon(tmp_path / "data", SETTINGS) as server:
        key = await make_key(server, "acme")
        async with Client(server.url, key, "acme") as acme:
            await acme.put_handler("x", "python", HANDLER)
        posting = [asyncio.create_task(post(server.url, key, told, n, is_over)) for n in range(CLIENTS)]
        known: dict[str, str] = {}
        for number in range(BACKUPS):
            goal = len(told.acknowledged) + 800

            async def is_reached(goal: int = goal) -> bool:
                return len(told.acknowledged) >= goal

            await until(is_reached)
            known = dict(told.acknowledged)
            made = await functory("backup", str(tmp_path / f"backup{number}"), "--data-dir", str(tmp_path / "data"))
            assert made.status == 0, made.err
            assert re.search(r"store +[\d,]+ jobs, schema \d+", made.out), made.out
        assert len(told.acknowledged) > len(known), "the load went on during the backup"
        await server.kill()
        is_over.set()
        await asyncio.gather(*posting)

    last = str(tmp_path / f"backup{BACKUPS - 1}")
    elsewhere = tmp_path / "elsewhere"
    restored = await functory("restore", last, "--data-dir", str(elsewhere))
    assert restored.status == 0, restored.err
    assert "run again" in restored.out

    async with daemon(elsewhere, SETTINGS) as server, Client(server.url, key, "acme") as acme:
        await until(lambda: all_ended(server, acme))
        rows = await ended_of(acme, told)
        told.check(rows, known)
        (row,) = (await acme.scoreboard()).types
        assert row.ok == len(rows), "one outcome for each job, and no more"
        added = await acme.add_jobs("x", ["after the restore"])
        (new_id,) = added.ids or []
        assert sysid_of(new_id) not in {sysid_of(job_id) for job_id in told.acknowledged}
        job = await acme.get_job(new_id, wait_s=30)
        assert job.code == "ok"
