"""Schedules, which are jobs that repeat: list, pause and resume them, and see the next times of a pattern.

A pause takes effect between two rounds. One that has begun goes on to its end, with its attempts and its children.
"""

from typing import Final

from functory.errors import InvalidInput
from functory.operations.audit import audit
from functory.operations.job_settings import checked_repeat
from functory.operations.jobs import get_job, when_stored
from functory.operations.principal import Principal
from functory.operations.service import Service
from scheduler.cron import Cron
from scheduler.errors import SchedulerError
from scheduler.repeat import first_run_ms, next_times_ms, parse_repeat
from store.base import JobChange, JobPage, JobRecord, Pause

_AS_PLANNED: Final = 0


async def list_schedules(service: Service, tenant: str, *, cursor: str | None, limit: int) -> JobPage:
    """The jobs that repeat and are not over, in order of type and id."""
    return await service.store.list_repeating(tenant, now_ms=service.now_ms(), cursor=cursor, limit=limit)


async def pause_schedule(service: Service, who: Principal, job_id: str) -> None:
    """No round of it begins until it is resumed. Pausing it again changes nothing. Raises Missing, Conflict (it does
    not repeat, or is over)."""
    now_ms = service.now_ms()
    await _change(service, who, job_id, JobChange(pause=Pause(now_ms, who.key_id)))
    await audit(service, who.key_id, "schedule.pause", who.tenant, id=job_id)


async def resume_schedule(service: Service, who: Principal, job_id: str) -> None:
    """It goes on. A round of the calendar that was missed is not made up for: the next one is at the next time from now
    on. Any other pattern goes on as after an outage. Resuming what is not paused changes nothing. Raises Missing,
    Conflict (it is over)."""
    found = await get_job(service, who.tenant, job_id)
    resume_ms = _resume_ms(found, service.now_ms()) if isinstance(found, JobRecord) else _AS_PLANNED
    await _change(service, who, job_id, JobChange(resume_ms=resume_ms))
    await audit(service, who.key_id, "schedule.resume", who.tenant, id=job_id)
    service.control.wake()


def next_times(repeat: str, now_ms: int, count: int, first_ms: int | None = None) -> list[int]:
    """When rounds of such a schedule would be due from now on, or from that first one, if each took no time. Raises
    InvalidInput."""
    pattern = checked_repeat(repeat, now_ms)
    try:
        return next_times_ms(pattern, first_run_ms(pattern, now_ms) if first_ms is None else first_ms, count)
    except SchedulerError as error:  # it leads forward twice, and not for so long
        raise InvalidInput(f"repeat: {error}", detail={"field": "repeat"}) from None


def coming_times(found: JobRecord, now_ms: int, count: int) -> list[int]:
    """The next of a schedule, from the one that is planned, if each took no time; of one that is paused, if it were
    resumed now."""
    job = found.job
    first_ms = job.due_ms if found.schedule.regular_ms is None else found.schedule.regular_ms
    if found.schedule.pause is not None:
        first_ms = max(first_ms, _resume_ms(found, now_ms))
    try:
        return next_times_ms(parse_repeat(job.repeat), first_ms, count) if job.repeat else []
    except SchedulerError:
        return [first_ms]


async def _change(service: Service, who: Principal, job_id: str, change: JobChange) -> None:
    async def apply() -> None:
        await service.store.update_job(who.tenant, job_id, change, now_ms=service.now_ms())

    await when_stored(service, who.tenant, job_id, apply)


def _resume_ms(found: JobRecord, now_ms: int) -> int:
    """Before which its next round is not to be."""
    due_ms = found.job.due_ms if found.schedule.regular_ms is None else found.schedule.regular_ms
    if due_ms > now_ms or not found.job.repeat:
        return _AS_PLANNED
    try:
        pattern = parse_repeat(found.job.repeat)
        return pattern.next_ms(now_ms) if isinstance(pattern, Cron) else _AS_PLANNED
    except SchedulerError:
        return _AS_PLANNED
