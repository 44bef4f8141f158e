"""How jobs of the straight way enter the store: as running, or with their end.

Ensures: none enters a tenant that has its name from one that was deleted while the store could not be reached. Its line
leaves the journal, and its end is stale, as it is if the store had the job when its tenant was deleted.
"""

from collections.abc import Sequence

from functory.intake.former_tenants import jobs_of_former_tenants
from store.base import JournalPosition, NewJob, Release, ReleaseReport, Store


async def add_running(store: Store, owner: str, jobs: Sequence[NewJob], *, lease_ms: int, now_ms: int) -> set[str]:
    """Returns the ids of those that were left out. Raises StoreUnavailable."""
    gone = await jobs_of_former_tenants(store, jobs, now_ms)
    known = [job for job in jobs if job.id not in gone] if gone else jobs
    await store.add_running_jobs(owner, known, lease_ms=lease_ms, now_ms=now_ms)
    return gone


async def add_ended(
    store: Store,
    owner: str,
    jobs: Sequence[NewJob],
    releases: Sequence[Release],
    *,
    ended_ms: int,
    now_ms: int,
    position: JournalPosition | None,
) -> ReleaseReport:
    """ended_ms: what is recorded, however often this is tried. Raises StoreUnavailable."""
    gone = await jobs_of_former_tenants(store, jobs, now_ms)
    if gone:
        jobs = [job for job in jobs if job.id not in gone]
        releases = [release for release in releases if release.id not in gone]
    report = await store.add_ended_jobs(owner, jobs, releases, now_ms=ended_ms, position=position)
    return report._replace(stale=(*report.stale, *sorted(gone))) if gone else report
