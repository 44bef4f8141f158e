"""Routes of results: listings, raw results, children, the scoreboard, failures; what a tenant may have."""

from typing import Final

import msgspec
from aiohttp import web

from functory.errors import Missing
from functory.loops.slices import Slices
from functory.operations import jobs, scoreboard, type_controls
from functory.operations.allowance import allowance
from functory.operations.finding import states_meant
from functory.operations.jobs import Queued
from functory.operations.searching import Listing, search
from functory.web.api.large_job import result_answer
from functory.web.api.rendering import show_children, show_page, show_quantiles
from functory.web.http.answers import json_bytes
from functory.web.http.endpoint import Call, check_type_name
from functory.web.http.outflow import LARGE_BYTES
from functory.web.http.routes import Routes
from functory.wire.base import Request
from functory.wire.jobs import IndexAnswer, Page, ResultsQuery
from functory.wire.scoreboard import (
    Allowance,
    AllowanceUsage,
    BucketList,
    BucketRow,
    BucketsQuery,
    FailureList,
    FailureRow,
    FailuresQuery,
    Scoreboard,
    ScoreboardQuery,
    TypeRow,
    UsageRow,
)
from store.base import Code, JobFilter, JobRecord, JobState
from vocabulary.names import jobtype_of, type_of

routes = Routes()

_CHILD_RESULT_BYTES: Final = 4096
_ROW: Final = 100
"""What a row of the scoreboard or the time line costs, as slices count it."""
_TRIED_AGAIN: Final = frozenset({Code.RETRY, Code.ERROR})


class ChildrenQuery(Request):
    cursor: str | None = None


@routes.add("GET", "/{tenant}/results", scope="read", summary="Jobs by state, type, code and time, page by page")
async def list_results(call: Call, query: ResultsQuery) -> Page:
    codes = None if query.code is None else frozenset(Code(code) for code in query.code.split(","))
    where = JobFilter(
        JobState.ARCHIVED,
        None,
        codes,
        query.since_ms,
        query.until_ms,
        unique=query.unique,
        key=query.key,
        failure=query.failure,
    )
    if query.state is not None:
        states = [JobState(state) for state in dict.fromkeys(query.state.split(","))]
    else:
        states = list(states_meant(where))
    listing: Listing = {"cursor": query.cursor, "limit": query.limit, "max_bytes": query.payload_bytes}
    if query.contains is not None:  # it has turns of its own: listings do not wait for it
        page, looked_at = await search(
            call.service, call.tenant, states, where, query.contains, call.is_heard, named=query.type, **listing
        )
        shown = show_page(page, with_payloads=query.payload_bytes > 0)
        shown.looked_at = looked_at
        return shown
    async with call.web.listings.of(call.tenant):
        call.refuse_unheard()
        page = await jobs.list_states(call.service, call.tenant, states, where, named=query.type, **listing)
        return show_page(page, with_payloads=query.payload_bytes > 0)


@routes.add(
    "GET",
    "/{tenant}/job/{id}/children",
    scope="read",
    summary="The children of a job, each with the first 4 KB of its result",
)
async def list_children(call: Call, query: ChildrenQuery) -> Page:
    job_id = call.param("id")
    await jobs.get_job(call.service, call.tenant, job_id)  # it may wait for the job's line: nobody is to wait for that
    async with call.web.listings.of(call.tenant):
        call.refuse_unheard()
        page = await jobs.list_children(
            call.service, call.tenant, job_id, cursor=query.cursor, limit=100, max_bytes=_CHILD_RESULT_BYTES
        )
        return show_children(page)


@routes.add("GET", "/{tenant}/job/{id}/result", scope="read", summary="The result of a job, as its bytes", answer=bytes)
async def get_result(call: Call) -> web.StreamResponse:
    """The raw bytes, in a form that no browser runs, whatever a handler returned."""
    found = await jobs.get_job(call.service, call.tenant, call.param("id"), max_bytes=LARGE_BYTES)
    if isinstance(found, Queued) or not _has_ended(found) or found.outcome is None or found.outcome.result is None:
        raise Missing("the job has no result, or none yet")
    return result_answer(call.service, call.tenant, found, "application/octet-stream", "attachment")


@routes.add(
    "GET", "/{tenant}/scoreboard", scope="read", summary="What waits, runs and ended, per type", answer=Scoreboard
)
async def get_scoreboard(call: Call, query: ScoreboardQuery) -> web.Response:
    """Made once for all who ask at the same time, and in slices: a tenant may have thousands of types."""
    return json_bytes(await call.web.looks.ask(call.tenant, query.window_s, lambda: _board(call, query.window_s)))


