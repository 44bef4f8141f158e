"""Submit: jobs in, ids out, durable when it returns.

There are three ways in:

- Plain jobs go through the journal: one batch for each set of options, one shared sync.
- Jobs with a unique name or a parent go to the store at once, after the lines that this daemon has accepted. So do
  those whose options are too long for the journal, with all others of their body.
- A request with an idempotency key goes to the store too. First the key is bound to ids (idempotency.py), then jobs are
  added under these ids, which is idempotent. A request that is repeated after a lost answer, a crash or a restart
  returns the same ids, and each job exists exactly once.

All three are admitted in the same way (`intake/admission.py`).
"""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple

from functory.errors import InvalidInput, NotReadyYet
from functory.execution.wishes import PROBE
from functory.intake.job_options import PLAIN, JobOptions, fit_journal, new_job
from functory.operations.consumers import refuse_repeat
from functory.operations.idempotency import Fingerprint, bind_key, freed_if_refused, note_added, were_added
from functory.operations.principal import Principal
from functory.operations.service import Service
from journal import LimitExceeded, Settled
from store.base import CreateReport, Creation, NewJob
from store.checks import check_new_job
from store.errors import InvalidValue, StoreUnavailable
from store.names import MAX_BATCH
from vocabulary.names import jobtype_of, tenant_of

_STORED_TIMEOUT_S: Final = 30.0
_NO_JOB: Final = "the body holds no job: send at least one"
_MAX_OPTION_SETS: Final = 1000
"""Different sets of options in one body. Each becomes a batch in the journal."""
_ADDED_AT_ONCE: Final = 1000
"""Jobs under an idempotency key that are built and added in one step: the event loop waits meanwhile."""
CREATED_AT_ONCE: Final = 20
"""Jobs that are created without a turn: they take a millisecond."""


class Submission(NamedTuple):
    """A job to submit. unique and parent are empty for most."""

    payload: bytes
    options: JobOptions = PLAIN
    unique: str = ""
    parent: str = ""
    keeps: frozenset[str] = frozenset()
    """What a live job with the same unique name keeps."""


class Submitted(NamedTuple):
    """Jobs of a request with an idempotency key. is_repeat: the key was used before, for the same request."""

    ids: list[str]
    is_repeat: bool


def max_jobs(service: Service) -> int:
    """How many jobs one request may bring: for callers that count before they build them."""
    return service.admission.max_jobs_at_once


async def submit_lines(
    service: Service, who: Principal, type_name: str, lines: list[bytes], options: JobOptions = PLAIN
) -> list[str]:
    """Submit plain jobs with the same options, one per line, through the journal. The hot path: no work per line."""
    if not lines:
        raise InvalidInput(_NO_JOB, detail={"field": "body"})
    jobtype = jobtype_of(who.tenant, type_name)
    if options is not PLAIN:
        check_options(options)
        await refuse_repeat(service, who.tenant, {jobtype} if options.repeat else ())
    if not service.admission.knows_type(who.tenant, jobtype):
        await service.admission.take_type(who.tenant, who.limits, jobtype)
    if who.limits.max_jobs is not None or who.limits.max_bytes is not None:
        await _take_quota(service, who, jobtype, len(lines), sum(map(len, lines)))
    if options is not PLAIN and not fit_journal(options):
        service.admission.check(jobtype, lines)
        return await _add_past_journal(service, jobtype, [Submission(line, options) for line in lines])
    return await _write(service, jobtype, lines, options)


def begin_lines(
    service: Service, who: Principal, type_name: str, lines: list[bytes], told: Settled
) -> list[str] | None:
    """The first half of `submit_lines`, for a few lines without options: their ids. `told` hears, later, that they are
    durable, or why not. None: something has to be asked first (about a new type, or a quota), and nothing was done."""
    jobtype, limits = jobtype_of(who.tenant, type_name), who.limits
    is_limited = limits.max_jobs is not None or limits.max_bytes is not None
    if not lines or is_limited or not service.admission.knows_type(who.tenant, jobtype):
        return None

    def settled(error: Exception | None) -> None:
        if error is None:
            service.accepted.note(ids, jobtype, PLAIN)
        told(error)

    ids = service.intake.begin(jobtype, lines, settled)
    return ids


