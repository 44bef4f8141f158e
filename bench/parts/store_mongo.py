"""Benchmark of the store on MongoDB's protocol: beside the bare driver calls, and how its cost grows with the backlog.

    python -m bench.parts.store_mongo                          ours and the limit in turns, in one run
    python -m bench.parts.store_mongo --batches 500 --turns 40
    python -m bench.parts.store_mongo --turns 0 --waiting 1000 150000     only the cost by backlog
    python -m bench.parts.store_mongo --json                   the same figures for machines

The limit makes the same calls on the same indexes, of motor alone: insert_many, an ordered aggregate and a
conditional update_many, a bulk_write of conditional updates. What ours does beside them (the plan and the
counting, values instead of documents) is what the share shows. The two take turns batch by batch and the median
batch of each counts, because the server's own speed changes from second to second on a shared machine. The
server is the one that the tests run on (`make mongo`).
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorCollection
from pymongo import UpdateMany, UpdateOne

from bench.parts.store import Costs, make_jobs
from bench.parts.store_limit import NOW_MS
from bench.tools.report import Report, parse_arguments
from store.base import Archive, Code, Job, NewJob, Outcome, Store
from store.mongo.queue.documents import job_document
from store.mongo.server.schema import JOB_INDEXES
from store.url import open_store
from tests.support.mongo_server import MongoServer, server_here

BATCHES: Final = (1, 100, 500, 1000)
TURNS: Final = 12
WAITING: Final = (1_000, 30_000)
TAKEN: Final = 50  # jobs of one claim and release in the table by backlog
MEASURED: Final = 11
OWNER: Final = "a7"
ENDED: Final = Outcome(Code.OK, 200, NOW_MS, 150, b"ok", b"", 1, "L3")

Documents = list[dict[str, Any]]
Jobs = AsyncIOMotorCollection[dict[str, Any]]


class Side(Protocol):
    """One of the two that are compared. A claim is kept until its release."""

    async def add(self, batch: list[NewJob]) -> None: ...
    async def claim(self, batch: list[NewJob]) -> None: ...
    async def release(self, batch: list[NewJob]) -> None: ...


class Ours:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._claimed: list[list[Job]] = []

    async def add(self, batch: list[NewJob]) -> None:
        await self._store.add_jobs(batch, now_ms=NOW_MS)

    async def claim(self, batch: list[NewJob]) -> None:
        jobs = await self._store.claim_jobs("bench-a", len(batch), owner=OWNER, lease_ms=60_000, now_ms=NOW_MS)
        self._claimed.append(jobs)

    async def release(self, batch: list[NewJob]) -> None:
        releases = [Archive(job.id, job.token, ENDED) for job in self._claimed.pop()]
        report = await self._store.release_jobs(OWNER, releases, now_ms=NOW_MS)
        assert report.applied == len(batch)


class Limit:
    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._claimed: list[Documents] = []

    async def add(self, batch: list[NewJob]) -> None:
        documents = [job_document(job, job.data, state="q", deferred=False, seq=None) for job in batch]
        await self._jobs.insert_many([document | {"ops": [1]} for document in documents], ordered=False)

    async def claim(self, batch: list[NewJob]) -> None:
        self._claimed.append(await claim_batch(self._jobs, len(batch)))

    async def release(self, batch: list[NewJob]) -> None:
        done = await self._jobs.bulk_write([archived(d) for d in self._claimed.pop()], ordered=False)
        assert done.modified_count == len(batch)


async def claim_batch(jobs: Jobs, size: int) -> Documents:
    waiting = {"type": "bench-a", "s": "q", "dom": "", "prio": {"$in": [1000, 500, 0]}, "at": {"$lte": NOW_MS}}
    pipeline: Documents = [{"$match": waiting}, {"$sort": {"prio": -1, "at": 1, "_id": 1}}, {"$limit": size}]
    found = await jobs.aggregate(pipeline, batchSize=size + 1).to_list(None)
    locked = {"s": "r", "at": NOW_MS + 60_000, "lock": OWNER, "claim": 1, "claimed": NOW_MS}
    which = {"_id": {"$in": [document["_id"] for document in found]}, "s": "q", "token": 0}
    step = UpdateMany(which, {"$set": locked, "$inc": {"token": 1, "attempts": 1}})
    done = await jobs.bulk_write([step], ordered=False)
    assert done.modified_count == size
    return found


def archived(document: dict[str, Any]) -> UpdateOne:
    outcome = {"code": "ok", "exit": 200, "started": NOW_MS, "us": 150, "version": 1, "isolation": "L3"}
    ended = {"s": "ao", "at": NOW_MS, "done": NOW_MS, "out": outcome | {"result": b"ok", "size": 2}}
    return UpdateOne(
        {"_id": document["_id"], "s": "r", "lock": OWNER, "token": 1},
        {"$set": ended, "$unset": {"lock": "", "d": ""}, "$push": {"ops": {"$each": [2], "$slice": -4}}},
    )


async def timed(work: Awaitable[object]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


async def in_turns(sides: tuple[Side, Side], verb: str, batches: list[list[NewJob]]) -> tuple[float, float]:
    """The median seconds of one batch, of each side."""
    taken: tuple[list[float], list[float]] = ([], [])
    for turn, batch in enumerate(batches):
        for which in (0, 1) if turn % 2 else (1, 0):
            taken[which].append(await timed(getattr(sides[which], verb)(batch)))
    return statistics.median(taken[0]), statistics.median(taken[1])


async def throughput(server: MongoServer, size: int, turns: int) -> dict[str, Any]:
    jobs = make_jobs(size * turns)
    batches = [jobs[n : n + size] for n in range(0, len(jobs), size)]
    base = f"{server.url.rstrip('/')}/bench{size}"
    client: AsyncIOMotorClient[dict[str, Any]] = AsyncIOMotorClient(f"{base}_limit", w="majority", journal=True)
    bare: Jobs = client.get_default_database()["jobs"]
    await bare.create_indexes(list(JOB_INDEXES))
    async with open_store(base) as store:
        sides = (Ours(store), Limit(bare))
        seconds = [await in_turns(sides, verb, batches) for verb in Costs._fields]
    client.close()
    our, limit = (Costs(*(1e6 * pair[which] / size for pair in seconds)) for which in (0, 1))
    row: dict[str, Any] = {"batch": size}
    for name in (*Costs._fields, "through"):
        row[f"{name}/s"] = 1e6 / getattr(our, name)
        row[f"{name} of limit"] = getattr(limit, name) / getattr(our, name)
    return row


async def growth(server: MongoServer, waiting: int) -> dict[str, Any]:
    """The median milliseconds of what a job and the daemon's loops ask of the store, with a backlog of one type."""
    jobs = [job._replace(dt_ms=NOW_MS - waiting + n) for n, job in enumerate(make_jobs(waiting))]
    async with open_store(f"{server.url.rstrip('/')}/growth{waiting}") as store:
        for start in range(0, waiting, 2000):
            await store.add_jobs(jobs[start : start + 2000], now_ms=NOW_MS)
        ours = Ours(store)
        taken = jobs[:TAKEN]
        verbs: dict[str, Callable[[], Awaitable[object]]] = {
            f"claim of {TAKEN}": lambda: ours.claim(taken),
            f"release of {TAKEN}": lambda: ours.release(taken),
            "get_waiting_jobtypes": lambda: store.get_waiting_jobtypes(now_ms=NOW_MS),
            "get_counters": lambda: store.get_counters(None, now_ms=NOW_MS),
            "expire_locks": lambda: store.expire_locks(now_ms=NOW_MS),
        }
        seconds = {name: [await timed(verb()) for _ in range(MEASURED)] for name, verb in verbs.items()}
    row: dict[str, Any] = {"waiting": waiting}
    return row | {f"{name}, ms": 1000 * statistics.median(times) for name, times in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.parts.store_mongo", description=__doc__)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, help="jobs in a batch")
    parser.add_argument("--turns", type=int, default=TURNS, help="batches of each; the median counts. 0: none")
    parser.add_argument("--waiting", type=int, nargs="*", default=WAITING, help="backlogs to compare")
    arguments = parse_arguments(parser, None)
    server = server_here(fsync=True)
    if server is None:
        print("store_mongo: no MongoDB server here; `make mongo` builds one")
        return
    report = Report("store_mongo", as_json=arguments.json)
    try:
        server.start()
        sizes = arguments.batches if arguments.turns else ()
        rows = [asyncio.run(throughput(server, size, arguments.turns)) for size in sizes]
        backlogs = [asyncio.run(growth(server, waiting)) for waiting in sorted(arguments.waiting)]
    finally:
        server.close()
    report.table("MongoDB's protocol, 100-byte payloads: jobs/s, and share of the same driver calls alone", rows)
    report.table("MongoDB's protocol, cost by backlog of one type", backlogs)
    report.finish()


if __name__ == "__main__":
    main()
