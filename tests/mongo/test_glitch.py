"""A connection that breaks once, at any command, goes unnoticed by callers of the verbs that run all day."""

from urllib.parse import urlsplit

import pytest

from store.base import AddReport, Lease, Release, Unclaim
from store.mongo import MongoStore
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, new_jobs, retry
from tests.support.mongo_cut import CutProxy

pytestmark = pytest.mark.slow


async def work(store: MongoStore) -> None:
    assert await store.add_jobs(new_jobs(20), now_ms=T0) == AddReport(20, 0)
    assert await store.add_jobs(new_jobs(25), now_ms=T0) == AddReport(5, 20)
    jobs = await claim(store, 15)
    assert [job.token for job in jobs] == [1] * 15
    renewed = await store.renew_locks(OWNER, [Lease(j.id, j.token) for j in jobs], lease_ms=99_000, now_ms=T0)
    assert (renewed.renewed, renewed.stale) == (15, ())
    releases: list[Release] = [*map(archive, jobs[:10]), retry(jobs[10], T0 + 5), Unclaim(jobs[11].id, jobs[11].token)]
    report = await store.release_jobs(OWNER, releases, now_ms=T0)
    assert (report.applied, report.stale) == (12, ())


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("command", range(1, 16))
async def test_a_broken_connection_goes_unnoticed(mongo_url: str, command: int, *, after: bool) -> None:
    parts = urlsplit(mongo_url)
    assert parts.port is not None
    async with MongoStore(mongo_url) as direct:
        async with CutProxy("127.0.0.1", parts.port, cut_at=None, after=after, heals=True) as proxy:
            url = f"mongodb://127.0.0.1:{proxy.port}{parts.path}?directConnection=true"
            async with MongoStore(url) as store:
                proxy.cut_in(command)
                await work(store)
                assert proxy.is_cut()
        (row,) = await direct.get_counters(TENANT, now_ms=T0)
        assert (row.waiting, row.deferred, row.running) == (11, 1, 3)
        assert (row.ok, row.retry) == (10, 1)
        assert (await direct.get_usage(TENANT)).jobs == 25