async def submit_jobs(service: Service, who: Principal, type_name: str, jobs: Sequence[Submission]) -> list[str]:
    """Submit jobs with options of their own. Returns their ids in the same order.

    All are checked before any is written. When writing fails half way (507, 503), some may have been taken; a caller
    that wants to repeat safely sends an idempotency key.
    """
    await _let_others(jobs)
    jobtype = jobtype_of(who.tenant, type_name)
    check_submissions(service, jobtype, jobs)
    await _let_others(jobs)
    await refuse_repeat(service, who.tenant, {jobtype for job in jobs if job.options.repeat})
    size_bytes = _size_bytes(jobs)
    await _take_quota(service, who, jobtype, len(jobs), size_bytes)
    if any(job.unique or job.parent for job in jobs):
        with service.admission.storing(who.tenant, jobs=len(jobs), size_bytes=size_bytes):
            return await _create(service, jobtype, jobs)
    groups: dict[JobOptions, list[int]] = {}
    by_identity: dict[int, list[int]] = {}  # most jobs share an object, and hashing one costs ten looks at its id
    for number, job in enumerate(jobs):
        group = by_identity.get(id(job.options))
        if group is None:
            group = by_identity[id(job.options)] = groups.setdefault(job.options, [])
        group.append(number)
    if not all(map(fit_journal, groups)):
        return await _add_past_journal(service, jobtype, jobs)
    ids = [""] * len(jobs)
    writes = [
        _write(service, jobtype, [jobs[number].payload for number in numbers], options)
        for options, numbers in groups.items()
    ]
    for numbers, batch in zip(groups.values(), await asyncio.gather(*writes), strict=True):
        for number, job_id in zip(numbers, batch, strict=True):
            ids[number] = job_id
    return ids


async def submit_once(
    service: Service, who: Principal, type_name: str, jobs: Sequence[Submission], *, key: str, fingerprint: Fingerprint
) -> Submitted:
    """Submit jobs under an idempotency key of the tenant. `fingerprint` identifies the content of the request.

    The key is bound only for jobs that are admitted. A repeated request adds nothing; if it is not known that the first
    one added everything, it is admitted for the jobs of it that are not there. Raises IdempotencyMismatch when the key
    was used for other content in the last LIFE_S (idempotency.py).
    """
    await _let_others(jobs)
    jobtype = jobtype_of(who.tenant, type_name)
    check_submissions(service, jobtype, jobs)
    check_key(jobs)
    await _let_others(jobs)
    mine = service.journal.take_ids(len(jobs))
    size_bytes = _size_bytes(jobs)
    with ExitStack() as taken:

        async def admit() -> None:
            await refuse_repeat(service, who.tenant, {jobtype for job in jobs if job.options.repeat})
            await _take_quota(service, who, jobtype, len(jobs), size_bytes)
            taken.enter_context(service.admission.storing(who.tenant, jobs=len(jobs), size_bytes=size_bytes))

        whole = None
        if len(jobs) <= _ADDED_AT_ONCE and not any(job.parent for job in jobs):
            whole = [stored_job(service, jobtype, *one) for one in zip(jobs, mine, strict=True)]
        ids = left = await bind_key(service, who.tenant, key, fingerprint, mine, admit, whole)
        if ids is mine and whole is not None:
            service.control.wake()
            return Submitted(ids, is_repeat=False)
        if ids is mine:
            async with freed_if_refused(service, who.tenant, key, fingerprint, mine):
                await _add_children(service, jobtype, jobs, mine)
    if ids is not mine:
        if await were_added(service, who.tenant, ids):
            return Submitted(ids, is_repeat=True)
        await _let_others(jobs)
        missing = await _missing(service, who, jobtype, jobs, ids)
        jobs, left = [jobs[n] for n in missing], [ids[n] for n in missing]
        with service.admission.storing(who.tenant, jobs=len(jobs), size_bytes=_size_bytes(jobs)):
            await _add_children(service, jobtype, jobs, left)
    await _add(service, jobtype, jobs, left)
    await note_added(service, who.tenant, ids)
    return Submitted(ids, is_repeat=ids is not mine)


