"""What looking at the scoreboard costs the daemon: processor time per page with 1,000 types, all busy in every minute.

    python -m bench.pages

The worst case on purpose: 60,000 buckets of minutes in the last hour. Archived jobs are in the store to show that
their number does not matter. Time is that of the process, so a noisy machine does not change it much.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiohttp

from store.base import Archive, Code, NewJob, Outcome, Store
from store.values.scoreboard import MINUTE_MS
from tests.support.clocks import FakeClock
from tests.support.web import SYSID, T0, Site, open_site

TYPES = 1000
ROUNDS = 15


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archived", type=int, default=60 * TYPES, help="jobs that have ended")
    archived = parser.parse_known_args()[0].archived  # `python -m bench` passes every bench the options of all
    with tempfile.TemporaryDirectory() as scratch:
        clock = FakeClock(T0)
        async with open_site(Path(scratch), clock=clock) as site:
            await _fill(site.store, archived)
            clock.advance(30)
            jar = aiohttp.CookieJar(unsafe=True)
            async with aiohttp.ClientSession(cookie_jar=jar) as session:
                await _sign_in(site, session)
                print(f"{TYPES:,} types, {archived:,} archived jobs; milliseconds of processor time a page\n")
                print(f"{'page':<44} {'first':>7} {'then, median':>13} {'kB':>6}")
                for name, path in (
                    ("scoreboard", "/ui/t/acme"),
                    ("scoreboard, next page", "/ui/t/acme?from=50"),
                    ("scoreboard, filtered", "/ui/t/acme?q=type01"),
                    ("scoreboard, by waiting", "/ui/t/acme?sort=waiting"),
                    ("scoreboard, by rate", "/ui/t/acme?sort=rate"),
                    ("scoreboard, by failed of the last hour", "/ui/t/acme?sort=failed"),
                    ("jobtype", "/ui/t/acme/type/type0007"),
                    ("jobs", "/ui/t/acme/jobs"),
                    ("failures", "/ui/t/acme/failures"),
                ):
                    await _row(site, session, clock, name, path)


async def _row(site: Site, session: aiohttp.ClientSession, clock: FakeClock, name: str, path: str) -> None:
    size = 0

    async def look() -> None:
        nonlocal size
        async with session.get(site.url + path) as answer:
            assert answer.status == 200
            size = len(await answer.read())

    first_ms = await _cost_ms(look)
    costs = []
    for _ in range(ROUNDS):
        clock.advance(6)  # past every cache: each look is a new one
        costs.append(await _cost_ms(look))
    print(f"{name:<44} {first_ms:>7.1f} {statistics.median(costs):>13.1f} {size / 1000:>6.0f}")


async def _cost_ms(call: Callable[[], Awaitable[None]]) -> float:
    """Of the whole process, so the client's part is in it, too."""
    began_s = time.process_time()
    await call()
    return (time.process_time() - began_s) * 1000


async def _sign_in(site: Site, session: aiohttp.ClientSession) -> None:
    async with session.get(f"{site.url}/ui/signin") as answer:
        text = await answer.text()
    token = text.rpartition('<input type="hidden" name="token" value="')[2].partition('"')[0]
    data = {"token": token, "key": site.keys["acme"], "next": ""}
    async with session.post(f"{site.url}/ui/signin", data=data, allow_redirects=False) as answer:
        assert answer.status == 303, await answer.text()


async def _fill(store: Store, archived: int) -> None:
    jobtypes = [f"acme-type{number:04d}" for number in range(TYPES)]
    for jobtype in jobtypes:
        await store.set_handler("acme", jobtype, lang="sh", data=b'{"lang":"sh","body":"cat"}', now_ms=T0)
    number = 0
    outcome = Outcome(Code.OK, 200, T0, 1500, b"done", b"", 1, "L2")
    per_minute = max(archived // 60 // TYPES, 1)
    for minute in range(60):
        at_ms = T0 - (59 - minute) * MINUTE_MS
        ids = (f"20270115T080000000Z-a1-{number + n:06x}" for n in range(per_minute * TYPES))
        number += per_minute * TYPES
        jobs = [NewJob(next(ids), jobtype, b"x", at_ms, at_ms) for jobtype in jobtypes for _ in range(per_minute)]
        await store.add_jobs(jobs, now_ms=at_ms)
        claims = [
            store.get_waiting_jobs(jobtype, per_minute, owner=SYSID, lease_ms=60_000, now_ms=at_ms)
            for jobtype in jobtypes
        ]
        claimed = [job for batch in await asyncio.gather(*claims) for job in batch]
        ended = [Archive(job.id, job.token, outcome._replace(started_ms=at_ms)) for job in claimed]
        await store.release_jobs(SYSID, ended, now_ms=at_ms)


if __name__ == "__main__":
    asyncio.run(main())
