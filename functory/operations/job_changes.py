"""Change a job that is there: its payload, its time; remove all trace of it.

| verb | who | in which state |
|---|---|---|
| update | a key with `manage` | waiting, deferred, paused |
| retry | a key with `manage` | archived: it runs again; deferred: it gets another time, or a schedule an extra round |
| delete | a key with `manage` | any but running; its children that never ran go with it |

All others are refused with Conflict, and nothing has changed then.
"""

from typing import Final, NamedTuple

from functory.errors import NotReadyYet
from functory.operations.audit import audit
from functory.operations.consumers import refuse_repeat
from functory.operations.job_settings import checked_repeat
from functory.operations.jobs import get_job, when_stored
from functory.operations.principal import Principal
from functory.operations.service import Service
from scheduler.cron import Cron
from store.base import Job, JobChange, JobRecord, JobState, Timing
from store.errors import Conflict, NotFound
from vocabulary.names import jobtype_of, type_of

_PAGE: Final = 1000
_CAN_BE_RETRIED: Final = "only a job that has ended or is deferred can be retried"


class JobEdit(NamedTuple):
    """What is to be changed of a job that has not started; None leaves a thing as it is. repeat and dt_ms, the time of
    the next round, are of a schedule; repeat "" ends it with the next round."""

    payload: bytes | None = None
    priority: int | None = None
    repeat: str | None = None
    dt_ms: int | None = None


async def update_job(service: Service, who: Principal, job_id: str, edit: JobEdit) -> None:
    """Change a job that has not started. Raises Missing, Conflict (it has, or it does not repeat), InvalidInput (the
    pattern), LimitExceeded, QuotaExceeded.

    Another pattern of the calendar sets the time of the next round, if nobody says another one. Another distance counts
    from the end of the next round."""
    if edit.payload is not None:
        await admit_payload(service, who, job_id, edit.payload)
    dt_ms = edit.dt_ms
    if edit.repeat is not None or dt_ms is not None:
        dt_ms = await _next_round_ms(service, who, job_id, edit)
    changes = JobChange(
        data=edit.payload,
        dt_ms=dt_ms,
        at_rest=True,
        timing=Timing.MOVED if dt_ms is None else Timing.ANEW,
        repeat=edit.repeat,
        priority=edit.priority,
    )

    async def change() -> None:
        await service.store.update_job(who.tenant, job_id, changes, now_ms=service.now_ms())

    await when_stored(service, who.tenant, job_id, change)
    if edit.repeat is not None or dt_ms is not None or edit.priority is not None:
        service.control.wake()
    await audit(service, who.key_id, "job.update", who.tenant, id=job_id)


async def _next_round_ms(service: Service, who: Principal, job_id: str, edit: JobEdit) -> int | None:
    """The new time of its next round; None: it keeps the one that it has. The pattern is checked as that of a new
    job."""
    now_ms = service.now_ms()
    pattern = checked_repeat(edit.repeat, now_ms) if edit.repeat else None
    found = await get_job(service, who.tenant, job_id)
    if not isinstance(found, JobRecord):
        raise NotReadyYet(f"job {job_id} is still on its way into the store: ask again in a moment")
    job = found.job
    if not job.repeat:
        raise Conflict(f"job {job_id} does not repeat: add a new job with repeat, or use retry to give it another time")
    if pattern is not None:
        await refuse_repeat(service, who.tenant, {job.jobtype})
    if edit.dt_ms is not None:
        return max(edit.dt_ms, now_ms)
    return pattern.next_ms(now_ms) if isinstance(pattern, Cron) and edit.repeat != job.repeat else None


async def retry_job(
    service: Service,
    who: Principal,
    job_id: str,
    *,
    dt_ms: int | None = None,
    payload: bytes | None = None,
    type_name: str | None = None,
) -> None:
    """Queue an archived job again, or give a deferred one another time; at once, unless dt_ms names a later time. A
    schedule that runs at once has an extra round, and its next one keeps its time; so has one that is paused.

    With payload, that is what it runs with; with type_name it moves to that type, and who moves it may submit: it is a
    new job of that type, in a way. Raises Forbidden, Missing, Conflict (it is neither, its unique name is taken, or it
    cannot move), LimitExceeded, QuotaExceeded.
    """
    now_ms = service.now_ms()
    due_ms = now_ms if dt_ms is None else max(dt_ms, now_ms)
    job = await get_job(service, who.tenant, job_id)
    if not isinstance(job, JobRecord):
        raise Conflict(f"job {job_id} is queued: {_CAN_BE_RETRIED}")
    if type_name not in {None, type_of(job.job.jobtype)}:
        who.require("submit")
    if payload is not None:
        await admit_payload(service, who, job_id, payload)
    state = job.state
    if type_name is not None and (state in {JobState.DEFERRED, JobState.ARCHIVED} or job.is_on_hold):
        jobtype = jobtype_of(who.tenant, type_name)
        await service.admission.take_type(who.tenant, who.limits, jobtype)
        await service.store.move_job(who.tenant, job_id, jobtype, dt_ms=due_ms, now_ms=now_ms, data=payload)
    elif state is JobState.DEFERRED or job.is_on_hold:
        is_extra = dt_ms is None and _is_between_rounds(job)
        timing = Timing.EXTRA if is_extra else Timing.MOVED
        is_last = dt_ms is None and job.is_on_hold and not job.job.repeat  # nothing comes after it that could be paused
        resume_ms = now_ms if is_last else None
        changes = JobChange(data=payload, dt_ms=due_ms, at_rest=True, timing=timing, resume_ms=resume_ms)
        await service.store.update_job(who.tenant, job_id, changes, now_ms=now_ms)
    elif state is not JobState.ARCHIVED:
        raise Conflict(f"job {job_id} is {state}: {_CAN_BE_RETRIED}")
    else:
        await service.admission.take_type(who.tenant, who.limits, job.job.jobtype)
        if not await service.store.replay_jobs(who.tenant, [job_id], dt_ms=due_ms, now_ms=now_ms, data=payload):
            raise Conflict(f"job {job_id} {_why_not_replayed(job.job)}")
    service.control.wake()
    if payload is not None:
        await audit(service, who.key_id, "job.update", who.tenant, id=job_id)