def check_key(jobs: Iterable[Submission]) -> None:
    """Whether an idempotency key may be given with these. Raises InvalidInput."""
    if any(job.unique for job in jobs):
        raise InvalidInput(
            "use either unique or idempotency_key, not both: a unique name already is such a key",
            detail={"field": "idempotency_key"},
        )


async def until_stored(service: Service, tenant: str, ids: list[str]) -> None:
    """Wait until jobs that were just submitted are in the store. Raises NotReadyYet, which says that they are safe."""
    try:
        async with asyncio.timeout(_STORED_TIMEOUT_S):
            await service.intake.flush(tenant)
    except (StoreUnavailable, TimeoutError) as error:
        raise NotReadyYet(
            "the jobs are accepted and durable in the journal, but not in the store yet: do not send them again",
            detail={"accepted": True, "ids": ids},
        ) from error


def check_options(options: JobOptions) -> None:
    """Raises the store's InvalidValue. What passes here is never refused later, when the journal is read."""
    dt_ms = options.dt_ms or 0
    check_new_job(PROBE._replace(**{**options._asdict(), "dt_ms": dt_ms}))


def check_submissions(service: Service, jobtype: str, jobs: Sequence[Submission]) -> None:
    """Everything that can be said of them without the store. Raises InvalidInput, InvalidValue, LimitExceeded."""
    if not jobs:
        raise InvalidInput(_NO_JOB, detail={"field": "body"})
    service.admission.check(jobtype, [job.payload for job in jobs])
    sets = set({id(job.options): job.options for job in jobs}.values())
    check_option_sets(len(sets))
    for options in sets:
        check_options(options)
    created = [job for job in jobs if job.unique or job.parent]
    if created and len(jobs) > service.settings.max_created:
        what = "the number of jobs in a body in which one has a unique name or a parent"
        raise LimitExceeded(what, len(jobs), "max_created", service.settings.max_created)
    for job in created:
        _check_links(job)


def find_invalid(jobs: Iterable[Submission]) -> tuple[int, InvalidValue] | None:
    """Which of the jobs that `check_submissions` has refused it is about, and why: for callers that can tell its name.
    None: it is about none of them."""
    seen: set[int] = set()
    linked: list[tuple[int, Submission]] = []
    for index, job in enumerate(jobs):
        if id(job.options) not in seen:
            seen.add(id(job.options))
            try:
                check_options(job.options)
            except InvalidValue as error:
                return index, error
        if job.unique or job.parent:
            linked.append((index, job))
    for index, job in linked:
        try:
            _check_links(job)
        except InvalidValue as error:
            return index, error
    return None


def _check_links(job: Submission) -> None:
    check_new_job(PROBE._replace(unique=job.unique, parent=job.parent, repeat=job.options.repeat))


def check_option_sets(count: int) -> None:
    """For callers that see them one by one, too. Raises InvalidInput."""
    if count > _MAX_OPTION_SETS:
        raise InvalidInput(
            f"more than {_MAX_OPTION_SETS} different sets of options in one body: split it",
            detail={"field": "body"},
        )


async def _let_others(jobs: Sequence[Submission]) -> None:
    """Between two steps over all jobs of a large request, others have their turn."""
    if len(jobs) > _ADDED_AT_ONCE:
        await asyncio.sleep(0)


def _size_bytes(jobs: Iterable[Submission]) -> int:
    return sum(len(job.payload) for job in jobs)


async def _take_quota(service: Service, who: Principal, jobtype: str, jobs: int, size_bytes: int) -> None:
    await service.admission.take_type(who.tenant, who.limits, jobtype)
    await service.admission.take(who.tenant, who.limits, jobs=jobs, size_bytes=size_bytes)


async def _write(service: Service, jobtype: str, lines: list[bytes], options: JobOptions) -> list[str]:
    ids = await service.intake.write(jobtype, lines, options)
    service.accepted.note(ids, jobtype, options)
    return ids


