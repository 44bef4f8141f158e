"""Faults on a real file system: writers get the right error, nothing acknowledged is lost, nothing that failed is ever
read, and intake resumes when it can."""

import asyncio
import errno
import resource
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from journal import DiskFull, Journal, JournalOptions, JournalUnavailable, OsDisk
from journal.disk import file_size
from journal.segment import segment_name
from tests.support.faulty_disk import FaultyDisk, fails_with
from tests.support.needs import missing

OPTIONS = JournalOptions(segment_bytes=20_000, min_free_bytes=0)


class Client:
    """Writes lines and remembers which were acknowledged and which were refused."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.acknowledged: list[bytes] = []
        self.errors: list[JournalUnavailable] = []

    async def write(self, count: int, size: int = 100) -> None:
        for _ in range(count):
            line = f"{len(self.acknowledged)}:{len(self.errors)}".encode().ljust(size, b".")
            try:
                await self.journal.write("a-b", [line])
            except JournalUnavailable as error:
                self.errors.append(error)
            else:
                self.acknowledged.append(line)


async def read_all(journal: Journal) -> list[bytes]:
    records = []
    while reservation := await journal.read_reserve(1000, 60):
        records += await journal.read(reservation)
    return [record.payload for record in records]


async def check(client: Client, directory: Path) -> None:
    """Now, and after a restart, exactly the acknowledged lines are there."""
    assert await read_all(client.journal) == client.acknowledged
    await client.journal.close()
    async with Journal(directory, "a7", OPTIONS) as journal:
        assert await read_all(journal) == client.acknowledged
        assert journal.stats().damages == 0


@pytest.mark.parametrize("nth", range(1, 12))
async def test_a_failing_sync_fails_its_writers_and_nothing_else(tmp_path: Path, nth: int) -> None:
    disk = FaultyDisk(tmp_path)
    journal = Journal(disk, "a7", OPTIONS)
    await journal.open()
    client = Client(journal)
    disk.fail_nth("sync", nth)
    await client.write(15)
    assert len(client.errors) == 1
    assert not isinstance(client.errors[0], DiskFull)
    assert journal.stats().trouble == ""
    await check(client, tmp_path)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("nth", range(1, 6))
async def test_a_failing_write_leaves_nothing_half_written(tmp_path: Path, nth: int, code: int) -> None:
    disk = FaultyDisk(tmp_path)
    journal = Journal(disk, "a7", OPTIONS)
    await journal.open()
    client = Client(journal)
    disk.fail_nth("write", nth, code)
    await client.write(8)
    (error,) = client.errors
    assert isinstance(error, DiskFull) == (code != errno.EIO)
    await check(client, tmp_path)


@pytest.mark.parametrize("operation", ["create", "sync_directory"])
async def test_a_segment_that_cannot_be_begun_is_tried_again(tmp_path: Path, operation: str) -> None:
    disk = FaultyDisk(tmp_path)
    journal = Journal(disk, "a7", OPTIONS)
    await journal.open()
    client = Client(journal)
    await client.write(10, size=1500)
    disk.faults[operation] = fails_with(errno.ENOSPC)
    await client.write(10, size=1500)
    assert client.errors
    assert "No space" in journal.stats().trouble
    del disk.faults[operation]
    await client.write(10, size=1500)
    assert journal.stats().trouble == ""
    await check(client, tmp_path)


async def test_a_sync_and_the_cut_after_it_may_both_fail(tmp_path: Path) -> None:
    """Then the bytes stay in the file, and the next segment's header says that they do not count."""
    disk = FaultyDisk(tmp_path)
    journal = Journal(disk, "a7", OPTIONS)
    await journal.open()
    client = Client(journal)
    await client.write(3)
    disk.faults["truncate"] = fails_with(errno.EIO)
    disk.fail_nth("sync", 1)
    await client.write(3)
    assert len(client.errors) == 1
    await check(client, tmp_path)


