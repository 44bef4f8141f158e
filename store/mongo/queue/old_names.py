"""Unique names go with the last trace of the jobs that had them: a tenant may use a new one for each job.

A name is given to a job that is there, hidden at first. So one whose job is not there is nobody's, and goes unless
somebody takes it in this moment, which its version says.
"""

from collections.abc import Sequence

from store.mongo.server.bulk import delete_one, write_each
from store.mongo.server.core import Core
from store.mongo.server.driver import Document


def name_key(jobtype: str, unique: str) -> str:
    return f"{jobtype}|{unique}"


async def drop_names(db: Core, rows: Sequence[Document]) -> None:
    """Those that these jobs have, which are being purged."""
    held = [
        delete_one({"_id": name_key(row["type"], row["unique"]), "job": row["_id"]}) for row in rows if "unique" in row
    ]
    if held:
        await write_each(db.collections.names, held)


async def sweep_names(db: Core, limit: int) -> None:
    """Remove what a crash left, or an older version.

    Looks at `limit` names and goes on from there the next time, so that repeated calls come to all.
    """
    names = db.collections.names
    page = names.find({"_id": {"$gt": db.swept_name}}, {"job": 1, "version": 1}).sort("_id", 1)
    found = await page.limit(limit).to_list(limit)
    db.swept_name = found[-1]["_id"] if len(found) == limit else ""
    holders = {"_id": {"$in": sorted({row["job"] for row in found})}}
    there = {row["_id"] for row in await db.collections.jobs.find(holders, {"_id": 1}).to_list(None)}
    gone = [delete_one({"_id": row["_id"], "version": row["version"]}) for row in found if row["job"] not in there]
    if gone:
        await write_each(names, gone)
