"""The journal beside its limit: plain `write + fdatasync` of the same bytes, one after the other, in the same run.

python -m bench.parts.journal [--json] [--lines N] [--directory DIR]
"""

import argparse
import asyncio
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiofiles

from bench.tools.report import Report, parse_arguments, quantile
from journal import Journal, JournalOptions, OsDisk
from journal.disk import OsFile
from journal.ids import IdSource
from journal.payloads import to_payloads
from journal.writes import frame_batches, lay_out, make_write

PAYLOAD = b"x" * 100
SECONDS = 1.0
OPTIONS = JournalOptions()
SLOW_SYNC_S = 0.005


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.parts.journal", description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000, help="lines that pass through in the memory test")
    parser.add_argument("--directory", type=Path, help="where to write (default: a temporary folder)")
    arguments = parse_arguments(parser, None)
    report = Report("journal", as_json=arguments.json)
    home = Path(tempfile.mkdtemp(prefix="bench-journal-", dir=arguments.directory))
    try:
        report.table("durable writes, 100-byte payloads, fdatasync", writes(home))
        report.table("with a sync that takes 5 ms more", slow_syncs(home))
        report.table("reading: reserve, read, rsync (with its sync)", reads(home))
        report.table("one durable line after the other, by how it gets off the event loop", hand_overs(home))
        report.table(f"{arguments.lines:,} lines pass through", pass_through(home, arguments.lines))
        report.finish()
    finally:
        shutil.rmtree(home)


def writes(home: Path) -> list[dict[str, Any]]:
    rows = []
    for lines in (1, 100, 1000):
        for writers in (1, 16, 64):
            before = limit(home, lines)
            speed, latencies = asyncio.run(load(OsDisk(home / "journal"), lines, writers))
            plain = (before + limit(home, lines)) / 2
            rows.append(
                {
                    "lines/write": lines,
                    "writers": writers,
                    "lines/s": speed,
                    "limit lines/s": plain,
                    "ratio": speed / plain,
                    "ack p50 ms": quantile(latencies, 0.5) * 1000,
                    "ack p99 ms": quantile(latencies, 0.99) * 1000,
                    "p99/p50": quantile(latencies, 0.99) / quantile(latencies, 0.5),
                }
            )
    return rows


def slow_syncs(home: Path) -> list[dict[str, Any]]:
    rows = []
    plain = limit(home, 1, extra_s=SLOW_SYNC_S)
    for writers in (1, 16, 64):
        speed, latencies = asyncio.run(load(SlowDisk(home / "journal"), 1, writers))
        rows.append(
            {
                "lines/write": 1,
                "writers": writers,
                "lines/s": speed,
                "limit lines/s": plain,
                "ratio": speed / plain,
                "ack p50 ms": quantile(latencies, 0.5) * 1000,
                "ack p99 ms": quantile(latencies, 0.99) * 1000,
            }
        )
    return rows


def reads(home: Path) -> list[dict[str, Any]]:
    async def scenario(lines: int) -> float:
        async with Journal(fresh(home), "b1", OPTIONS) as journal:
            await write_many(journal, lines, 200_000 if lines > 1 else 40_000)
            began, count = time.perf_counter(), 0
            while reservation := await journal.read_reserve(1000, 60):
                count += len(await journal.read(reservation))
                await journal.rsync(reservation)
            return count / (time.perf_counter() - began)

    return [{"lines/write": lines, "lines/s": asyncio.run(scenario(lines))} for lines in (1, 100, 1000)]


def hand_overs(home: Path) -> list[dict[str, Any]]:
    """Decides between aiofiles and a thread of the journal's own: docs/decisions/0003."""
    data = frame(1)

    async def through_aiofiles() -> float:
        async with aiofiles.open(home / "plain", "wb", buffering=0) as file:

            async def append() -> None:
                await file.write(data)
                await asyncio.to_thread(os.fdatasync, file.fileno())

            return await rate(append)

    async def through_journal() -> float:
        async with Journal(fresh(home), "b1", OPTIONS) as journal:

            async def append() -> None:
                await journal.write("bench-job", [PAYLOAD])

            return await rate(append)

    plain = limit(home, 1)
    ways = {"aiofiles, two hops": through_aiofiles, "the journal, one hop": through_journal}
    rows = [{"way": "no hop (the limit)", "writes/s": plain, "ratio": 1.0}]
    for name, way in ways.items():
        speed = asyncio.run(way())
        rows.append({"way": name, "writes/s": speed, "ratio": speed / plain})
    return rows


