"""Numbers of jobs within their tenant. The number is in the job's document, so it goes with the job.

A range of numbers is taken first and given out then, each on condition that the job has none: of two callers one gives
it, and the number of the other is left out.
"""

from collections.abc import Sequence
from itertools import count

from store.errors import StoreUnavailable
from store.mongo.server import schema
from store.mongo.server.bulk import update_one, write_each
from store.mongo.server.core import Core, once, repeatable
from store.mongo.server.driver import find_and_update, retried, upserted
from store.names import number_key, number_of


class MongoNumbers(Core):
    @once
    async def number_jobs(self, tenant: str, job_ids: Sequence[str]) -> dict[str, int]:
        known = await _get_numbers(self, tenant, job_ids)
        missing = [job_id for job_id, number in known.items() if number is None]
        if missing:
            given = zip(missing, count(await _take(self, tenant, len(missing))), strict=False)
            steps = [
                update_one({"_id": job_id, "no": {"$exists": False}}, {"$set": {"no": number_key(tenant, number)}})
                for job_id, number in given
            ]
            await retried(lambda: write_each(self.collections.jobs, steps))
            known |= await _get_numbers(self, tenant, missing)
        return {job_id: number for job_id, number in known.items() if number is not None}

    @once
    async def take_numbers(self, tenant: str, count: int) -> int:
        return await _take(self, tenant, count)

    @repeatable
    async def find_numbered(self, tenant: str, number: int) -> str | None:
        which = {"no": number_key(tenant, number), "s": {"$in": list(schema.VISIBLE_STATES)}}
        found = await self.collections.jobs.find_one(which, {"_id": 1})
        return None if found is None else str(found["_id"])


async def _get_numbers(db: Core, tenant: str, job_ids: Sequence[str]) -> dict[str, int | None]:
    """Those that exist, in the order asked for; None: it has no number yet."""
    which = {
        "_id": {"$in": list(job_ids)},
        "type": schema.types_of(tenant),
        "s": {"$in": list(schema.VISIBLE_STATES)},
    }
    rows = {row["_id"]: row for row in await db.collections.jobs.find(which, {"no": 1}).to_list(None)}
    return {job_id: number_of(rows[job_id].get("no")) for job_id in job_ids if job_id in rows}


async def _take(db: Core, tenant: str, many: int) -> int:
    """The first of so many numbers in a row that nobody else gets."""
    numbers = db.collections.numbers
    # It is made before it is counted up: FerretDB answers the same first number to two callers of an upsert.
    made = {"$setOnInsert": {"n": 0}}
    await upserted(lambda: numbers.update_one({"_id": tenant}, made, upsert=True))
    found = await find_and_update(numbers, {"_id": tenant}, {"$inc": {"n": many}})
    if found is None:
        raise StoreUnavailable(f"number_jobs: tenant {tenant} is being deleted")
    return int(found["n"]) - many + 1
