"""The ends of runs that made new jobs: both in one transaction."""

from collections.abc import Sequence

from store.sqlite.file.writer import Tx
from store.sqlite.queue.add import create_job, insert_jobs
from store.sqlite.queue.release import owned_ids, release_jobs
from store.values.jobs import ReleaseReport
from store.values.making import MakingEnd


def release_with_jobs(tx: Tx, owner: str, ends: Sequence[MakingEnd], now_ms: int) -> ReleaseReport:
    """The jobs come first: the end of a parent looks at what children it has."""
    releases = [end.release for end in ends]
    owned = owned_ids(tx, owner, releases)
    new_jobs = [creation for end in ends if end.release.id in owned for creation in end.new_jobs]
    if any(job.unique or job.parent for job, _ in new_jobs):
        for job, keeps in new_jobs:
            create_job(tx, job, keeps, now_ms)
    else:
        insert_jobs(tx, [job for job, _ in new_jobs], now_ms)
    return release_jobs(tx, owner, releases, now_ms)
