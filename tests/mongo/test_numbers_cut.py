"""A process dies while it adds numbered jobs: what comes again gets the number that it had, so there is no hole."""

import contextlib
from urllib.parse import urlsplit

import pytest

from store.errors import StoreUnavailable
from store.mongo import MongoStore
from tests.support.jobs import T0, TENANT, job_id, new_jobs
from tests.support.mongo_cut import CutProxy

pytestmark = pytest.mark.slow

COMMANDS = 14
"""More than it takes to add a batch of numbered jobs."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_jobs_that_come_again_get_their_numbers_again(mongo_url: str, *, after: bool) -> None:
    parts = urlsplit(mongo_url)
    assert parts.port is not None
    endings = set()
    for cut_in in range(1, COMMANDS + 1):
        jobtype = f"{TENANT}-cut{cut_in}"
        jobs = new_jobs(8, 100 * cut_in, jobtype=jobtype, indexed=True)
        async with CutProxy("127.0.0.1", parts.port, cut_at=None, after=after) as proxy:
            url = f"mongodb://127.0.0.1:{proxy.port}{parts.path}?serverSelectionTimeoutMS=150&directConnection=true"
            dying = MongoStore(url)
            await dying.open()
            proxy.cut_in(cut_in)
            with contextlib.suppress(StoreUnavailable):
                await dying.add_jobs(jobs[:6], now_ms=T0)
            endings.add(proxy.is_cut())
            await dying.close()
        async with MongoStore(mongo_url) as store:
            for batch in (jobs[:4], jobs[4:], jobs):  # the journal's reader takes steps of other lengths now
                await store.add_jobs(batch, now_ms=T0)
            numbers = [await store.get_job_at(TENANT, jobtype, seq, now_ms=T0) for seq in range(1, 10)]
            found = [record.job.id if record is not None else None for record in numbers]
            assert found == [*(job_id(100 * cut_in + place) for place in range(8)), None], f"cut at command {cut_in}"
            await store.expire_locks(now_ms=T0 + 10_000)
            report = await store.look_at_window(TENANT, jobtype, after=0, until=0)
            assert report.head == 8, "no number is taken for one whose job is still to come"
    assert endings == {True, False}, "every command of an add was cut, and one add was not"


async def test_what_is_all_in_does_not_hold_up_a_queue(mongo_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was stored and not told, and nobody adds it again: whoever wanted it found it there."""
    jobtype = f"{TENANT}-told"

    async def die(*_: object) -> None:
        raise StoreUnavailable("died")

    async with MongoStore(mongo_url) as store:
        with monkeypatch.context() as broken:
            broken.setattr("store.mongo.queue.add.close_seqs", die)
            with pytest.raises(StoreUnavailable):
                await store.add_jobs(new_jobs(3, jobtype=jobtype, indexed=True), now_ms=T0)
        assert (await store.look_at_window(TENANT, jobtype, after=0, until=0)).head == 0
        await store.expire_locks(now_ms=T0 + 1000)
        assert (await store.look_at_window(TENANT, jobtype, after=0, until=0)).head == 0
        await store.expire_locks(now_ms=T0 + 10_000)
        assert (await store.look_at_window(TENANT, jobtype, after=0, until=0)).head == 3