def _is_between_rounds(found: JobRecord) -> bool:
    """Whether it is a schedule of which no round has begun."""
    return bool(found.job.repeat) and not found.job.attempts and found.job.planned_ms is None


def _why_not_replayed(job: Job) -> str:
    """Of an archived job that the store has left out. What it does not have cannot be the reason."""
    reasons = []
    if job.unique or not job.children:
        reasons.append("has a unique name that another job holds now")
    if job.children:
        reasons.append("has ended, and its children are still being cancelled: try again in a moment")
    return ", or ".join(reasons)


async def delete_job(service: Service, who: Principal, job_id: str) -> int:
    """Remove all trace of a job, and of its children that never ran. Returns how many jobs are gone.

    Several steps, each harmless to repeat: a job that was not over is cancelled first, the children go before it, and
    it goes last. So a call that was interrupted can be made again. Raises Missing, Conflict (it is running).
    """
    tenant = who.tenant

    async def stop() -> None:
        job = await get_job(service, tenant, job_id)
        if isinstance(job, JobRecord) and job.state is JobState.ARCHIVED:
            return
        now_ms = service.now_ms()
        try:
            await service.store.cancel_job(tenant, job_id, now_ms=now_ms)
        except Conflict:  # it runs, or has ended just now
            if (await service.store.get_states(tenant, [job_id], now_ms=now_ms)).get(job_id) is not JobState.ARCHIVED:
                raise
        service.control.cancelled(job_id)

    await when_stored(service, tenant, job_id, stop)
    removed = await _delete_children(service, tenant, job_id)
    if not await service.store.delete_jobs(tenant, [job_id], now_ms=service.now_ms()):
        raise Conflict(f"job {job_id} was changed while it was to be deleted: look at it, and try again")
    await audit(service, who.key_id, "job.delete", tenant, id=job_id, jobs=removed + 1)
    return removed + 1


async def _delete_children(service: Service, tenant: str, parent_id: str) -> int:
    """The children that never ran, with theirs. One that has begun to run keeps its record."""
    removed = 0
    cursor: str | None = None
    while True:
        page = await service.store.list_children(tenant, parent_id, now_ms=service.now_ms(), cursor=cursor, limit=_PAGE)
        for record in page.records:
            if record.job.token == 0:
                removed += await _delete_unstarted(service, tenant, record)
        cursor = page.cursor
        if cursor is None:
            return removed


async def _delete_unstarted(service: Service, tenant: str, record: JobRecord) -> int:
    if record.state is not JobState.ARCHIVED:
        try:
            await service.store.cancel_job(tenant, record.job.id, now_ms=service.now_ms())
        except (Conflict, NotFound):  # it started just now, or somebody else deletes it
            return 0
    removed = await _delete_children(service, tenant, record.job.id)
    return removed + await service.store.delete_jobs(tenant, [record.job.id], now_ms=service.now_ms())


async def admit_payload(service: Service, who: Principal, job_id: str, payload: bytes) -> None:
    """A payload in place of another: held against the same limits as a new one, for what it is more."""
    job = await get_job(service, who.tenant, job_id)
    if isinstance(job, JobRecord):
        service.admission.check(job.job.jobtype, [payload])
        more_bytes = max(len(payload) - job.data_bytes, 0)
        await service.admission.take(who.tenant, who.limits, jobs=0, size_bytes=more_bytes)


async def check_carried(service: Service, who: Principal, job_id: str, payload: bytes, result: bytes = b"") -> None:
    """Whether a run can end with a result and this payload for what comes next. Both are counted when the end is
    recorded, and what is over a limit then would have the job fail. Raises Missing, LimitExceeded, QuotaExceeded."""
    job = await get_job(service, who.tenant, job_id)
    if isinstance(job, JobRecord):
        service.admission.check(job.job.jobtype, [payload])
        more_bytes = max(len(payload) - job.data_bytes, 0)
        await service.admission.check_result(who.tenant, who.limits, len(result) + more_bytes)
