"""A data directory whose disk is full: refused with a clear error, nothing lost, and on again when there is room."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from functory.client import Client, ClientError
from tests.support.daemon_process import daemon, make_key
from tests.support.needs import missing

pytestmark = pytest.mark.slow

DISK_BYTES = 12 << 20
SETTINGS = {"journal_segment": "256KiB", "journal_min_free": "1MiB", "slots": "2"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of a few megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "functory-test", str(disk)]
    mounted = subprocess.run(command, check=False, capture_output=True, text=True)
    if mounted.returncode:
        missing("the right to mount a tmpfs", f"run the tests as root ({mounted.stderr.strip()})")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


async def test_a_full_disk_is_said_and_survived(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    async with daemon(small_disk / "data", SETTINGS) as server:
        key = await make_key(server, "acme")
        async with Client(server.url, key, "acme") as acme:
            await acme.put_handler("x", "python", "return payload[:20]")
            ids = (await acme.add_jobs("x", [f"before {n}" for n in range(200)])).ids or []
            await asyncio.to_thread(fill, ballast)
            with pytest.raises(ClientError) as refused:
                for _ in range(1000):
                    ids += (await acme.add_jobs("x", ["y" * 1000])).ids or []
            assert refused.value.status in {503, 507}
            assert "disk" in str(refused.value) or "space" in str(refused.value)
            assert server.status is None

            await asyncio.to_thread(ballast.unlink)
            ids += await accepted_again(acme)
            jobs = [await acme.get_job(id_, wait_s=60) for id_ in ids]
            assert {job.code for job in jobs} == {"ok"}
        assert await server.stop() == 0


def fill(path: Path) -> None:
    """To the last byte."""
    with path.open("wb", buffering=0) as file:
        step = 1 << 16
        while step:
            try:
                file.write(b"x" * step)
            except OSError:
                step //= 2


async def accepted_again(client: Client) -> list[str]:
    async with asyncio.timeout(60):
        while True:
            try:
                return (await client.add_jobs("x", ["after"])).ids or []
            except ClientError as error:
                assert error.status in {503, 507}, error
                await asyncio.sleep(0.1)  # another process: it looks for room again from time to time
