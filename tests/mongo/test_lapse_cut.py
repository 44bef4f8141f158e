"""A process dies while it takes lapsed leases back: jobs of rate domains and of keys are found again all the same."""

import contextlib
from typing import Any, Final
from urllib.parse import urlsplit

import pytest

from store.base import NewJob, RateDomain
from store.errors import StoreUnavailable
from store.mongo import MongoStore
from store.mongo.server.ledger import LAPSE_MS
from tests.support.jobs import LEASE_MS, T0, TENANT, claim, ids, new_job
from tests.support.mongo_cut import CutProxy

pytestmark = pytest.mark.slow

MOST_COMMANDS: Final = 30
LAPSED: Final = T0 + LEASE_MS
LATER: Final = LAPSED + 2 * LAPSE_MS
KINDS: Final[tuple[dict[str, Any], ...]] = ({"domain": "d"}, {"key": "k"}, {"domain": "d", "key": "l"}, {})
TOMORROW: Final = T0 + 86_400_000


def jobs_of(jobtype: str, number: int) -> list[NewJob]:
    return [new_job(10 * number + n, jobtype=jobtype, **kind) for n, kind in enumerate(KINDS)]


async def die(url: str, port: int, cut_at: int, *, after: bool) -> bool:
    """At that command of expire_locks. Returns whether it came to its end before."""
    async with CutProxy("127.0.0.1", port, cut_at=None, after=after) as proxy:
        through = f"mongodb://127.0.0.1:{proxy.port}{urlsplit(url).path}?serverSelectionTimeoutMS=150"
        dying = MongoStore(f"{through}&directConnection=true")
        await dying.open()
        proxy.cut_in(cut_at)
        with contextlib.suppress(StoreUnavailable):
            await dying.expire_locks(now_ms=LAPSED)
        is_over = not proxy.is_cut()
        await dying.close()
        return is_over


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_whatever_the_command_at_which_it_dies(store: MongoStore, mongo_url: str, *, after: bool) -> None:
    port = urlsplit(mongo_url).port
    assert port is not None
    await store.set_rate_domain(RateDomain(TENANT, "d", 1000.0, 1000), now_ms=T0)
    for cut_at in range(1, MOST_COMMANDS):
        jobtype = f"{TENANT}-cut{cut_at}"
        jobs = jobs_of(jobtype, cut_at)
        # Otherwise the turns of keys are looked at again soon, whatever happens to their jobs.
        later = [
            new_job(1000 + 10 * cut_at + n, jobtype=jobtype, key=key, dt_ms=TOMORROW) for n, key in enumerate("kl")
        ]
        await store.add_jobs([*jobs, *later], now_ms=T0)
        assert len(await claim(store, jobtype=jobtype)) == len(jobs)
        assert await claim(store, jobtype=jobtype) == []  # nothing is left to look at
        is_over = await die(mongo_url, port, cut_at, after=after)
        for _ in range(2):
            await store.expire_locks(now_ms=LATER)
        found = await claim(store, jobtype=jobtype, now_ms=LATER)
        assert sorted(ids(found)) == sorted(ids(jobs)), f"at command {cut_at}"
        if is_over:
            break
    else:
        pytest.fail("it takes more commands than this test supposes")
