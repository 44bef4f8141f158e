"""A process that works on a store until it is killed, and tells on its standard output what was acknowledged.

    python -m tests.support.store_worker URL NAME SEED work     add, claim, renew and release at random, for ever
    python -m tests.support.store_worker URL NAME SEED drain    claim and archive until nothing is left

Every line is written after the store answered: `added ID...`, `claimed TOKEN:ID...`, `archived ID...`.
"""

import asyncio
import random
import sys

from store.base import Archive, Code, Job, NewJob, Outcome, Release, Retry, Store, Unclaim
from store.url import open_store

NOW_MS = 1_800_000_000_000
JOBTYPES = ("acme-a", "acme-b", "zeta-a")
LEASE_MS = 3_600_000


def tell(word: str, items: list[str]) -> None:
    sys.stdout.write(" ".join([word, *items]) + "\n")
    sys.stdout.flush()


async def add(store: Store, name: str, start: int, dice: random.Random) -> None:
    jobs = [
        NewJob(f"{name}-{start + n:08d}", dice.choice(JOBTYPES), b"x" * dice.choice((10, 5000)), NOW_MS, NOW_MS)
        for n in range(dice.randrange(1, 40))
    ]
    await store.add_jobs(jobs, now_ms=NOW_MS)
    tell("added", [job.id for job in jobs])


async def claim(store: Store, owner: str, dice: random.Random) -> list[Job]:
    jobs = await store.claim_jobs(
        dice.choice(JOBTYPES), dice.randrange(1, 30), owner=owner, lease_ms=LEASE_MS, now_ms=NOW_MS
    )
    tell("claimed", [f"{job.token}:{job.id}" for job in jobs])
    return jobs


async def release(store: Store, owner: str, jobs: list[Job], dice: random.Random) -> None:
    releases: list[Release] = []
    for job in jobs:
        kind = dice.random()
        if kind < 0.6:
            outcome = Outcome(Code.OK, 200, NOW_MS, 10, job.id.encode() * dice.choice((1, 500)))
            releases.append(Archive(job.id, job.token, outcome))
        elif kind < 0.8:
            releases.append(Retry(job.id, job.token, NOW_MS, Outcome(Code.ERROR, 500, NOW_MS)))
        else:
            releases.append(Unclaim(job.id, job.token))
    report = await store.release_jobs(owner, releases, now_ms=NOW_MS)
    done = {r.id for r in releases if isinstance(r, Archive)} - set(report.stale)
    tell("archived", sorted(done))


async def work(url: str, name: str, seed: int) -> None:
    dice = random.Random(seed)
    async with open_store(url) as store:
        daemon = await store.reserve_sysid(info=name, lease_ms=LEASE_MS, now_ms=NOW_MS)
        tell("ready", [daemon.sysid])
        for step in range(1_000_000):
            jobs, _ = await asyncio.gather(
                claim(store, daemon.sysid, dice), add(store, f"{name}-{seed}-{step}", 0, dice)
            )
            await release(store, daemon.sysid, jobs, dice)


async def drain(url: str) -> None:
    async with open_store(url) as store:
        daemon = await store.reserve_sysid(info="drain", lease_ms=LEASE_MS, now_ms=NOW_MS)
        while waiting := await store.get_waiting_jobtypes(now_ms=NOW_MS):
            for entry in waiting:
                jobs = await store.claim_jobs(entry.jobtype, 7, owner=daemon.sysid, lease_ms=LEASE_MS, now_ms=NOW_MS)
                tell("claimed", [f"{job.token}:{job.id}" for job in jobs])
                ended = Outcome(Code.OK, 200, NOW_MS)
                releases = [Archive(job.id, job.token, ended) for job in jobs]
                report = await store.release_jobs(daemon.sysid, releases, now_ms=NOW_MS)
                tell("archived", [release.id for release in releases if release.id not in report.stale])


if __name__ == "__main__":
    _, url_, name_, seed_, what = sys.argv
    asyncio.run(work(url_, name_, int(seed_)) if what == "work" else drain(url_))
