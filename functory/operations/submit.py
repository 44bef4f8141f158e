"""Submit: jobs in, ids out, durable when it returns.

Three ways in, by what the jobs ask for:
- plain jobs go through the journal: one batch per set of options, one shared sync;
- jobs with a unique name or a parent go to the store at once, after the lines that this daemon has accepted;
- a request with an idempotency key goes to the store, too. The key is first bound to ids (`put_once`: of all daemons,
  one wins), and then jobs are added under these ids, which is idempotent: a repeated request, after a lost answer, a
  crash at any point or a restart, answers the same ids, and each job is there exactly once.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from functory.errors import IdempotencyMismatch, InvalidInput
from functory.jobattributes import PLAIN, JobOptions, new_job
from functory.operations.principal import Principal
from functory.operations.service import Service
from scheduler import tenant_of
from store.base import NewJob
from store.checks import check_new_job
from store.names import MAX_BATCH

_NO_JOB = "the body holds no job: send at least one"
_PROBE = NewJob("0", "a-b", b"", 0, 0)


class Submission(NamedTuple):
    """One job to be. unique and parent are empty for most."""

    payload: bytes
    options: JobOptions = PLAIN
    unique: str = ""
    parent: str = ""


async def submit_lines(
    service: Service, who: Principal, type_name: str, lines: list[bytes], options: JobOptions = PLAIN
) -> list[str]:
    """Plain jobs with the same options, one per line, through the journal. The hot path: nothing here is per line."""
    if not lines:
        raise InvalidInput(_NO_JOB, detail={"field": "body"})
    jobtype = f"{who.tenant}-{type_name}"
    if options is not PLAIN:
        check_options(options)
    if who.limits.max_jobs is not None or who.limits.max_bytes is not None:
        await _take_quota(service, who, len(lines), sum(map(len, lines)))
    ids = await service.intake.write(jobtype, lines, options)
    service.accepted.note(ids, jobtype, options)
    return ids


async def submit_jobs(service: Service, who: Principal, type_name: str, jobs: Sequence[Submission]) -> list[str]:
    """Jobs with options of their own; their ids in the same order.

    All are checked before any is written. When writing fails half way (507, 503), some may have been taken: a caller
    that wants to repeat safely sends an idempotency key.
    """
    check_submissions(service, jobs)
    if any(job.unique or job.parent for job in jobs):
        await _count(service, who, jobs)
        return await _create(service, f"{who.tenant}-{type_name}", jobs)
    groups: dict[JobOptions, list[int]] = {}
    for number, job in enumerate(jobs):
        groups.setdefault(job.options, []).append(number)
    ids = [""] * len(jobs)
    writes = [
        submit_lines(service, who, type_name, [jobs[number].payload for number in numbers], options)
        for options, numbers in groups.items()
    ]
    for numbers, batch in zip(groups.values(), await asyncio.gather(*writes), strict=True):
        for number, job_id in zip(numbers, batch, strict=True):
            ids[number] = job_id
    return ids


async def submit_once(
    service: Service, who: Principal, type_name: str, jobs: Sequence[Submission], *, key: str, fingerprint: str
) -> list[str]:
    """Jobs under an idempotency key of the tenant; `fingerprint` identifies the request's content.

    Raises IdempotencyMismatch when the key was used, within `idempotency_life_s`, for another content.
    """
    check_submissions(service, jobs)
    if any(job.unique for job in jobs):
        raise InvalidInput(
            "unique and idempotency_key exclude each other: a unique name is a key of its own",
            detail={"field": "idempotency_key"},
        )
    now_ms = service.now_ms()
    mine = service.journal.take_ids(len(jobs))
    expires_ms = now_ms + round(service.settings.idempotency_life_s * 1000)
    standing = await service.store.put_once(
        who.tenant, f"submit:{key}", f"{fingerprint} {mine[0]}".encode(), expires_ms=expires_ms, now_ms=now_ms
    )
    content, first = standing.decode().split(" ")
    if content != fingerprint:
        raise IdempotencyMismatch(
            "this idempotency_key was used for another request: send the same request again, or choose a new key",
            detail={"field": "idempotency_key"},
        )
    if first == mine[0]:
        await _count(service, who, jobs)
    await _add(service, f"{who.tenant}-{type_name}", jobs, _ids_from(first, len(jobs)))
    return _ids_from(first, len(jobs))


def check_options(options: JobOptions) -> None:
    """Raises the store's InvalidValue. What passes here is never refused when ingest reads it from the journal."""
    dt_ms = options.dt_ms or 0
    check_new_job(_PROBE._replace(**{**options._asdict(), "dt_ms": dt_ms}))


def check_submissions(service: Service, jobs: Sequence[Submission]) -> None:
    if not jobs:
        raise InvalidInput(_NO_JOB, detail={"field": "body"})
    sets = {job.options for job in jobs}
    if len(sets) > service.settings.max_option_sets:
        raise InvalidInput(
            f"{len(sets)} different sets of options in one body, at most {service.settings.max_option_sets}: split it",
            detail={"field": "body"},
        )
    for options in sets:
        check_options(options)
    for job in jobs:
        if job.unique or job.parent:
            check_new_job(_PROBE._replace(unique=job.unique, parent=job.parent))


async def _count(service: Service, who: Principal, jobs: Sequence[Submission]) -> None:
    await _take_quota(service, who, len(jobs), sum(len(job.payload) for job in jobs))


async def _take_quota(service: Service, who: Principal, jobs: int, size_bytes: int) -> None:
    await service.quotas.take(
        service.store, who.tenant, who.limits, jobs=jobs, size_bytes=size_bytes, now_ms=service.now_ms()
    )


async def _create(service: Service, jobtype: str, jobs: Sequence[Submission]) -> list[str]:
    """One after the other in the store, in the order of the body; an error leaves those before it created."""
    await service.intake.flush(tenant_of(jobtype))
    ids = []
    for job, job_id in zip(jobs, service.journal.take_ids(len(jobs)), strict=True):
        report = await service.store.create_job(_new_job(service, jobtype, job, job_id), now_ms=service.now_ms())
        ids.append(report.id)
    service.control.wake()
    return ids


async def _add(service: Service, jobtype: str, jobs: Sequence[Submission], ids: Sequence[str]) -> None:
    plain: list[NewJob] = []
    for job, job_id in zip(jobs, ids, strict=True):
        new = _new_job(service, jobtype, job, job_id)
        if new.parent:
            await service.store.create_job(new, now_ms=service.now_ms())
        else:
            plain.append(new)
    for start in range(0, len(plain), MAX_BATCH):
        await service.store.add_jobs(plain[start : start + MAX_BATCH], now_ms=service.now_ms())
    service.control.wake()


def _new_job(service: Service, jobtype: str, job: Submission, job_id: str) -> NewJob:
    new = new_job(job_id, jobtype, job.payload, job.options, service.now_ms())
    return new._replace(unique=job.unique, parent=job.parent) if job.unique or job.parent else new


def _ids_from(first: str, count: int) -> list[str]:
    """The ids that `take_ids` gave out together: consecutive counters."""
    stem, counter = first[:-6], int(first[-6:], 16)
    return [f"{stem}{counter + number:06x}" for number in range(count)]