async def test_all_writers_of_a_group_hear_of_its_failure(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    async with Journal(disk, "a7", OPTIONS) as journal:
        await journal.write("a-b", ["0"])
        disk.faults["sync"] = fails_with(errno.EIO)
        outcomes = await asyncio.gather(*[journal.write("a-b", [str(n)]) for n in range(30)], return_exceptions=True)
        assert all(isinstance(outcome, JournalUnavailable) for outcome in outcomes)
        assert len({id(outcome) for outcome in outcomes}) == 30
        disk.faults.clear()


async def test_short_writes_are_completed(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    disk.faults["short_write"] = lambda: None
    journal = Journal(disk, "a7", OPTIONS)
    await journal.open()
    client = Client(journal)
    await client.write(10, size=5000)
    assert not client.errors
    await check(client, tmp_path)


async def test_room_is_left_for_the_store(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    async with Journal(disk, "a7", JournalOptions(min_free_bytes=1_000_000)) as journal:
        disk.free = 1_000_010
        with pytest.raises(DiskFull, match="1000000 are left to the store"):
            await journal.write("a-b", ["x"])
        disk.free = 2_000_000
        await journal.write("a-b", ["x"])


async def test_intake_resumes_although_nobody_writes(tmp_path: Path) -> None:
    """A balancer sends nothing to a daemon that has trouble."""
    disk = FaultyDisk(tmp_path)
    async with Journal(disk, "a7", JournalOptions(min_free_bytes=1_000_000)) as journal:
        disk.free = 900_000
        with pytest.raises(DiskFull):
            await journal.write("a-b", ["x"])
        await journal.try_again()
        assert "900000 bytes are free" in journal.stats().trouble
        disk.free = 2_000_000
        await journal.try_again()
        assert journal.stats().trouble == ""


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("operation", ["write", "sync"])
async def test_a_disk_that_failed_is_tried_with_a_new_segment(tmp_path: Path, operation: str, code: int) -> None:
    disk = FaultyDisk(tmp_path)
    journal = Journal(disk, "a7", OPTIONS)
    await journal.open()
    client = Client(journal)
    await client.write(3)
    disk.faults[operation] = fails_with(code)
    await client.write(1)
    await journal.try_again()
    assert journal.stats().trouble
    disk.faults.clear()
    await journal.try_again()
    assert journal.stats().trouble == ""
    await client.write(3)
    assert len(client.errors) == 1
    await check(client, tmp_path)


async def test_a_segment_without_lines_is_not_left_for_another(tmp_path: Path) -> None:
    """Nobody would remove it before the next start: the room on the disk decides."""
    disk = FaultyDisk(tmp_path)
    async with Journal(disk, "a7", OPTIONS) as journal:
        disk.fail_nth("write", 2, errno.ENOSPC)  # the first is the header
        disk.free = 1000
        with pytest.raises(DiskFull):
            await journal.write("a-b", ["x"])
        await journal.try_again()
        assert "No space" in journal.stats().trouble
        disk.free = 1_000_000
        await journal.try_again()
        assert journal.stats().trouble == ""
        assert [name for name in await asyncio.to_thread(disk.names) if name.endswith(".journal")] == [segment_name(1)]


async def test_a_write_that_alone_is_too_large_for_the_disk_is_no_trouble(tmp_path: Path) -> None:
    """Or one tenant could have a daemon taken out of service."""
    disk = FaultyDisk(tmp_path)
    async with Journal(disk, "a7", JournalOptions(min_free_bytes=1_000_000)) as journal:
        disk.free = 1_100_000
        with pytest.raises(DiskFull):
            await journal.write("a-b", ["x" * 200_000])
        assert journal.stats().trouble == ""
        await journal.write("a-b", ["x"])


@pytest.fixture
def file_size_limit() -> Iterator[int]:
    """No file of this process may grow past this: the kernel cuts the write short, then refuses it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = 10_000
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    yield limit
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_size_limit_of_the_kernel_is_disk_full(tmp_path: Path, file_size_limit: int) -> None:
    journal = Journal(tmp_path, "a7", OPTIONS)
    await journal.open()
    client = Client(journal)
    await client.write(12, size=1500)
    assert client.errors
    assert all(isinstance(error, DiskFull) for error in client.errors)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    refused = len(client.errors)
    await client.write(3, size=1500)
    assert len(client.errors) == refused, "intake resumes when there is room"
    await check(client, tmp_path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k,mode=0700", "tmpfs", tmp_path], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        missing("the right to mount a tmpfs", "run the tests as root")
    yield tmp_path
    subprocess.run(["umount", "--lazy", tmp_path], check=True)


async def test_a_full_disk_refuses_loses_nothing_and_resumes(small_disk: Path) -> None:
    journal = Journal(small_disk / "journal", "a7", OPTIONS)
    await journal.open()
    client = Client(journal)
    await client.write(60, size=10_000)
    assert client.errors
    assert all(isinstance(error, DiskFull) for error in client.errors)
    assert "No space" in journal.stats().trouble
    for _ in range(5):
        reservation = await journal.read_reserve(3, 60)
        assert reservation
        await journal.read(reservation)
        await journal.rsync(reservation)
        del client.acknowledged[: reservation.span.lines]
    refused = len(client.errors)
    await client.write(3, size=10_000)
    assert len(client.errors) == refused, "reading up frees space, and intake resumes"
    await check(client, small_disk / "journal")


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
async def test_whole_frames_of_a_write_that_failed_are_never_read(tmp_path: Path, code: int) -> None:
    """Of writes that share a sync some are on the disk whole when a later one does not fit: none of them counts."""
    disk, thread, gate = FaultyDisk(tmp_path), ThreadPoolExecutor(1), threading.Event()
    make_executor = {"journal-write": thread, "journal-read": ThreadPoolExecutor(1)}.__getitem__
    journal = Journal(disk, "a7", OPTIONS, make_executor=make_executor)
    await journal.open()
    await journal.write("a-first", [b"acknowledged"])
    thread.submit(gate.wait)
    writes = [asyncio.ensure_future(journal.write(f"a-type{number}", [b"x" * 300])) for number in range(12)]
    await asyncio.sleep(0)  # now all of them wait for the thread, and become one write
    disk.fail_nth("write", 1, code)
    gate.set()
    results = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(result) for result in results] == [DiskFull if code == errno.ENOSPC else JournalUnavailable] * 12
    assert await read_all(journal) == [b"acknowledged"]
    await journal.close()
    async with Journal(tmp_path, "a7", OPTIONS) as again:
        assert await read_all(again) == [b"acknowledged"]


@pytest.mark.parametrize("also_fails", ["nothing", "truncate"])
@pytest.mark.parametrize("operation", ["sync", "write"])
async def test_what_was_refused_does_not_come_back_with_a_power_cut(
    tmp_path: Path, operation: str, also_fails: str
) -> None:
    """However much of it is on the disk: before anybody hears of the refusal, it is on the disk that it does not count.
    A cut is not: it may have failed, and is not synced on a file whose sync has failed."""
    disk, gate = FaultyDisk(tmp_path), threading.Event()
    make_executor = {"journal-write": ThreadPoolExecutor(1), "journal-read": ThreadPoolExecutor(1)}
    async with Journal(disk, "a7", OPTIONS, make_executor=make_executor.__getitem__) as journal:
        await journal.write("a-first", [b"acknowledged"])
        size_before = await asyncio.to_thread(file_size, OsDisk(tmp_path), segment_name(1))
        make_executor["journal-write"].submit(gate.wait)
        writes = [asyncio.ensure_future(journal.write(f"a-type{number}", [b"x" * 300])) for number in range(12)]
        await asyncio.sleep(0)  # now all of them wait for the thread, and become one write
        disk.fail_nth(operation, 1)
        disk.keeps_what_is_cut = True
        if also_fails != "nothing":
            disk.faults[also_fails] = fails_with(errno.EIO)
        gate.set()
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(result) for result in results] == [JournalUnavailable] * 12
        assert await asyncio.to_thread(file_size, OsDisk(tmp_path), segment_name(1)) > size_before + 2000
        disk.unlock()  # the power cut
        async with Journal(tmp_path, "a7", OPTIONS) as again:
            assert await read_all(again) == [b"acknowledged"]
            assert again.stats().damages == 0


@pytest.mark.parametrize("operation", ["create", "write"])
async def test_a_torn_end_that_a_full_disk_has_no_copy_of_stays_and_is_not_read(tmp_path: Path, operation: str) -> None:
    """Or the journal could not be opened that would make room by being read up."""
    async with Journal(tmp_path, "a7", OPTIONS) as journal:
        await journal.write("a-b", [b"acknowledged"])
    segment = tmp_path / segment_name(1)
    content = await asyncio.to_thread(segment.read_bytes)
    await asyncio.to_thread(segment.write_bytes, content + content[512:-700] + b"torn")
    disk = FaultyDisk(tmp_path)
    disk.fail_nth(operation, 1, errno.ENOSPC)
    async with Journal(disk, "a7", OPTIONS) as journal:
        assert [finding.is_damage for finding in journal.findings] == [False]
        assert await read_all(journal) == [b"acknowledged"]
        await journal.write("a-b", [b"more"])
    async with Journal(tmp_path, "a7", OPTIONS) as journal:
        assert await read_all(journal) == [b"acknowledged", b"more"]
        assert journal.stats().damages == 0
