"""UpdateJob, FinishJob, FailJob, RetryJob, CancelJob, DeleteJob.

Who holds a job is known by the lease. A worker that took it over the same connection means that delivery; over another
connection, the current one. A delivery that a command over any connection has ended is meant by none. One that was
moved to another type is: the workers of that type are others, and the connection that took it ends nothing of theirs.
"""

from typing import Final

from functory.bedrock.call import Call
from functory.bedrock.creating import register_types
from functory.bedrock.records import CANCELLED, FINISHED, RUNNING, is_running, state_of
from functory.bedrock.refusals import Refusal, missing, no_job
from functory.execution.outcomes import next_round_ms
from functory.operations import job_changes, workers
from functory.operations.job_settings import parse_time_ms
from functory.operations.jobs import cancel_job as cancel
from functory.wire.base import MAX_DELAY_S
from functory.workers.values import INVALID, OWNER, Answer, Delivery, Report, Verdict
from store.base import Code, JobRecord, JobState
from store.refusals import check_move
from vocabulary.names import type_of

_OVER_QUOTA: Final = 429


async def update_job(call: Call) -> bytes:
    """The data of a job. Of one that runs, it is what others see meanwhile and what its next attempt gets; the worker
    is alive, so its lease is renewed."""
    record = await call.job()
    data = call.parameters.data()
    if data is None:
        raise missing("data")
    if is_running(record):
        delivery = _delivery(call, record, "updated")
        await workers.update_payload(call.service, call.who, delivery, data)
        await workers.renew(call.service, call.who, [delivery])
    else:
        call.who.require("manage")
        await job_changes.update_job(call.service, call.who, record.job.id, job_changes.JobEdit(data))
    return b""


async def finish_job(call: Call) -> bytes:
    return await _end(call, 200, "finished")


async def fail_job(call: Call) -> bytes:
    return await _end(call, 400, "failed")


async def _end(call: Call, exitcode: int, what: str) -> bytes:
    """What a repeating job carries on is recorded together with its outcome. Of any other job the data is changed
    first: a parent that waits for children runs again with it. A job that was taken over this connection is not read
    before: whether that delivery still counts is seen when its end is recorded."""
    job_id, data = await call.job_id(), call.parameters.data()
    held = call.peer.held(job_id)
    if held is None:
        record = await call.job()
        delivery, repeats = _delivery(call, record, what), bool(record.job.repeat)
    else:
        delivery, repeats = Delivery(job_id, held.token), held.repeats
    if data is not None and (repeats or call.who.limits.max_bytes is not None):
        await job_changes.check_carried(call.service, call.who, job_id, data, data)
    if data is not None and not repeats:
        await workers.update_payload(call.service, call.who, delivery, data)
    report = Report(delivery, exitcode, data or b"", carried=data if repeats else None)
    (verdict,) = await workers.report(call.service, call.who, [report])
    if verdict.answer is Answer.LATE and held is not None:
        _delivery(call, await call.job(), what)  # says what the job is doing instead
    _end_delivery(call, delivery, verdict)
    return b""


async def retry_job(call: Call) -> bytes:
    record = await call.job()
    data, name = call.parameters.data(), _another_name(call, record)
    now_ms = call.service.now_ms()
    next_run, delay_s = call.parameters.text("nextRun", 40), call.parameters.number("delay", 0, MAX_DELAY_S)
    due_ms = parse_time_ms(next_run, "nextRun") if next_run else now_ms + 1000 * (delay_s or 0)
    if not is_running(record):
        call.who.require("manage")
        if name is not None and record.state in {JobState.ARCHIVED, JobState.DEFERRED}:  # others are refused
            await register_types(call, [name])
        await job_changes.retry_job(call.service, call.who, record.job.id, dt_ms=due_ms, payload=data, type_name=name)
        return b""
    if record.job.repeat:  # the document: the other times are ignored then
        due_ms = next_round_ms(record.job, record.claimed_ms, now_ms) or due_ms
    delivery = _delivery(call, record, "retried")
    if name is None and data is not None:
        await job_changes.check_carried(call.service, call.who, record.job.id, data)
    if name is None:
        report = Report(delivery, 100, retry_after_ms=max(due_ms - now_ms, 0), carried=data, in_window=False)
        (verdict,) = await workers.report(call.service, call.who, [report])
        _end_delivery(call, delivery, verdict)
        if verdict.code == Code.ABANDONED:
            raise Refusal(405, "The job has run as often as it may (max_attempts): it is FAILED now")
        if verdict.code == Code.FAILED:
            raise Refusal(402, f"The job is FAILED now: {verdict.message}")
    else:
        await register_types(call, [name])
        await workers.move(call.service, call.who, delivery, name, dt_ms=due_ms, payload=data)
    return b""


def _another_name(call: Call, record: JobRecord) -> str | None:
    """The type that a job is to have from now on, which is a new job of it, in a way; None: it keeps its own. Raises
    Conflict for a job that has to keep it."""
    name = call.parameters.type_name() if call.parameters.text("name") else None
    if name is None or name == type_of(record.job.jobtype):
        return None
    call.who.require("submit")
    job, is_paused = record.job, record.state is JobState.PAUSED
    is_bound = bool(job.unique) or job.seq is not None
    check_move(job.id, None, None, is_at_rest=not is_paused, is_bound=is_bound, is_consumed=False)
    return name


async def cancel_job(call: Call) -> bytes:
    record = await call.job()
    state = state_of(record)
    if state == RUNNING:
        raise Refusal(405, "Cannot cancel a job that is RUNNING")
    if state not in {FINISHED, CANCELLED}:
        await cancel(call.service, call.tenant, record.job.id)
    return b""


async def delete_job(call: Call) -> bytes:
    record = await call.job()
    if is_running(record):
        raise Refusal(405, f"Cannot delete a job that is {state_of(record)}")
    await job_changes.delete_job(call.service, call.who, record.job.id)
    return b""


def _delivery(call: Call, record: JobRecord, what: str) -> Delivery:
    """The delivery that a worker means. Raises Refusal if no worker holds the job."""
    if not is_running(record):
        raise Refusal(405, f"The job is {state_of(record)}: only a RUNNING job can be {what}")
    if record.job.lock != OWNER:
        raise Refusal(405, f"The job is run by a handler: only a job that a worker has taken can be {what}")
    held = call.peer.held(record.job.id)
    return Delivery(record.job.id, record.job.token if held is None else held.token)


def _end_delivery(call: Call, delivery: Delivery, verdict: Verdict) -> None:
    """Raises Refusal unless the report was recorded."""
    if verdict.answer is Answer.OK or verdict.status not in {None, INVALID}:  # or the job has failed
        call.takers.has_ended(*delivery)
    if verdict.answer is Answer.UNKNOWN:
        raise no_job()
    if verdict.answer is Answer.REFUSED:
        raise Refusal(_OVER_QUOTA if verdict.status == _OVER_QUOTA else 402, verdict.message)
    if verdict.answer is not Answer.OK:
        raise Refusal(405, verdict.message)
