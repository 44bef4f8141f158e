"""Endings of which nothing is kept: they are written like any other, in the same transaction, and then removed."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, cast

from store.sqlite.file.bulk import job_ids
from store.sqlite.file.schema import State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.add import keep_position
from store.sqlite.queue.bulk_straight import are_small, insert_archived
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


class EndedJobs(NamedTuple):
    """What one call of `add_ended_jobs` brings."""

    owner: str
    jobs: Sequence[NewJob]
    releases: Sequence[Release]
    now_ms: int
    position: JournalPosition | None


def add_ended_or_discard(tx: Tx, ended: EndedJobs) -> ReleaseReport:
    report = add_ended_jobs(tx, *ended._replace(releases=_archives(ended.releases)))
    _discard(tx, ended.releases, report)
    return report


def add_ended_together(tx: Tx, calls: Sequence[EndedJobs]) -> list[ReleaseReport]:
    """As one after the other, in one INSERT: tenants that end single jobs at the same time. For those that
    `may_be_together`; an id must be only in one of them."""
    for call in calls:
        if call.position is not None:
            keep_position(tx, call.position)
    jobs = [job for call in calls for job in call.jobs]
    if len({job.id for job in jobs}) < len(jobs):
        raise ValueError("one job ends in two calls: each is for itself")
    releases = [release for call in calls for release in call.releases]
    done = [call.now_ms for call in calls for _ in call.jobs]
    known = {release.id for release in insert_archived(tx, jobs, cast("Sequence[Archive]", releases), done)}
    return [_report(tx, call, known) for call in calls]


def may_be_together(ended: EndedJobs) -> bool:
    return bool(ended.jobs) and are_small(ended.jobs, ended.releases)


def _report(tx: Tx, call: EndedJobs, known: set[str]) -> ReleaseReport:
    """Those that the store had already end as any delivery does."""
    again = [release for release in call.releases if release.id in known] if known else []
    _, stale, paused = release_jobs(tx, call.owner, again, call.now_ms)
    return ReleaseReport(len(call.jobs) - len(stale), stale, paused)


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
