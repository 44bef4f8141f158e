"""A daemon starts on a full disk: what waits in its journal is read up, which makes room."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from journal import Journal, JournalOptions
from tests.support.needs import missing
from tests.support.service import ended, register, running_daemon
from tests.support.small_disk import SmallDisk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    small = SmallDisk(tmp_path / "small", 1 << 20)
    if reason := small.mount():
        missing("the right to mount a tmpfs", reason)
    yield small
    small.unmount()


async def test_lines_in_the_journal_run_although_its_disk_is_full(disk: SmallDisk, tmp_path: Path) -> None:
    store = f"sqlite://{tmp_path}/store.db"
    async with running_daemon(disk.path, store=store) as daemon:
        await register(daemon, "acme-x", "return payload")
    async with Journal(disk.path / "journal", "a7", JournalOptions(min_free_bytes=0)) as journal:
        ids = await journal.write("acme-x", ["a", "b"])
    await asyncio.to_thread(disk.fill)
    async with running_daemon(disk.path, store=store) as daemon:
        for job_id in ids:
            await ended(daemon, job_id)
