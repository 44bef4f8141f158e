"""Create jobs of several types together: all of them, or none.

They go into the store in one write, whatever they are, after the lines that this daemon has accepted. With an
idempotency key the key is bound to ids first, so a request that is repeated creates nothing twice (idempotency.py).
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, nullcontext

from functory.errors import InvalidInput
from functory.operations.consumers import refuse_repeat
from functory.operations.idempotency import Fingerprint, bind_key, freed_if_refused, note_added, were_added
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.submit import Submission, check_key, check_submissions, create_in_turn, stored_job
from journal import LimitExceeded
from store.base import Creation
from vocabulary.names import jobtype_of

TypedSubmission = tuple[str, Submission]
"""A type, and a job of it."""


async def create_jobs(
    service: Service, who: Principal, jobs: Sequence[TypedSubmission], *, key: str | None = None, content: str = ""
) -> list[str]:
    """Their ids, in the same order; for a unique name that a live job has, the id of that one. `content` identifies
    the request, if it has an idempotency key.

    Raises InvalidInput, LimitExceeded, QuotaExceeded, IdempotencyMismatch, and of the store InvalidValue, NotFound and
    Conflict (a parent, a unique name, a job that repeats in a type with a consumer). Then none was created.
    """
    _check(service, who.tenant, jobs)
    size_bytes = sum(len(job.payload) for _, job in jobs)
    with ExitStack() as taken:

        async def admit() -> None:
            await _admit(service, who, jobs, size_bytes)
            taken.enter_context(service.admission.storing(who.tenant, jobs=len(jobs), size_bytes=size_bytes))

        return await _create(service, who, jobs, key, Fingerprint(content), admit)


async def _create(
    service: Service,
    who: Principal,
    jobs: Sequence[TypedSubmission],
    key: str | None,
    fingerprint: Fingerprint,
    admit: Callable[[], Awaitable[None]],
) -> list[str]:
    ids = mine = service.journal.take_ids(len(jobs))
    if key is None:
        await admit()
    else:
        check_key(job for _, job in jobs)
        ids = await bind_key(service, who.tenant, key, fingerprint, mine, admit)
        if ids is not mine:
            if await were_added(service, who.tenant, ids):
                return ids
            if not await service.store.get_states(who.tenant, ids[:1], now_ms=service.now_ms()):
                await _refuse_repeat(service, who.tenant, jobs)
    await service.intake.flush(who.tenant)
    creations = [
        Creation(stored_job(service, jobtype_of(who.tenant, type_name), job, job_id), job.keeps)
        for (type_name, job), job_id in zip(jobs, ids, strict=True)
    ]
    first = (
        nullcontext()
        if key is None or ids is not mine
        else freed_if_refused(service, who.tenant, key, fingerprint, ids)
    )
    async with first:
        reports = await create_in_turn(service, who.tenant, creations)
    if key is not None:
        await note_added(service, who.tenant, ids)
    service.control.wake()
    return [report.id for report in reports]


def _check(service: Service, tenant: str, jobs: Sequence[TypedSubmission]) -> None:
    """Everything that can be said of them without the store."""
    if not jobs:
        raise InvalidInput("the body holds no job: send at least one", detail={"field": "jobs"})
    if len(jobs) > service.settings.max_created:
        what = "the number of jobs that are created together"
        raise LimitExceeded(what, len(jobs), "max_created", service.settings.max_created)
    by_type: defaultdict[str, list[Submission]] = defaultdict(list)
    for type_name, job in jobs:
        by_type[type_name].append(job)
    for type_name, some in by_type.items():
        check_submissions(service, jobtype_of(tenant, type_name), some)


async def _admit(service: Service, who: Principal, jobs: Sequence[TypedSubmission], size_bytes: int) -> None:
    """Whether they may come in, and room for all of them at once. Raises Conflict, and QuotaExceeded: then no job is
    counted. Nothing that was counted is ever given back: the store may have been asked meanwhile."""
    await _refuse_repeat(service, who.tenant, jobs)
    jobtypes = [jobtype_of(who.tenant, type_name) for type_name in dict.fromkeys(name for name, _ in jobs)]
    await service.admission.check_room(who.tenant, who.limits, jobs=len(jobs), size_bytes=size_bytes)
    await service.admission.take_types(who.tenant, who.limits, jobtypes)
    await service.admission.take(who.tenant, who.limits, jobs=len(jobs), size_bytes=size_bytes)


async def _refuse_repeat(service: Service, tenant: str, jobs: Sequence[TypedSubmission]) -> None:
    await refuse_repeat(service, tenant, {jobtype_of(tenant, name) for name, job in jobs if job.options.repeat})
