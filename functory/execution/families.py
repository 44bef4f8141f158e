"""What a parent that runs again is told of its children, in bounded memory.

Each child with its id, type, code, exit code and result. Up to MOST_CHILDREN of them, of each result up to
RESULT_BYTES, of all of them RESULTS_BYTES: what is over that is left out, and `result_bytes` says how long it is. They
are counted as JSON, which can be six times as long as the result. So all of it is less than twice RESULTS_BYTES, and a
little for each child without a result.
"""

import json
from typing import Any, Final

from store.base import Job, JobRecord, Store
from vocabulary.names import tenant_of, type_of
from vocabulary.time_text import compact_time

MOST_CHILDREN: Final = 1000
RESULT_BYTES: Final = 64 * 1024
RESULTS_BYTES: Final = 4 << 20
_PAGE: Final = 10
"""Children that are read and encoded in one step."""


def before_round(job: Job) -> str | None:
    """Where the listing of a parent's children begins. Of one that repeats, those count that were made since its round
    was due: ids begin with their time."""
    return compact_time(job.scheduled_ms) if job.repeat else None


async def read_children(store: Store, job: Job, now_ms: int) -> bytes:
    """As JSON. Raises StoreUnavailable."""
    rows: list[bytes] = []
    left_bytes = RESULTS_BYTES
    cursor = before_round(job)
    while len(rows) < MOST_CHILDREN:
        page = await store.list_children(
            tenant_of(job.jobtype),
            job.id,
            now_ms=now_ms,
            cursor=cursor,
            limit=_PAGE,
            max_bytes=min(RESULT_BYTES, left_bytes // _PAGE),
        )
        told = [json.dumps(_row(record), ensure_ascii=False, separators=(",", ":")).encode() for record in page.records]
        rows += told
        left_bytes = max(left_bytes - sum(map(len, told)), 0)
        cursor = page.cursor
        if cursor is None:
            break
    return b"[" + b",".join(rows) + b"]"


def _row(record: JobRecord) -> dict[str, Any]:
    outcome = record.outcome
    result = None if outcome is None or outcome.result is None else outcome.result
    return {
        "id": record.job.id,
        "type": type_of(record.job.jobtype),
        "state": record.state.value,
        "code": None if outcome is None else outcome.code.value,
        "exitcode": None if outcome is None else outcome.exitcode,
        "result": None if result is None else result.decode("utf-8", "replace"),
        "result_bytes": record.result_bytes,
    }
