"""Routes of jobs: add, look at, wait for, explain, cancel, retry, replay."""

import asyncio
import hashlib

import msgspec
from aiohttp import web

from functory.errors import InvalidInput, NotReadyYet
from functory.operations import jobs as operations
from functory.operations.replay import replay
from functory.operations.submit import Submission, submit_jobs, submit_lines, submit_once
from functory.operations.why import why
from functory.web.answers import json_bytes
from functory.web.endpoint import Call
from functory.web.rendering import show_job
from functory.web.routes import Routes
from functory.web.submission import (
    added_json,
    is_lines,
    parse_json,
    parse_ndjson,
    split_lines,
    to_options,
    to_submission,
)
from functory.wire.base import Done
from functory.wire.jobs import Added, AddQuery, Job, JobQuery, JobSettings, ReplayBody, Replayed, RetryBody, Why
from store.base import Code, JobFilter, JobState
from store.errors import StoreUnavailable

routes = Routes()

ADD_ROUTE = "/{tenant}/job/{type}/add"

_ACK_TIMEOUT_S = 30.0


@routes.add(
    "POST",
    ADD_ROUTE,
    scope="submit",
    summary="Add jobs: one payload a line, or JSON or NDJSON with options for each job",
    answer=Added,
    raw=("text/plain", "application/json", "application/x-ndjson"),
)
async def add_jobs(call: Call, query: AddQuery) -> web.Response:
    """Answers when the jobs are durable. The plain case comes first and does as little as it can."""
    type_name, body = call.type_name, await call.read_body()
    await call.web.turns.take(len(body))
    is_plain = is_lines(call.request.headers.get("Content-Type", ""))
    if is_plain and query.idempotency_key is None and not query.unique and not query.parent:
        lines = split_lines(body)
        options = to_options(query, call.service)
        ids = await submit_lines(call.service, call.principal, type_name, lines, options)
    else:
        ids = await _add_one_by_one(call, query, type_name, body, is_plain=is_plain)
    if query.ack == "store":
        await _until_stored(call, ids)
    return ids_answer(ids, with_ids=query.ids == "yes")


def ids_answer(ids: list[str], *, with_ids: bool = True) -> web.Response:
    return json_bytes(added_json(ids, with_ids=with_ids))


async def _add_one_by_one(call: Call, query: AddQuery, type_name: str, body: bytes, *, is_plain: bool) -> list[str]:
    """Jobs that are looked at each by itself: with options of their own, in JSON, or under an idempotency key."""
    if is_plain:
        options = to_options(query, call.service)
        jobs = [Submission(line, options, query.unique, query.parent) for line in split_lines(body)]
    else:
        _refuse_settings(query)
        is_array = call.request.content_type == "application/json"
        found = parse_json(body) if is_array else parse_ndjson(body)
        jobs = [to_submission(job, call.service) for job in found]
    if query.idempotency_key is None:
        return await submit_jobs(call.service, call.principal, type_name, jobs)
    fingerprint = _fingerprint(type_name, query, body)
    return await submit_once(
        call.service, call.principal, type_name, jobs, key=query.idempotency_key, fingerprint=fingerprint
    )


def _refuse_settings(query: AddQuery) -> None:
    """With jobs in JSON every option is a field of its job: one that the query gave would silently be lost."""
    for field in msgspec.structs.fields(JobSettings):
        if getattr(query, field.name) != field.default:
            raise InvalidInput(
                f"{field.name} is a query option of lines: with JSON, give it as a field of each job",
                detail={"in": "query", "field": field.name},
            )


def _fingerprint(type_name: str, query: AddQuery, body: bytes) -> str:
    digest = hashlib.sha256(msgspec.json.encode([type_name, query]))
    digest.update(body)
    return digest.hexdigest()


async def _until_stored(call: Call, ids: list[str]) -> None:
    try:
        async with asyncio.timeout(_ACK_TIMEOUT_S):
            await call.service.intake.flush(call.tenant)
    except (StoreUnavailable, TimeoutError) as error:
        raise NotReadyYet(
            "the jobs are accepted and durable in the journal, but not in the store yet: do not send them again",
            detail={"accepted": True, "ids": ids},
        ) from error


@routes.add("GET", "/{tenant}/job/{id}", scope="read", summary="One job, with its result; wait_s waits for its end")
async def get_job(call: Call, query: JobQuery) -> Job:
    job_id = call.param("id")
    if query.wait_s:
        return show_job(await operations.wait_for_job(call.service, call.tenant, job_id, query.wait_s))
    return show_job(await operations.get_job(call.service, call.tenant, job_id))


@routes.add("GET", "/{tenant}/job/{id}/why", scope="read", summary="Why a job is not running")
async def get_why(call: Call) -> Why:
    job_id = call.param("id")
    found = await why(call.service, call.tenant, job_id)
    return msgspec.convert({"id": job_id, **found._asdict()}, Why)


@routes.add("POST", "/{tenant}/job/{id}/cancel", scope="manage", summary="Cancel a job that has not started")
async def cancel_job(call: Call) -> Done:
    await operations.cancel_job(call.service, call.tenant, call.param("id"))
    return Done()


@routes.add("POST", "/{tenant}/job/{id}/retry", scope="manage", summary="Queue a job that has ended again")
async def retry_job(call: Call, body: RetryBody) -> Done:
    await operations.retry_job(call.service, call.tenant, call.param("id"), body.delay_s)
    return Done()


@routes.add("POST", "/{tenant}/replay", scope="manage", summary="Queue ended jobs again, by a filter")
async def replay_jobs(call: Call, body: ReplayBody) -> Replayed:
    where = JobFilter(
        JobState.ARCHIVED,
        None if body.type is None else f"{call.tenant}-{body.type}",
        frozenset(Code(code) for code in body.codes),
        body.since_ms,
        body.until_ms,
    )
    report = await replay(
        call.service,
        call.principal.key_id,
        call.tenant,
        where,
        limit=body.limit,
        rate_per_s=body.rate_per_s,
        dry_run=body.dry_run,
    )
    return Replayed(
        matched=len(report.ids),
        replayed=report.replayed,
        more=report.more,
        dry_run=body.dry_run,
        last_due_ms=report.last_due_ms,
        ids=list(report.ids),
    )
