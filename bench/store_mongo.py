"""Benchmark of the store on MongoDB's protocol: add, claim and release beside the bare driver calls.

    python -m bench.store_mongo               ours and the limit in turns, in one run
    python -m bench.store_mongo --json        the same figures for machines

The limit makes the same calls on the same indexes, of motor alone: insert_many, an ordered aggregate and a
conditional update_many, a bulk_write of conditional updates. What ours does beside them (the plan and the counting,
values instead of documents) is what the share shows. The server is the one that the tests run on (`make mongo`).
"""

import argparse
import asyncio
import itertools
from collections.abc import Sequence
from typing import Any, Final

from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorCollection
from pymongo import UpdateMany, UpdateOne

from bench.report import Report, parse_arguments
from bench.store import Rates, best, make_jobs, our_round, timed
from bench.store_limit import NOW_MS
from store.base import NewJob
from store.mongo.documents import job_document
from store.mongo.schema import JOB_INDEXES
from tests.support.mongo_server import MongoServer, server_here

BATCHES: Final = (1, 100, 500, 1000)
JOBS: Final = 4000
ROUNDS: Final = 3
OWNER: Final = "a7"

Documents = list[dict[str, Any]]
Jobs = AsyncIOMotorCollection[dict[str, Any]]


async def limit_round(url: str, batches: list[list[NewJob]]) -> Rates:
    """The calls alone, on documents that were made before the clock started."""
    size = len(batches[0])
    count = size * len(batches)
    client: AsyncIOMotorClient[dict[str, Any]] = AsyncIOMotorClient(url, w="majority", journal=True)
    jobs: Jobs = client.get_default_database()["jobs"]
    await jobs.create_indexes(list(JOB_INDEXES))
    documents = [
        [job_document(job, job.data, state="q", deferred=False, seq=None) | {"ops": [1]} for job in batch]
        for batch in batches
    ]

    async def add() -> None:
        for batch in documents:
            await jobs.insert_many(batch, ordered=False)

    async def claim() -> list[Documents]:
        return [await claim_batch(jobs, size) for _ in batches]

    async def release(claimed: Sequence[Documents]) -> None:
        for batch in claimed:
            done = await jobs.bulk_write([archived(document) for document in batch], ordered=False)
            assert done.modified_count == size

    add_s, _ = await timed(add)
    claim_s, claimed = await timed(claim)
    release_s, _ = await timed(lambda: release(claimed))
    client.close()
    return Rates(count / add_s, count / claim_s, count / release_s)


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


def throughput(server: MongoServer, size: int, rounds: int) -> dict[str, Any]:
    jobs = make_jobs(100 if size == 1 else JOBS)
    batches = [jobs[n : n + size] for n in range(0, len(jobs), size)]
    names = (f"{server.url.rstrip('/')}/bench{size}_{n}" for n in itertools.count())
    ours: list[Rates] = []
    limits: list[Rates] = []
    for _ in range(rounds):
        ours.append(asyncio.run(our_round(next(names), batches, 1)))
        limits.append(asyncio.run(limit_round(next(names), batches)))
    our, limit = best(ours), best(limits)
    row: dict[str, Any] = {"batch": size}
    for name in (*Rates._fields, "through"):
        row[f"{name}/s"] = getattr(our, name)
        row[f"{name} of limit"] = getattr(our, name) / getattr(limit, name)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.store_mongo", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of each; the best counts")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, help="jobs in a batch")
    arguments = parse_arguments(parser, None)
    server = server_here(fsync=True)
    if server is None:
        print("store_mongo: no MongoDB server here; `make mongo` builds one")
        return
    report = Report("store_mongo", as_json=arguments.json)
    try:
        server.start()
        rows = [throughput(server, size, arguments.rounds) for size in arguments.batches]
    finally:
        server.close()
    report.table("MongoDB's protocol, 100-byte payloads: jobs/s, and share of the same driver calls alone", rows)
    report.finish()


if __name__ == "__main__":
    main()
