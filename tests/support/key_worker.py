"""A process that runs jobs with keys on a store until it is killed.

    python -m tests.support.key_worker URL NAME SEED

Each line on its standard output is written while it holds what it names: `start TYPE KEY ID TOKEN AT_MS UNTIL_MS` when
a job begins, `end ID TOKEN AT_MS` before its release. Leases are short and never renewed; it expires those of others.
"""

import asyncio
import random
import sys
import time

from store.base import Archive, Code, Job, Outcome, Release, Retry, Store
from store.errors import StoreUnavailable
from store.url import open_store

CAPS = {"acme-one": 1, "acme-two": 2}
LEASE_MS = 1500


def now_ms() -> int:
    return round(time.time() * 1000)


def tell(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def run_one(job: Job, dice: random.Random) -> Release:
    tell("start", job.jobtype, job.key, job.id, job.token, now_ms(), job.dt_ms)
    await asyncio.sleep(dice.random() / 200)
    tell("end", job.id, job.token, now_ms())
    if dice.random() < 0.1:
        return Retry(job.id, job.token, now_ms() + 20, Outcome(Code.RETRY, 100, now_ms()))
    return Archive(job.id, job.token, Outcome(Code.OK, 200, now_ms(), 1000))


async def step(store: Store, owner: str, dice: random.Random) -> None:
    jobtype = dice.choice(list(CAPS))
    jobs = await store.claim_jobs(
        jobtype, dice.randrange(1, 6), owner=owner, lease_ms=LEASE_MS, now_ms=now_ms(), max_per_key=CAPS[jobtype]
    )
    if jobs:
        releases = await asyncio.gather(*[run_one(job, dice) for job in jobs])
        await store.release_jobs(owner, releases, now_ms=now_ms())
    if not jobs or dice.random() < 0.1:
        await store.expire_locks(now_ms=now_ms())


async def work(url: str, name: str, seed: int) -> None:
    dice = random.Random(seed)
    async with open_store(url) as store:
        daemon = await store.reserve_sysid(info=name, lease_ms=3_600_000, now_ms=now_ms())
        tell("ready")
        while True:
            try:
                await step(store, daemon.sysid, dice)
            except StoreUnavailable:
                await asyncio.sleep(0.01)


if __name__ == "__main__":
    _, url_, name_, seed_ = sys.argv
    asyncio.run(work(url_, name_, int(seed_)))
