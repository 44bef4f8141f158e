"""The end of a run that made new jobs: both in one transaction."""

from collections.abc import Sequence

from store.sqlite.file.writer import Tx
from store.sqlite.queue.add import create_job
from store.sqlite.queue.release import is_owned, release_jobs
from store.values.jobs import Creation, EndOfRun, ReleaseReport


def release_with_jobs(
    tx: Tx, owner: str, release: EndOfRun, new_jobs: Sequence[Creation], now_ms: int
) -> ReleaseReport:
    """The jobs come first: the end of a parent looks at what children it has."""
    if is_owned(tx, owner, release):
        for job, keeps in new_jobs:
            create_job(tx, job, keeps, now_ms)
    return release_jobs(tx, owner, [release], now_ms)
