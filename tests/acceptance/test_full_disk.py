"""A data directory whose disk is full: refused with a clear error, nothing lost, and on again when there is room."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohttp import ClientSession

from functory.client import Client, ClientError
from tests.support.daemon_process import DaemonProcess, daemon, make_key
from tests.support.needs import missing
from tests.support.polling import until
from tests.support.small_disk import SmallDisk

pytestmark = pytest.mark.slow

DISK_BYTES = 12 << 20
SETTINGS = {"journal_segment": "256KiB", "journal_min_free": "1MiB", "slots": "2", "grace": "2s"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "disk", DISK_BYTES)
    if trouble := disk.mount():
        missing("the right to mount a tmpfs", f"run the tests as root ({trouble})")
    yield disk
    disk.unmount()


async def test_a_full_disk_is_said_and_survived(small_disk: SmallDisk) -> None:
    async with daemon(small_disk.path / "data", SETTINGS) as server:
        key = await make_key(server, "acme")
        async with Client(server.url, key, "acme") as acme:
            await acme.put_handler("x", "python", "return payload[:20]")
            ids = (await acme.add_jobs("x", [f"before {n}" for n in range(200)])).ids or []
            await asyncio.to_thread(small_disk.fill)
            refused, more = await post_until_refused(acme)
            ids += more
            assert refused.status == 507
            assert refused.error_code == "disk_full"
            assert "disk" in str(refused)
            assert server.status is None

            assert await ready_status(server) == 503
            with pytest.raises(ClientError) as refused_secret:
                await acme.set_secret("API_KEY", "correct horse battery staple")
            assert refused_secret.value.status == 507
            assert not await asyncio.to_thread(lambda: list(server.data_dir.glob(".secrets.key.*")))

            await asyncio.to_thread(small_disk.free)
            await until(lambda: is_ready(server))  # although nobody posts: a balancer asks first
            ids += await until(lambda: accepted(acme))
            jobs = [await acme.get_job(id_, wait_s=60) for id_ in ids]
            assert {job.code for job in jobs} == {"ok"}
        assert await server.stop() == 0


async def ready_status(server: DaemonProcess) -> int:
    async with ClientSession() as session, session.get(f"{server.url}/readyz") as answer:
        return answer.status


async def is_ready(server: DaemonProcess) -> bool:
    return await ready_status(server) == 200


async def post_until_refused(client: Client) -> tuple[ClientError, list[str]]:
    ids: list[str] = []
    for _ in range(1000):
        try:
            ids += (await client.add_jobs("x", ["y" * 1000])).ids or []
        except ClientError as error:
            return error, ids
    raise AssertionError("the disk is full, and everything was accepted")


async def accepted(client: Client) -> list[str]:
    try:
        return (await client.add_jobs("x", ["after"])).ids or []
    except ClientError as error:
        if error.status != 507:
            raise
        return []
