"""Payloads and results beside their documents go while somebody reads or claims their job: whoever comes too late sees
the job as it is then."""

import pytest

from store.base import ClaimedJobs, JobChange, JobRecord, Store
from store.errors import StoreCorrupt
from store.mongo import MongoStore
from tests.support.jobs import OWNER, T0, TENANT, archive, claim, job_id, new_job
from tests.support.turns import interleave, open_pair

pytestmark = pytest.mark.slow

OLD, NEW = b"o" * 300_000, b"n" * 300_000


async def test_a_job_whose_payload_changes_while_it_is_read(mongo_url: str) -> None:
    async with open_pair(mongo_url) as pair:
        stop_at, was_stopped = 0, True
        while was_stopped:
            stop_at += 1
            await pair.other.add_jobs([new_job(stop_at, data=OLD)], now_ms=T0)

            async def read(store: Store, name: str = job_id(stop_at)) -> JobRecord | None:
                return await store.get_job(TENANT, name, now_ms=T0)

            async def change(store: Store, name: str = job_id(stop_at)) -> None:
                await store.update_job(TENANT, name, JobChange(data=NEW), now_ms=T0)

            record, _, was_stopped = await interleave(pair, read, change, stop_at)
            assert record is not None
            assert record.job.data in {OLD, NEW}, f"before step {stop_at}"


async def test_a_job_that_goes_while_it_is_claimed_keeps_no_other_from_that(mongo_url: str) -> None:
    async with open_pair(mongo_url) as pair:
        stop_at, was_stopped = 0, True
        while was_stopped:
            stop_at += 1
            large, small = new_job(2 * stop_at, data=OLD), new_job(2 * stop_at + 1)
            await pair.other.add_jobs([large, small], now_ms=T0)

            async def remove(store: Store, name: str = large.id) -> ClaimedJobs:
                await store.cancel_job(TENANT, name, now_ms=T0, running=True)
                assert await store.delete_jobs(TENANT, [name], now_ms=T0) == 1
                return ClaimedJobs()

            found, _, was_stopped = await interleave(pair, claim, remove, stop_at)
            assert small.id in {job.id for job in found}, f"before step {stop_at}"
            await pair.other.release_jobs(OWNER, [archive(job) for job in found], now_ms=T0)


async def test_a_payload_that_is_lost_keeps_only_its_own_job_from_running(
    store: MongoStore, caplog: pytest.LogCaptureFixture
) -> None:
    await store.add_jobs([new_job(1, data=OLD), new_job(2)], now_ms=T0)
    await store.collections.database["blobs.files"].delete_many({})
    assert [job.id for job in await claim(store)] == [job_id(2)]
    assert [record.message for record in caplog.records] == ["store.payload_lost"]
    with pytest.raises(StoreCorrupt):
        await store.get_job(TENANT, job_id(1), now_ms=T0)