async def _missing(
    service: Service, who: Principal, jobtype: str, jobs: Sequence[Submission], ids: Sequence[str]
) -> list[int]:
    """Which jobs of a repeated request are not in the store: they are admitted as new ones. Raises Conflict,
    QuotaExceeded."""
    there: set[str] = set()
    for start in range(0, len(ids), MAX_BATCH):
        some = ids[start : start + MAX_BATCH]
        there |= (await service.store.get_states(who.tenant, some, now_ms=service.now_ms())).keys()
    missing = [number for number, job_id in enumerate(ids) if job_id not in there]
    if missing:
        await refuse_repeat(service, who.tenant, {jobtype for number in missing if jobs[number].options.repeat})
        await _take_quota(service, who, jobtype, len(missing), _size_bytes(jobs[number] for number in missing))
    return missing


async def _ids_after_lines(service: Service, jobtype: str, count: int) -> list[str]:
    """For jobs that go to the store at once. What this daemon has accepted before is there first: jobs of a key run in
    that order, and a parent may be one of them."""
    await service.intake.flush(tenant_of(jobtype))
    return service.journal.take_ids(count)


async def _create(service: Service, jobtype: str, jobs: Sequence[Submission]) -> list[str]:
    """All or none in the store, in the order of the body; more than MAX_BATCH are several such batches."""
    ids = await _ids_after_lines(service, jobtype, len(jobs))
    creations = [
        Creation(stored_job(service, jobtype, job, job_id), job.keeps) for job, job_id in zip(jobs, ids, strict=True)
    ]
    reports: list[CreateReport] = []
    for start in range(0, len(creations), MAX_BATCH):
        reports += await create_in_turn(service, tenant_of(jobtype), creations[start : start + MAX_BATCH])
    service.control.wake()
    return [report.id for report in reports]


async def create_in_turn(service: Service, tenant: str, creations: Sequence[Creation]) -> list[CreateReport]:
    """All or none in the store. Many take a turn: however many requests a tenant has, only a few of them stand before
    those of others."""
    if len(creations) <= CREATED_AT_ONCE:
        return await service.store.create_jobs(creations, now_ms=service.now_ms())
    async with service.create_turns.of(tenant):
        return await service.store.create_jobs(creations, now_ms=service.now_ms())


async def _add_past_journal(service: Service, jobtype: str, jobs: Sequence[Submission]) -> list[str]:
    """In the order of the body, in steps that nobody has to wait for long."""
    ids = await _ids_after_lines(service, jobtype, len(jobs))
    await _add(service, jobtype, jobs, ids)
    return ids


async def _add_children(service: Service, jobtype: str, jobs: Sequence[Submission], ids: Sequence[str]) -> None:
    """Those of the jobs that have a parent, all or none. They come before the others: a parent may refuse them. Raises
    the store's NotFound and Conflict."""
    children = [pair for pair in zip(jobs, ids, strict=True) if pair[0].parent]
    if children:
        creations = [Creation(stored_job(service, jobtype, job, job_id)) for job, job_id in children]
        await create_in_turn(service, tenant_of(jobtype), creations)


async def _add(service: Service, jobtype: str, jobs: Sequence[Submission], ids: Sequence[str]) -> None:
    """The others, in steps that nobody has to wait for long."""
    for start in range(0, len(jobs), _ADDED_AT_ONCE):
        some = zip(jobs[start : start + _ADDED_AT_ONCE], ids[start : start + _ADDED_AT_ONCE], strict=True)
        plain = [stored_job(service, jobtype, job, job_id) for job, job_id in some if not job.parent]
        if plain:
            await service.store.add_jobs(plain, now_ms=service.now_ms())
    service.control.wake()


def stored_job(service: Service, jobtype: str, job: Submission, job_id: str) -> NewJob:
    new = new_job(job_id, jobtype, job.payload, job.options, service.now_ms())
    return new._replace(unique=job.unique, parent=job.parent) if job.unique or job.parent else new
