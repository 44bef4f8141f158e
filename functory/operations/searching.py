"""Jobs by what is in them: the beginning of the payload, and the error of the last run.

No index has that, so jobs are read and looked at. A request looks at so many, says how many, and ends with a cursor
where the next one goes on: nobody waits for a search over all that there is, and nobody else waits for it either.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypedDict

from functory.operations.jobs import list_states
from functory.operations.service import Service
from store.base import JobFilter, JobPage, JobRecord, JobState
from store.names import MAX_BEGIN_BYTES

MOST_LOOKED_AT: Final = 5000
_LONGEST_S: Final = 1.0
_STEP: Final = 250


class Listing(TypedDict):
    """What a listing and a search are asked alike."""

    cursor: str | None
    limit: int
    max_bytes: int


class Found(NamedTuple):
    page: JobPage
    """With a cursor, unless all were looked at: also where nothing was found."""
    looked_at: int


async def search(
    service: Service,
    tenant: str,
    states: Sequence[JobState],
    where: JobFilter,
    text: str,
    is_heard: Callable[[], bool],
    *,
    cursor: str | None,
    limit: int,
    named: str | None = None,
    max_bytes: int = 0,
) -> Found:
    """Of the jobs that `list_states` would list, those that have the text, in letters of any case. One search of a
    tenant after the other; it ends when nobody listens any more. Raises what that raises."""
    wanted = text.casefold()
    found: list[JobRecord] = []
    looked_at, end_s = 0, asyncio.get_running_loop().time() + _LONGEST_S

    async def read(after: str | None, count: int) -> JobPage:
        return await list_states(
            service, tenant, states, where, cursor=after, limit=count, named=named, max_bytes=MAX_BEGIN_BYTES
        )

    async with service.search_turns.of(tenant):
        while is_heard():
            page = await read(cursor, _STEP)
            while len(places := _places(page, wanted)) > (room := limit - len(found)):
                page = await read(cursor, places[room - 1] + 1)  # the cursor of a page is that of its last job
            found += [page.records[place] for place in places]
            looked_at, cursor = looked_at + len(page.records), page.cursor
            is_enough = len(found) >= limit or looked_at >= MOST_LOOKED_AT
            if cursor is None or is_enough or asyncio.get_running_loop().time() >= end_s:
                break
    return Found(JobPage(tuple(_cut(record, max_bytes) for record in found), cursor), looked_at)


def _places(page: JobPage, wanted: str) -> list[int]:
    return [place for place, record in enumerate(page.records) if _has(record, wanted)]


def _has(record: JobRecord, wanted: str) -> bool:
    message = record.outcome.message if record.outcome is not None else ""
    return wanted in record.job.data.decode("utf-8", "replace").casefold() or wanted in message.casefold()


def _cut(record: JobRecord, max_bytes: int) -> JobRecord:
    """Without more of the payload than was asked for."""
    return record._replace(job=record.job._replace(data=record.job.data[:max_bytes]))
