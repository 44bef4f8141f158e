"""Benchmark of the store: add, claim and release beside the limit, and how cost grows with the backlog.

    python -m bench.store                     throughput, ours and the limit in turns, in one run
    python -m bench.store --growth            claim and get_waiting_jobtypes with 10 thousand and 1 million waiting
    python -m bench.store --growth --waiting 10000 10000000 --types 1 1000
    python -m bench.store --json              the same figures for machines

On a shared machine single rounds are worth little: ours and the limit take turns, and the best round of
each counts.
"""

import argparse
import asyncio
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.store_limit import NOW_MS, Limit
from store.base import Archive, Code, NewJob, Outcome, Store
from store.url import open_store

BATCHES: Final = (1, 100, 500, 1000)
ROUNDS: Final = 5
OWNER: Final = "a7"


class Rates(NamedTuple):
    """Jobs a second."""

    add: float
    claim: float
    release: float

    @property
    def through(self) -> float:
        """Jobs a second that go through all three, one after the other."""
        return 1 / (1 / self.add + 1 / self.claim + 1 / self.release)


def make_jobs(count: int, start: int = 0, types: int = 0) -> list[NewJob]:
    """100-byte payloads; ids as the journal makes them. With types, spread over that many jobtypes."""
    data = b"x" * 100
    return [
        NewJob(
            f"20261114T235959{n // 1000 % 1000:03d}Z-a7-{n:08x}",
            f"bench-t{n % types}" if types else "bench-a",
            data,
            NOW_MS - 1_000_000_000 + n // 100,
            NOW_MS,
        )
        for n in range(start, start + count)
    ]


