"""The store beside its limit (the same SQL without our layer), and how its cost grows with the backlog.

python -m bench.parts.store [--json] [--rounds N] [--batches N ...] [--waiting N ...] [--types N ...]

On a shared machine a single round is worth little: ours and the limit take turns, the best of each counts, and
processor time is told beside the clock. Ten million waiting jobs take minutes and gigabytes, so they are asked
for: `--waiting 10000 10000000`.
"""

import argparse
import asyncio
import contextlib
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from bench.parts.store_limit import NOW_MS, Limit, fill
from bench.tools.report import Report, parse_arguments, quantile
from functory.daemon.garbage_collector import settle_garbage
from store.base import Archive, Code, Job, NewJob, Outcome, Store
from store.url import open_store

LOADS: Final = ((1, 1), (1, 64), (100, 1), (500, 1), (1000, 1))
"""Jobs in a batch, and callers at once. The limit always has one caller: it has no group commit."""

ROUNDS: Final = 5
OWNER: Final = "a7"

T = TypeVar("T")
R = TypeVar("R")
CLAIM: Final = 10  # jobs of one claim in the growth table: every type has as many even in the smallest backlog
WARM: Final = 10
MEASURED: Final = 61
BULK_BATCHES: Final = 40


class Costs(NamedTuple):
    """What one job costs, in microseconds: of the clock, or of all processors."""

    add: float
    claim: float
    release: float

    @property
    def through(self) -> float:
        """All three, one after the other."""
        return self.add + self.claim + self.release


class Round(NamedTuple):
    wall: Costs
    cpu: Costs


class Stopwatch:
    """Laps of wall clock and processor time, of all threads."""

    def __init__(self, jobs: int) -> None:
        self._per_job = 1e6 / jobs
        self._last = (time.perf_counter(), time.process_time())
        self._laps: list[tuple[float, float]] = []

    def start(self) -> None:
        self._last = (time.perf_counter(), time.process_time())

    def lap(self) -> None:
        now = (time.perf_counter(), time.process_time())
        self._laps.append(((now[0] - self._last[0]) * self._per_job, (now[1] - self._last[1]) * self._per_job))

    def round(self) -> Round:
        wall, cpu = zip(*self._laps, strict=True)
        return Round(Costs(*wall), Costs(*cpu))


def make_jobs(count: int) -> list[NewJob]:
    """100-byte payloads; ids as the journal makes them."""
    data = b"x" * 100
    return [
        NewJob(f"20261114T235959{n // 1000:03d}Z-a7-{n:06x}", "bench-a", data, NOW_MS - 100_000 + n, NOW_MS)
        for n in range(count)
    ]


async def by_callers(work: Callable[[T], Awaitable[R]], batches: list[T], callers: int) -> list[R]:
    """The work of all batches, shared by a number of callers who each wait for their own results."""
    results: list[R] = []
    left = iter(batches)

    async def caller() -> None:
        for batch in left:
            results.append(await work(batch))  # noqa: PERF401 - one caller after the other is the point

    await asyncio.gather(*(caller() for _ in range(callers)))
    return results


async def our_round(url: str, batches: list[list[NewJob]], callers: int) -> Round:
    size = len(batches[0])
    watch = Stopwatch(size * len(batches))
    async with open_store(url) as store:

        async def add(batch: list[NewJob]) -> None:
            await store.add_jobs(batch, now_ms=NOW_MS)

        async def claim(_: list[NewJob]) -> list[Job]:
            return await store.claim_jobs("bench-a", size, owner=OWNER, lease_ms=60_000, now_ms=NOW_MS)

        async def release(batch: list[Archive]) -> None:
            report = await store.release_jobs(OWNER, batch, now_ms=NOW_MS)
            assert report.applied == size

        watch.start()
        await by_callers(add, batches, callers)
        watch.lap()
        watch.start()
        claimed = await by_callers(claim, batches, callers)
        watch.lap()
        ended = Outcome(Code.OK, 200, NOW_MS, 150, b"ok", b"", 1, "L3")
        releases = [[Archive(job.id, job.token, ended) for job in batch] for batch in claimed]
        watch.start()
        await by_callers(release, releases, callers)
        watch.lap()
    return watch.round()


def limit_round(path: Path, batches: list[list[NewJob]]) -> Round:
    size = len(batches[0])
    watch = Stopwatch(size * len(batches))
    with contextlib.closing(Limit(path)) as limit:
        watch.start()
        limit.add(batches)
        watch.lap()
        watch.start()
        claimed = limit.claim(len(batches), size)
        watch.lap()
        watch.start()
        limit.release(claimed)
        watch.lap()
        assert limit.archived() == size * len(batches)
    return watch.round()


def best(rounds: list[Costs]) -> Costs:
    return Costs(*(min(values) for values in zip(*rounds, strict=True)))