@routes.add(
    "GET", "/{tenant}/limits", scope="read", summary="What the tenant has of what it may have", answer=Allowance
)
async def get_limits(call: Call) -> web.Response:
    """Made once for all who ask at the same time, as it looks at all types."""
    return json_bytes(await call.web.looks.ask(call.tenant, "limits", lambda: _limits(call)))


async def _limits(call: Call) -> bytes:
    found = await allowance(call.service, call.principal)
    usage = AllowanceUsage(found.jobs, found.size_bytes, found.handlers, found.types)
    return msgspec.json.encode(Allowance(call.tenant, call.principal.suspended, usage, found.limits))


async def _board(call: Call, window_s: int) -> bytes:
    board = await scoreboard.scoreboard(call.service, call.tenant, window_s)
    rows, slices = list[TypeRow](), Slices()
    for row in board.rows:
        rows.append(_row(row, board.window_s))
        await slices.spend(_ROW)
    return msgspec.json.encode(Scoreboard(call.tenant, board.now_ms, window_s, UsageRow(*board.usage), rows))


@routes.add(
    "GET", "/{tenant}/timeline", scope="read", summary="What ended in each minute, hour or day", answer=BucketList
)
async def get_time_line(call: Call, query: BucketsQuery) -> web.Response:
    """As the scoreboard."""
    about = (query.width, query.count, query.type)
    return json_bytes(await call.web.looks.ask(call.tenant, about, lambda: _time_line(call, query)))


async def _time_line(call: Call, query: BucketsQuery) -> bytes:
    buckets = await scoreboard.time_line(
        call.service, call.tenant, width=query.width, count=query.count, jobtype=_jobtype(call, query.type)
    )
    rows, slices = list[BucketRow](), Slices()
    for it in buckets:
        row = BucketRow(
            type_of(it.jobtype),
            it.start_ms,
            it.width_ms,
            it.ok,
            it.failed,
            it.retry,
            it.error,
            it.abandoned,
            it.cancelled,
            it.runner_us / 1e6,
            show_quantiles(it.duration),
            show_quantiles(it.wait),
        )
        rows.append(row)
        await slices.spend(_ROW)
    return msgspec.json.encode(BucketList(rows))


@routes.add("GET", "/{tenant}/failures", scope="read", summary="Runs that failed, grouped by their kind")
async def list_failures(call: Call, query: FailuresQuery) -> FailureList:
    async with call.web.listings.of(call.tenant):
        call.refuse_unheard()
        groups = await scoreboard.failures(
            call.service,
            call.tenant,
            named=query.type,
            since_ms=query.since_ms,
            limit=query.limit,
        )
    return FailureList([FailureRow(type_of(it.jobtype), *it[1:]) for it in groups])


@routes.add("GET", "/{tenant}/index/{type}", scope="read", summary="How far an indexed queue has come")
async def get_index(call: Call) -> IndexAnswer:
    return IndexAnswer(*await type_controls.get_index_state(call.service, call.tenant, call.type_name))


def _has_ended(found: JobRecord) -> bool:
    """The job, or the last round of one that repeats."""
    if found.state is JobState.ARCHIVED:
        return True
    return bool(found.job.repeat) and found.outcome is not None and found.outcome.code not in _TRIED_AGAIN


def _jobtype(call: Call, type_name: str | None) -> str | None:
    return None if type_name is None else jobtype_of(call.tenant, check_type_name(type_name))


def _row(row: scoreboard.Row, window_s: float) -> TypeRow:
    now, window = row.counters, row.window
    return TypeRow(
        type=type_of(now.jobtype),
        paused=now.paused,
        has_handler=row.has_handler,
        waiting=now.waiting,
        deferred=now.deferred,
        running=now.running,
        blocked=now.blocked,
        ok=now.ok,
        failed=now.failed,
        retry=now.retry,
        error=now.error,
        abandoned=now.abandoned,
        cancelled=now.cancelled,
        ended_per_s=window.ended / window_s,
        failed_share=window.failed / window.ended if window.ended else 0.0,
        runner_s=window.runner_us / 1e6,
        duration=show_quantiles(window.duration),
        wait=show_quantiles(window.wait),
        unasked_s=row.unasked_s,
        unreadable=row.unreadable,
    )
