"""Endings of which nothing is kept: they are written like any other, in the same transaction, and then removed."""

from collections.abc import Sequence
from typing import Any, Final

from store.sqlite.file.bulk import job_ids
from store.sqlite.file.schema import State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.release import release_jobs
from store.sqlite.queue.row_changes import delete_rows, drop_log, drop_result
from store.sqlite.queue.straight import add_ended_jobs
from store.values.jobs import Archive, Discard, NewJob, Release, ReleaseReport
from store.values.positions import JournalPosition

_ALONE: Final = (
    "SELECT j.n FROM carray(?) AS e CROSS JOIN jobs j ON j.id = e.value"
    f" WHERE j.state = {State.ARCHIVED} AND j.parent IS NULL AND j.children = 0 AND j.seq IS NULL"
)
_KEPT: Final = (
    "SELECT j.n, j.type, j.result_bytes, j.log_bytes FROM carray(?) AS e CROSS JOIN jobs j ON j.id = e.value"
    " WHERE j.parent IS NOT NULL OR j.children > 0"
)


def release_or_discard(tx: Tx, owner: str, releases: Sequence[Release], now_ms: int) -> ReleaseReport:
    report = release_jobs(tx, owner, _archives(releases), now_ms)
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
    report = add_ended_jobs(tx, owner, jobs, _archives(releases), now_ms, position)
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
        if len(rows) < len(ids):
            _drop_words(tx, ids)


def _drop_words(tx: Tx, ids: list[str]) -> None:
    """Those with relatives are kept, and nobody asked whether there is room for their results and logs."""
    kept: list[Any] = tx.conn.execute(_KEPT, (job_ids(ids),)).fetchall()
    for n, number, result_bytes, log_bytes in kept:
        drop_result(tx, n, number, result_bytes)
        drop_log(tx, n, number, log_bytes)


def _archives(releases: Sequence[Release]) -> Sequence[Release]:
    """The releases, as if all were kept."""
    if Discard not in set(map(type, releases)):
        return releases
    return [Archive(*release) if isinstance(release, Discard) else release for release in releases]
