"""QueryJob and Query: jobs as they are."""

from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

import msgspec

from functory.bedrock.call import Call
from functory.bedrock.records import (
    CANCELLED,
    FAILED,
    FINISHED,
    PAUSED,
    QUEUED,
    RUNNING,
    RUNQUEUED,
    data_json,
    next_run,
    object_json,
    retry_after,
    state_of,
    time_text,
)
from functory.bedrock.refusals import Refusal, missing
from functory.bedrock.select import Select, parse_select
from functory.loops.slices import Slices
from functory.operations.jobs import get_payload, list_jobs
from functory.operations.numbered import store_lines
from store.base import Code, JobFilter, JobRecord, JobState
from vocabulary.names import is_type, jobtype_of, type_of

_STATES: Final = {
    QUEUED: (JobState.WAITING, JobState.DEFERRED),
    RUNNING: (JobState.RUNNING, JobState.LAPSED),
    RUNQUEUED: (JobState.RUNNING, JobState.LAPSED),
    PAUSED: (JobState.PAUSED,),
    FINISHED: (JobState.ARCHIVED,),
    FAILED: (JobState.ARCHIVED,),
    CANCELLED: (JobState.ARCHIVED,),
}
_CODES: Final = {
    FINISHED: frozenset({Code.OK}),
    FAILED: frozenset({Code.FAILED, Code.ABANDONED}),
    CANCELLED: frozenset({Code.CANCELLED}),
}
_PAGE: Final = 500
_ROW_COST: Final = 50
"""Of making a row, as Slices count."""
MOST_LOOKED_AT: Final = 10_000
MOST_ROWS: Final = 1000
MOST_BYTES: Final = 8 << 20


async def query_job(call: Call) -> bytes:
    record = await call.job()
    fields: dict[str, Any] = {
        "data": data_json(await get_payload(call.service, call.tenant, record)),
        "jobID": call.parameters.job_number(),
        "name": type_of(record.job.jobtype),
        "state": state_of(record),
    }
    for number in (await _numbers(call, [record.job.parent] if record.job.parent else [])).values():
        fields["parentJobID"] = number
    return object_json(fields)


async def query(call: Call) -> bytes:
    text = call.parameters.text("query", 10_000)
    if not text:
        raise missing("query")
    select = parse_select(text)
    await store_lines(call.service, call.tenant)
    async with call.web.bodies.of(call.tenant, MOST_BYTES):
        rows = await _matching(call, select)
        if not select.columns:
            return msgspec.json.encode([[len(rows)]])
        if select.limit is None and len(rows) > MOST_ROWS:
            raise Refusal(402, f"query: {len(rows)} jobs match; add `limit`, at most {MOST_ROWS}, or a filter")
        return msgspec.json.encode(await _shown(call, select, rows[: min(select.limit or MOST_ROWS, MOST_ROWS)]))


async def _matching(call: Call, select: Select) -> list[dict[str, Any]]:
    """All rows that the conditions hold for, in order, without their data."""
    if select.limit == 0:
        return []
    found: dict[str, JobRecord] = {}
    async for record in _candidates(call, select):
        found[record.job.id] = record
        if len(found) > MOST_LOOKED_AT:
            text = f"query: more than {MOST_LOOKED_AT} jobs to look at; filter by jobID, name or state"
            raise Refusal(402, text)
    numbers = {job_id: record.number for job_id, record in found.items() if record.number is not None}
    parents = (record.job.parent for record in found.values())
    numbers |= await _numbers(call, sorted(it for it in {*found, *parents} if it and it not in numbers))
    rows: list[dict[str, Any]] = []
    tests = [(condition.column, condition.test()) for condition in select.conditions]
    cost, slices = _ROW_COST + sum(condition.cost for condition in select.conditions), Slices()
    for record in found.values():
        row = _row(record, numbers)
        if row["jobID"] and all(holds(row[column]) for column, holds in tests):
            rows.append(row)
        await slices.spend(cost)
    rows.sort(key=lambda row: (row[select.order_by], row["jobID"]), reverse=select.is_descending)
    return rows


async def _candidates(call: Call, select: Select) -> AsyncIterator[JobRecord]:
    """Every job that can match, found by what the statement fixes."""
    fixed = select.fixed("jobID")
    if fixed is not None:
        for number in fixed:
            try:
                record = await call.job_numbered(int(number))
            except Refusal:
                continue
            yield record
        return
    for where in _filters(call.tenant, select):
        cursor: str | None = None
        while True:
            page = await list_jobs(call.service, call.tenant, where, cursor=cursor, limit=_PAGE)
            for record in page.records:
                yield record
            cursor = page.cursor
            if cursor is None:
                break


def _filters(tenant: str, select: Select) -> Iterable[JobFilter]:
    states = select.fixed("state")
    names = select.fixed("name")
    wanted = [state for state in _STATES if states is None or state in states]
    jobtypes = [None] if names is None else [jobtype_of(tenant, str(name)) for name in names if is_type(str(name))]
    for state in dict.fromkeys(each for name in wanted for each in _STATES[name]):
        codes = frozenset(code for name in wanted for code in _CODES.get(name, ()))
        for jobtype in jobtypes:
            yield JobFilter(state, jobtype, codes if state is JobState.ARCHIVED else None)


def _row(record: JobRecord, numbers: dict[str, int]) -> dict[str, Any]:
    job = record.job
    return {
        "created": time_text(job.create_ms),
        "jobID": numbers.get(job.id, 0),
        "state": state_of(record),
        "name": type_of(job.jobtype),
        "nextRun": next_run(record),
        "lastRun": time_text(record.claimed_ms),
        "repeat": job.repeat,
        "priority": job.priority,
        "parentJobID": numbers.get(job.parent, 0),
        "retryAfter": retry_after(record),
        "record": record,
    }


async def _shown(call: Call, select: Select, rows: list[dict[str, Any]]) -> list[list[Any]]:
    size_bytes = 0
    if "data" in select.columns:
        for row in rows:
            payload = await get_payload(call.service, call.tenant, row["record"])
            row["data"] = data_json(payload)
            size_bytes += len(payload)
            if size_bytes > MOST_BYTES:
                text = f"query: the answer is longer than {MOST_BYTES} bytes; leave data out, or add a smaller `limit`"
                raise Refusal(402, text)
    return [[row[column] for column in select.columns] for row in rows]


async def _numbers(call: Call, job_ids: list[str]) -> dict[str, int]:
    return await call.numbers.of(call.tenant, job_ids)
