"""Jobs and outcomes for tests of the store: short to write, with a clock that starts at T0."""

from collections.abc import Sequence
from typing import Any

from store.base import Archive, ClaimedJobs, Code, Creation, EndOfRun, Job, MakingEnd, NewJob, Outcome, Retry, Store

T0 = 1_800_000_000_000
TENANT = "acme"
JOBTYPE = "acme-thumb"
OWNER = "a1"
LEASE_MS = 30_000


def job_id(number: int, at_ms: int = T0) -> str:
    return f"{at_ms:013d}-a1-{number:06x}"


def new_job(number: int, **changes: Any) -> NewJob:
    job = NewJob(job_id(number), JOBTYPE, b"payload %d" % number, dt_ms=T0, create_ms=T0)
    return job._replace(**changes)


def new_jobs(count: int, start: int = 0, **changes: Any) -> list[NewJob]:
    return [new_job(number, **changes) for number in range(start, start + count)]


def outcome(code: Code = Code.OK, **changes: Any) -> Outcome:
    exitcode = {Code.RETRY: 100, Code.OK: 200, Code.FAILED: 400, Code.ERROR: 500}.get(code, 504)
    return Outcome(code, exitcode, started_ms=T0, duration_us=1000)._replace(**changes)


def archive(job: Job, code: Code = Code.OK, **changes: Any) -> Archive:
    return Archive(job.id, job.token, outcome(code, **changes))


def retry(job: Job, dt_ms: int, code: Code = Code.RETRY, **changes: Any) -> Retry:
    return Retry(job.id, job.token, dt_ms, outcome(code, **changes))


def making(release: EndOfRun, *new: NewJob) -> MakingEnd:
    """The end of a run that made these jobs."""
    return MakingEnd(release, [Creation(job) for job in new])


async def claim(
    store: Store,
    limit: int = 100,
    *,
    now_ms: int = T0,
    jobtype: str = JOBTYPE,
    owner: str = OWNER,
    **more: Any,
) -> ClaimedJobs:
    return await store.claim_jobs(jobtype, limit, owner=owner, lease_ms=LEASE_MS, now_ms=now_ms, **more)


async def claim_one(store: Store, *, now_ms: int = T0, **more: Any) -> Job:
    (job,) = await claim(store, 1, now_ms=now_ms, **more)
    return job


def ids(jobs: Sequence[Job | NewJob]) -> list[str]:
    return [job.id for job in jobs]