def pass_through(home: Path, total: int) -> list[dict[str, Any]]:
    """Write and read at once; what the process holds must not grow with what has passed."""

    async def scenario() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        async with Journal(fresh(home), "b1", OPTIONS) as journal:
            began = time.perf_counter()
            for tenth in range(1, 11):
                part = total // 10
                await asyncio.gather(write_many(journal, 1000, part), read_many(journal, part))
                if tenth in (1, 5, 10):
                    elapsed = time.perf_counter() - began
                    passed = part * tenth
                    rows.append({"lines": passed, "lines/s": passed / elapsed, "peak memory MB": peak_memory_mb()})
        return rows

    return asyncio.run(scenario())


async def write_many(journal: Journal, lines: int, total: int) -> None:
    batch = [PAYLOAD] * lines
    writers = 4 if lines > 1 else 64

    async def writer() -> None:
        for _ in range(total // lines // writers):
            await journal.write("bench-job", batch)

    await asyncio.gather(*[writer() for _ in range(writers)])


async def read_many(journal: Journal, total: int) -> None:
    count = 0
    while count < total - 4000:
        await journal.readable()
        while reservation := await journal.read_reserve(5000, 60):
            count += len(await journal.read(reservation))
            await journal.rsync(reservation)


async def load(disk: OsDisk, lines: int, writers: int) -> tuple[float, list[float]]:
    """Lines a second and the time to each acknowledgement, with all writers busy for a while."""
    shutil.rmtree(disk.directory, ignore_errors=True)
    batch = [PAYLOAD] * lines
    latencies: list[float] = []
    async with Journal(disk, "b1", OPTIONS) as journal:
        began = time.perf_counter()

        async def writer() -> None:
            now = time.perf_counter()
            while now - began < SECONDS:
                await journal.write("bench-job", batch)
                now, before = time.perf_counter(), now
                latencies.append(now - before)

        await asyncio.gather(*[writer() for _ in range(writers)])
        elapsed = time.perf_counter() - began
    return len(latencies) * lines / elapsed, latencies


def limit(home: Path, lines: int, extra_s: float = 0.0) -> float:
    """Lines a second of plain write + fdatasync, with nothing around it."""
    data = frame(lines)
    fd = os.open(home / "plain", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        began, count = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - began) < SECONDS / 2:
            os.write(fd, data)
            os.fdatasync(fd)
            time.sleep(extra_s)
            count += lines
        return count / elapsed
    finally:
        os.close(fd)


def frame(lines: int) -> bytes:
    """The bytes that the journal writes for these lines."""
    ids = IdSource("b1").take(lines, time.time_ns() // 1_000_000)
    payloads = to_payloads([PAYLOAD] * lines, OPTIONS)
    return frame_batches(lay_out([make_write(ids, "bench-job", payloads, {}, 0)]), 512, 7)


async def rate(append: Callable[[], Awaitable[None]]) -> float:
    began, count = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - began) < SECONDS:
        await append()
        count += 1
    return count / elapsed


def fresh(home: Path) -> Path:
    shutil.rmtree(home / "journal", ignore_errors=True)
    return home / "journal"


def peak_memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class SlowFile(OsFile):
    def sync(self) -> None:
        super().sync()
        time.sleep(SLOW_SYNC_S)


class SlowDisk(OsDisk):
    """A disk whose every sync takes 5 ms more, as a busy or a spinning one does."""

    def create(self, name: str) -> OsFile:
        return SlowFile(os.open(self.directory / name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


if __name__ == "__main__":
    main()