async def timed(work: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = await work()
    return time.perf_counter() - began, result


async def our_round(url: str, batches: list[list[NewJob]]) -> Rates:
    size = len(batches[0])
    count = size * len(batches)
    async with open_store(url) as store:

        async def add() -> None:
            for batch in batches:
                await store.add_jobs(batch, now_ms=NOW_MS)

        async def claim() -> list[list[Archive]]:
            return [
                [
                    Archive(job.id, job.token, Outcome(Code.OK, 200, NOW_MS, 150, b"ok", b"", 1, "L3"))
                    for job in await store.get_waiting_jobs(
                        "bench-a", size, owner=OWNER, lease_ms=60_000, now_ms=NOW_MS
                    )
                ]
                for _ in batches
            ]

        async def release(releases: list[list[Archive]]) -> None:
            for batch in releases:
                report = await store.release_jobs(OWNER, batch, now_ms=NOW_MS)
                assert report.applied == size

        add_s, _ = await timed(add)
        claim_s, releases = await timed(claim)
        release_s, _ = await timed(lambda: release(releases))
    return Rates(count / add_s, count / claim_s, count / release_s)


def limit_round(path: Path, batches: list[list[NewJob]]) -> Rates:
    size = len(batches[0])
    count = size * len(batches)
    limit = Limit(path)
    add_s = limit.add(batches)
    claim_s, claimed = limit.claim(len(batches), size)
    release_s = limit.release(claimed)
    limit.close()
    return Rates(count / add_s, count / claim_s, count / release_s)


def best(rounds: list[Rates]) -> Rates:
    return Rates(*(max(values) for values in zip(*rounds, strict=True)))


def throughput(rounds: int) -> list[dict[str, Any]]:
    rows = []
    for size in BATCHES:
        count = 300 if size == 1 else 40_000 // size
        jobs = make_jobs(count * size)
        batches = [jobs[n : n + size] for n in range(0, len(jobs), size)]
        ours: list[Rates] = []
        limits: list[Rates] = []
        for number in range(rounds):
            with tempfile.TemporaryDirectory() as folder:
                ours.append(asyncio.run(our_round(f"sqlite://{folder}/ours{number}.db", batches)))
                limits.append(limit_round(Path(folder) / "limit.db", batches))
        our, limit = best(ours), best(limits)
        rows.append(
            {
                "batch": size,
                "ours": our._asdict() | {"through": our.through},
                "limit": limit._asdict() | {"through": limit.through},
                "ratio": {
                    name: getattr(our, name) / getattr(limit, name) for name in (*Rates._fields, "through")
                },
            }
        )
    return rows


def show_throughput(rows: list[dict[str, Any]]) -> None:
    print("jobs/s in batches (ours / limit = share)")
    for row in rows:
        cells = [
            f"{name} {row['ours'][name]:>9,.0f} / {row['limit'][name]:>9,.0f} = {row['ratio'][name]:.2f}"
            for name in ("add", "claim", "release", "through")
        ]
        print(f"  {row['batch']:>5}  " + "   ".join(cells))


async def growth_point(folder: str, waiting: int, types: int) -> dict[str, Any]:
    async with open_store(f"sqlite://{folder}/growth-{waiting}-{types}.db") as store:
        fill_s, _ = await timed(lambda: fill(store, waiting, types))
        jobtypes = [f"bench-t{n}" for n in range(types)] if types > 1 else ["bench-t0"]
        claims = await measure(lambda n: claim_batch(store, jobtypes[n % len(jobtypes)]), 15)
        listings = await measure(lambda _: store.get_waiting_jobtypes(now_ms=NOW_MS), 15)
        counters = await measure(lambda _: store.get_counters("bench", now_ms=NOW_MS), 15)
    return {
        "waiting": waiting,
        "types": types,
        "fill_jobs_per_s": waiting / fill_s,
        "claim_ms": claims,
        "get_waiting_jobtypes_ms": listings,
        "get_counters_ms": counters,
        "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


async def fill(store: Store, waiting: int, types: int) -> None:
    step = 10_000
    for start in range(0, waiting, step):
        await store.add_jobs(make_jobs(min(step, waiting - start), start, types), now_ms=NOW_MS)


async def claim_batch(store: Store, jobtype: str) -> None:
    """Ten jobs, and back with them, so that every measurement finds the same backlog."""
    jobs = await store.get_waiting_jobs(jobtype, 10, owner=OWNER, lease_ms=60_000, now_ms=NOW_MS)
    assert len(jobs) == 10


async def measure(work: Callable[[int], Awaitable[Any]], times: int) -> float:
    """The median in milliseconds, the first call (cold caches) left out."""
    await work(0)
    taken = [(await timed(lambda number=number: work(number)))[0] for number in range(1, times + 1)]
    return statistics.median(taken) * 1000


def growth(sizes: list[int], types: list[int]) -> list[dict[str, Any]]:
    rows = []
    for waiting in sizes:
        for count in types:
            with tempfile.TemporaryDirectory() as folder:
                rows.append(asyncio.run(growth_point(folder, waiting, count)))
                print(f"  measured {waiting:,} waiting of {count:,} types", file=sys.stderr)
    return rows


def show_growth(rows: list[dict[str, Any]]) -> None:
    print("   waiting  types   claim of 10   waiting types    counters   fill jobs/s   memory")
    for row in rows:
        print(
            f"{row['waiting']:>10,} {row['types']:>6,} {row['claim_ms']:>10.2f} ms {row['get_waiting_jobtypes_ms']:>12.2f} ms"
            f" {row['get_counters_ms']:>8.2f} ms {row['fill_jobs_per_s']:>13,.0f} {row['max_rss_mb']:>5.0f} MB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.store", description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--growth", action="store_true", help="measure growth instead of throughput")
    parser.add_argument(
        "--waiting", type=int, nargs="+", default=[10_000, 1_000_000], help="backlogs for --growth"
    )
    parser.add_argument(
        "--types", type=int, nargs="+", default=[1, 1000], help="numbers of jobtypes for --growth"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of throughput; the best counts")
    options = parser.parse_args()
    rows = growth(options.waiting, options.types) if options.growth else throughput(options.rounds)
    if options.json:
        print(json.dumps({"bench": "store", "growth" if options.growth else "throughput": rows}, indent=2))
    elif options.growth:
        show_growth(rows)
    else:
        show_throughput(rows)


if __name__ == "__main__":
    main()