def throughput(size: int, callers: int, rounds: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A row for the clock and one for the processors."""
    count = 100 * callers if size == 1 else 40_000 // size
    jobs = make_jobs(count * size)
    batches = [jobs[n : n + size] for n in range(0, len(jobs), size)]
    ours: list[Round] = []
    limits: list[Round] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            ours.append(asyncio.run(our_round(f"sqlite://{folder}/ours.db", batches, callers)))
            limits.append(limit_round(Path(folder) / "limit.db", batches[: len(batches) // callers]))
    load = {"batch": size, "callers": callers}
    wall, cpu = dict[str, Any](load), dict[str, Any](load)
    our, limit = (Round(best([r.wall for r in of]), best([r.cpu for r in of])) for of in (ours, limits))
    for name in (*Costs._fields, "through"):
        wall[f"{name}/s"] = 1e6 / getattr(our.wall, name)
        wall[f"{name} of limit"] = getattr(limit.wall, name) / getattr(our.wall, name)
        cpu[f"{name}, µs"] = getattr(our.cpu, name)
        cpu[f"{name} of limit"] = getattr(limit.cpu, name) / getattr(our.cpu, name)
    return wall, cpu


async def waits_beside_bulk(url: str, callers: int) -> list[float]:
    """Milliseconds of claims of one job of a quiet type, while others add in batches as ingest does."""
    batch = 2000
    jobs = make_jobs(BULK_BATCHES * batch)
    batches = [jobs[n : n + batch] for n in range(0, len(jobs), batch)]
    quiet = [job._replace(id=f"q{job.id}", jobtype="quiet-a") for job in jobs[:2000]]
    waits: list[float] = []
    async with open_store(url) as store:
        await store.add_jobs(quiet, now_ms=NOW_MS)

        async def add(each: list[NewJob]) -> None:
            await store.add_jobs(each, now_ms=NOW_MS)

        async def claim() -> None:
            while len(waits) < len(quiet):
                began = time.perf_counter()
                await store.claim_jobs("quiet-a", 1, owner=OWNER, lease_ms=60_000, now_ms=NOW_MS)
                waits.append((time.perf_counter() - began) * 1000)

        claiming = asyncio.create_task(claim())
        await by_callers(add, batches, callers)
        claiming.cancel()
    return waits


def beside_bulk(callers: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        waits = asyncio.run(waits_beside_bulk(f"sqlite://{folder}/bulk.db", callers))
    row: dict[str, Any] = {"adding at once": callers, "claims": len(waits)}
    return row | {f"p{share}, ms": quantile(waits, share / 100) for share in (50, 95, 99)}


async def growth_point(folder: str, waiting: int, types: int) -> dict[str, Any]:
    path = Path(folder) / "growth.db"
    async with open_store(f"sqlite://{path}") as store:  # makes the tables
        await asyncio.to_thread(fill, path, waiting, types)
        claims = await measure(lambda n: claim_batch(store, f"bench-t{n % types}"))
        listings = await measure(lambda _: store.get_waiting_jobtypes(now_ms=NOW_MS))
        counters = await measure(lambda _: store.get_counters("bench", now_ms=NOW_MS))
    return {
        "waiting": waiting,
        "types": types,
        f"claim of {CLAIM}, ms": claims,
        "get_waiting_jobtypes, ms": listings,
        "get_counters, ms": counters,
        "file, MB": path.stat().st_size / 2**20,
        "memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


async def claim_batch(store: Store, jobtype: str) -> None:
    jobs = await store.claim_jobs(jobtype, CLAIM, owner=OWNER, lease_ms=60_000, now_ms=NOW_MS)
    assert jobs


async def measure(work: Callable[[int], Awaitable[Any]]) -> float:
    """The median in milliseconds, without the first calls, which find cold caches."""
    taken = []
    for number in range(WARM + MEASURED):
        began = time.perf_counter()
        await work(number)
        taken.append(time.perf_counter() - began)
    return quantile(taken[WARM:], 0.5) * 1000


def growth(waiting: int, types: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(growth_point(folder, waiting, types))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.parts.store", description=__doc__)
    parser.add_argument("--waiting", type=int, nargs="*", default=[10_000, 1_000_000], help="backlogs to compare")
    parser.add_argument("--types", type=int, nargs="+", default=[1, 1000], help="jobtypes that they are spread over")
    sizes = sorted({size for size, _ in LOADS})
    parser.add_argument("--batches", type=int, nargs="+", default=sizes, choices=sizes, help="jobs in a batch")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of throughput; the best counts")
    arguments = parse_arguments(parser, None)
    report = Report("store", as_json=arguments.json)
    settle_garbage()  # as the daemon does; the limit is measured in the same process
    if arguments.rounds:
        loads = [load for load in LOADS if load[0] in arguments.batches]
        measured = [throughput(size, callers, arguments.rounds) for size, callers in loads]
        title = "SQLite, 100-byte payloads, synchronous=FULL"
        report.table(f"{title}: jobs/s, and share of the same SQL alone", [wall for wall, _ in measured])
        report.table(f"{title}: processor time of a job, and the same of the limit", [cpu for _, cpu in measured])
        rows = [beside_bulk(callers) for callers in (1, 4)]
        report.table("SQLite, a claim of one job while others add batches of 2,000", rows)
    rows = [growth(waiting, types) for types in arguments.types for waiting in sorted(arguments.waiting)]
    report.table("SQLite, cost by backlog", rows)
    report.finish()


if __name__ == "__main__":
    main()
