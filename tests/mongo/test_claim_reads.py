"""A claim reads the payloads of the jobs that it takes, and not of all that it looks at."""

import pytest
from bson import encode
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from store.base import Job, JobChange, JobState, Store
from store.mongo import MongoStore
from tests.support.jobs import T0, TENANT, claim, job_id, new_job
from tests.support.turns import interleave, open_pair

pytestmark = pytest.mark.slow

SIZE = 100_000
MANY = 200
"""A claim of so many may not have all payloads in one read."""


class ReplySizes(CommandListener):
    def __init__(self) -> None:
        self.total_bytes = 0

    def started(self, event: CommandStartedEvent) -> None:
        pass

    def succeeded(self, event: CommandSucceededEvent) -> None:
        for document in event.reply.get("cursor", {}).get("firstBatch", ()):
            self.total_bytes += len(encode(document))

    def failed(self, event: CommandFailedEvent) -> None:
        pass


def payload(number: int) -> bytes:
    return b"%06d" % number + bytes(SIZE)


@pytest.mark.parametrize(
    ("domains", "limit", "max_bytes", "taken"),
    [(20, 20, 16 << 20, 20), (1, MANY, 10 * (SIZE + 6), 10)],
    ids=["of many domains", "without a domain"],
)
async def test_only_the_payloads_that_are_taken_are_read(
    mongo_url: str, domains: int, limit: int, max_bytes: int, taken: int
) -> None:
    replies = ReplySizes()
    async with MongoStore(mongo_url, listeners=[replies]) as store:
        names = [""] if domains == 1 else [f"d{number}" for number in range(domains)]
        for start in range(0, 160, 40):
            jobs = [new_job(n, domain=names[n % domains], data=payload(n)) for n in range(start, start + 40)]
            await store.add_jobs(jobs, now_ms=T0)
        replies.total_bytes = 0
        found = await claim(store, limit, max_bytes=max_bytes)
    assert {job.id: job.data for job in found} == {job_id(n): payload(n) for n in range(taken)}
    assert replies.total_bytes < 2 * SIZE * taken


async def claim_many(store: Store) -> list[Job]:
    return await claim(store, MANY)


@pytest.mark.parametrize("domain", ["", "d"])
async def test_a_payload_is_that_of_the_job_that_was_locked(mongo_url: str, domain: str) -> None:
    async with open_pair(mongo_url) as pair:
        stop_at, was_stopped = 0, True
        while was_stopped:
            stop_at += 1
            number = 10 * stop_at
            expected = {job_id(number): payload(number), job_id(number + 2): payload(number + 2)}

            async def change(store: Store, number: int = number, expected: dict[str, bytes] = expected) -> list[Job]:
                """What may happen to jobs that somebody has looked at."""
                changed, deleted = job_id(number), job_id(number + 1)
                states = await store.get_states(TENANT, [changed], now_ms=T0)
                if states[changed] is JobState.WAITING:
                    expected[changed] = payload(number + 9)
                    await store.cancel_job(TENANT, deleted, now_ms=T0)
                    await store.delete_jobs(TENANT, [deleted], now_ms=T0)
                else:
                    expected[deleted] = payload(number + 1)
                await store.update_job(TENANT, changed, JobChange(data=payload(number + 9)), now_ms=T0)
                return []

            jobs = [new_job(number + n, domain=domain, data=payload(number + n)) for n in range(3)]
            await pair.other.add_jobs(jobs, now_ms=T0)
            found, _, was_stopped = await interleave(pair, claim_many, change, stop_at)
            found += await claim_many(pair.other)
            assert {job.id: job.data for job in found} == expected, f"before step {stop_at}"
