"""Endings of which nothing is kept: they are written like any other, in the same transaction, and then removed."""

from collections.abc import Sequence
from typing import Any, Final

from store.claim_rules import archives
from store.sqlite.file.bulk import job_ids
from store.sqlite.file.schema import State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.release import release_jobs
from store.sqlite.queue.row_changes import delete_rows
from store.sqlite.queue.straight import add_ended_jobs
from store.values.jobs import Discard, JournalPosition, NewJob, Release, ReleaseReport

_ALONE: Final = (
    "SELECT j.n FROM carray(?) AS e CROSS JOIN jobs j ON j.id = e.value"
    f" WHERE j.state = {State.ARCHIVED} AND j.parent IS NULL AND j.children = 0 AND j.seq IS NULL"
)


def release_or_discard(tx: Tx, owner: str, releases: Sequence[Release], now_ms: int) -> ReleaseReport:
    report = release_jobs(tx, owner, archives(releases), now_ms)
    _discard(tx, releases, report)
    return report


def add_ended_or_discard(
    tx: Tx,
    owner: str,
    jobs: Sequence[NewJob],
    releases: Sequence[Release],
    now_ms: int,
    position: JournalPosition | None,
) -> ReleaseReport:
    report = add_ended_jobs(tx, owner, jobs, archives(releases), now_ms, position)
    _discard(tx, releases, report)
    return report


def _discard(tx: Tx, releases: Sequence[Release], report: ReleaseReport) -> None:
    if Discard not in set(map(type, releases)):
        return
    stale = set(report.stale)
    ids = [release.id for release in releases if isinstance(release, Discard) and release.id not in stale]
    if ids:
        rows: list[Any] = tx.conn.execute(_ALONE, (job_ids(ids),)).fetchall()
        delete_rows(tx, [n for (n,) in rows])
