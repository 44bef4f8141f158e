"""Claiming in bulk: jobs that were never delivered and have nothing out of the ordinary.

What claim.py does for one row after the other is done here for columns of jobs.
"""

import json
from itertools import accumulate, repeat
from typing import Any, Final, NamedTuple

import apsw

from store.sqlite.file.bulk import arrays
from store.sqlite.file.schema import INLINE_BYTES, QUEUED
from store.values.jobs import Job
from vocabulary.columns import make_all

IS_OPEN: Final = (
    "(SELECT NOT t.paused AND NOT ifnull(o.suspended, 0) AND ifnull(o.created, 0) = ifnull(?2, ifnull(o.created, 0))"
    " FROM types t LEFT JOIN tenants o ON o.name = t.tenant WHERE t.type = ?1)"
)
"""Whether jobs of a type may be claimed, for the tenant that was created then. It is asked once in a statement, and in
the one that finds them."""
IN_ORDER: Final = f"{IS_OPEN} AND state {QUEUED} AND lane = ?3 AND due <= ?4 ORDER BY due, id LIMIT ?5"

_SELDOM: Final = ("retry_after", "options", "seq", "repeat", "uniq", "parent")
FRESH: Final = (
    f"SELECT {arrays('n', 'due', 'created', 'data_bytes')}, group_concat(id, ' '),"
    f" CAST(group_concat(data, '') AS BLOB), total(state), max(data_bytes),"
    f" max(token) + max(attempts) + {' + '.join(f'count({name})' for name in _SELDOM)}"
    f" FROM (SELECT n, due, created, data_bytes, id, data, state, token, attempts, {', '.join(_SELDOM)}"
    f" FROM jobs WHERE {IN_ORDER})"
)
"""All columns are in the order of the subquery, whose rows the aggregates see one by one. state is 0 or 1, so its total
counts those that are deferred; the last column is 0 if all are of the kind that is meant here."""


class FirstDeliveries(NamedTuple):
    """Columns of jobs, in the order in which they are claimed."""

    numbers: list[int]
    due: list[int]
    created: list[int]
    sizes_bytes: list[int]
    ids: list[str]
    data: bytes
    """Of all of them, one after the other."""
    deferred: int


def find_first_deliveries(
    conn: apsw.Connection, number: int, tenant_created_ms: int | None, lane: int, now_ms: int, limit: int
) -> FirstDeliveries | None:
    """The first jobs of a lane; None if there are none, or if not all of them are fresh and small."""
    place = number, tenant_created_ms, lane, now_ms, limit
    *columns, ids, data, deferred, biggest, unlike = conn.execute(FRESH, place).get
    if unlike != 0 or biggest > INLINE_BYTES:  # None if there is no job
        return None
    numbers, due, created, sizes_bytes = map(json.loads, columns)
    return FirstDeliveries(numbers, due, created, sizes_bytes, ids.split(" "), data, int(deferred))


def first_deliveries(
    fresh: FirstDeliveries, jobtype: str, lease: int, owner: str, priority: int, domain: str
) -> list[Job]:
    _, due, created, sizes_bytes, ids, data, _ = fresh
    pieces = [data[end - size : end] for end, size in zip(accumulate(sizes_bytes), sizes_bytes, strict=True)]
    token = attempts = repeat(1)
    nothing: repeat[Any] = repeat("")
    return make_all(
        Job, ids, repeat(jobtype), pieces, repeat(lease), repeat(owner), token, attempts, repeat(priority),
        due, created, repeat(domain), nothing, repeat(None), repeat(None), nothing, nothing, nothing,
        repeat(None), repeat(None), repeat(0), nothing,
    )  # fmt: skip
