"""Routes of jobs: look at, wait for, explain, cancel, retry, replay. add.py adds them."""

import msgspec

from functory.errors import InvalidInput
from functory.operations import bulk, job_changes
from functory.operations import jobs as operations
from functory.operations.job_log import get_progress
from functory.operations.job_settings import due_ms
from functory.operations.replay import replay
from functory.operations.why import why
from functory.web.api.large_job import job_answer
from functory.web.api.submission import new_payload
from functory.web.http.endpoint import Call
from functory.web.http.outflow import LARGE_BYTES, LargeAnswer
from functory.web.http.routes import Routes
from functory.wire.base import Done
from functory.wire.jobs import (
    CancelBody,
    Changed,
    DeleteBody,
    DeletedJobs,
    Job,
    JobQuery,
    ReplayBody,
    Replayed,
    RetryBody,
    UpdateBody,
    Why,
)
from functory.workers.values import Delivery
from store.base import Code, JobFilter, JobRecord, JobState

routes = Routes()


@routes.add(
    "GET", "/{tenant}/job/{id}", scope="read", summary="One job, with its result; wait_s waits for its end", answer=Job
)
async def get_job(call: Call, query: JobQuery) -> Job | LargeAnswer:
    job_id = call.param("id")
    if query.wait_s:
        found = await operations.wait_for_job(
            call.service, call.tenant, job_id, query.wait_s, max_bytes=LARGE_BYTES, is_heard=call.is_heard
        )
        await call.confirm()
    else:
        found = await operations.get_job(call.service, call.tenant, job_id, max_bytes=LARGE_BYTES)
    shown = job_answer(call.service, call.tenant, found)
    if isinstance(shown, Job) and isinstance(found, JobRecord) and shown.state == "running":
        shown.progress = get_progress(call.service, call.tenant, job_id)
        shown.worker = call.service.workers.holder(call.tenant, Delivery(job_id, found.job.token))
    return shown


@routes.add("GET", "/{tenant}/job/{id}/why", scope="read", summary="Why a job is not running")
async def get_why(call: Call) -> Why:
    job_id = call.param("id")
    found = await why(call.service, call.tenant, job_id)
    return msgspec.convert({"id": job_id, **found._asdict()}, Why)


@routes.add(
    "POST",
    "/{tenant}/job/{id}/cancel",
    scope="manage",
    summary="Cancel a job that is not over",
)
async def cancel_job(call: Call) -> Done:
    await operations.cancel_job(call.service, call.tenant, call.param("id"))
    return Done()


@routes.add(
    "PATCH",
    "/{tenant}/job/{id}",
    scope="manage",
    summary="Change a job that has not started: payload, priority, and of a schedule its pattern and next round",
)
async def update_job(call: Call, body: UpdateBody) -> Done:
    edit = job_changes.JobEdit(
        new_payload(body),
        None if body.priority is msgspec.UNSET else body.priority,
        None if body.repeat is msgspec.UNSET else body.repeat,
        due_ms(body.delay_s, body.next_run, call.service.now_ms(), "next_run"),
    )
    if edit == job_changes.JobEdit():
        raise InvalidInput(
            "say what to change: payload or payload_base64, priority, repeat, delay_s or next_run",
            detail={"field": "payload"},
        )
    await job_changes.update_job(call.service, call.principal, call.param("id"), edit)
    return Done()


@routes.add("DELETE", "/{tenant}/job/{id}", scope="manage", summary="Remove all trace of a job that is not running")
async def delete_job(call: Call) -> DeletedJobs:
    return DeletedJobs(await job_changes.delete_job(call.service, call.principal, call.param("id")))


@routes.add(
    "POST", "/{tenant}/job/{id}/retry", scope="manage", summary="Queue an ended job again, or run a deferred one"
)
async def retry_job(call: Call, body: RetryBody) -> Done:
    dt_ms = due_ms(body.delay_s, body.next_run, call.service.now_ms(), "next_run")
    await job_changes.retry_job(
        call.service, call.principal, call.param("id"), dt_ms=dt_ms, payload=new_payload(body), type_name=body.type
    )
    return Done()


@routes.add("POST", "/{tenant}/replay", scope="manage", summary="Queue ended jobs again, by a filter")
async def replay_jobs(call: Call, body: ReplayBody) -> Replayed:
    where = JobFilter(
        JobState.ARCHIVED,
        None,
        frozenset(Code(code) for code in body.codes),
        body.since_ms,
        body.until_ms,
        key=body.key,
        failure=body.failure,
    )
    now_ms = call.service.now_ms()
    report = await replay(
        call.service,
        call.principal,
        where,
        limit=body.limit,
        rate_per_s=body.rate_per_s,
        dry_run=body.dry_run,
        pattern=body.type,
        after_ms=body.after_ms,
        cursor=body.cursor,
        schedules=body.schedules,
    )
    return Replayed(
        matched=len(report.ids),
        replayed=report.replayed,
        more=report.more,
        dry_run=body.dry_run,
        last_due_ms=report.last_due_ms,
        now_ms=now_ms,
        cursor=report.cursor,
        ids=list(report.ids),
        schedules=report.schedules,
    )


@routes.add("POST", "/{tenant}/cancel", scope="manage", summary="Cancel jobs that are not over, by a filter")
async def cancel_jobs(call: Call, body: CancelBody) -> Changed:
    now_ms = call.service.now_ms()
    states = [JobState(state) for state in body.states]
    report = await bulk.cancel_jobs(
        call.service,
        call.principal,
        body.type,
        states,
        JobFilter(states[0], key=body.key, failure=body.failure),
        limit=body.limit,
        dry_run=body.dry_run,
        schedules=body.schedules,
        created_until_ms=body.created_until_ms,
    )
    return _changed(report, now_ms, dry_run=body.dry_run)


@routes.add("POST", "/{tenant}/delete", scope="manage", summary="Delete ended jobs, by a filter")
async def delete_jobs(call: Call, body: DeleteBody) -> Changed:
    now_ms = call.service.now_ms()
    where = JobFilter(
        JobState.ARCHIVED,
        None,
        None if body.codes is None else frozenset(Code(code) for code in body.codes),
        body.since_ms,
        body.until_ms,
        key=body.key,
        failure=body.failure,
    )
    report = await bulk.delete_jobs(
        call.service, call.principal, body.type, where, limit=body.limit, dry_run=body.dry_run
    )
    return _changed(report, now_ms, dry_run=body.dry_run)


def _changed(report: bulk.BulkReport, now_ms: int, *, dry_run: bool) -> Changed:
    ids = list(report.ids)
    return Changed(len(ids), report.changed, report.more, dry_run, ids, report.schedules, now_ms)
