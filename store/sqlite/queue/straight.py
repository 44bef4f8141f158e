"""Jobs that were started before the store had them: they enter as running, or with their end.

The rule is that of three verbs in a row, add, claim and release, in one transaction. The usual case, jobs that ended
for good with a small result, is one INSERT of rows as they will stay (bulk_straight.py).
"""

from collections.abc import Sequence
from typing import Final, cast

import apsw

from store.sqlite.file.bulk import by_key, job_ids
from store.sqlite.file.connection import fetch
from store.sqlite.file.schema import State
from store.sqlite.file.writer import Tx
from store.sqlite.queue.add import columns_of, insert_jobs, keep_position
from store.sqlite.queue.bulk_straight import are_small, insert_archived
from store.sqlite.queue.release import release_jobs
from store.sqlite.queue.row_changes import put_in_queue
from store.values.jobs import AddReport, Archive, NewJob, Release, ReleaseReport, TypeGate, Unclaim
from store.values.positions import JournalPosition

_GATES: Final = (
    "SELECT e.value, ifnull(t.handler, 0), NOT ifnull(t.paused, 0) AND NOT ifnull(o.suspended, 0)"
    " AND t.released IS NULL"
    " FROM carray(?) AS e LEFT JOIN types t ON t.jobtype = e.value LEFT JOIN tenants o ON o.name = t.tenant"
)
_START: Final = (
    f"UPDATE jobs SET state = {State.RUNNING}, lock = ?, lease = ?, claimed = ?, token = 1, attempts = 1"
    " WHERE id IN (SELECT value FROM carray(?))"
)


def get_type_gates(conn: apsw.Connection, jobtypes: Sequence[str]) -> list[TypeGate]:
    if not jobtypes:
        return []
    rows = fetch(conn, _GATES, (apsw.carray(tuple(jobtypes)),))
    return [TypeGate(jobtype, version, bool(is_open)) for jobtype, version, is_open in rows]


def add_running_jobs(
    tx: Tx, owner: str, jobs: Sequence[NewJob], lease_ms: int, now_ms: int, started_ms: int | None = None
) -> AddReport:
    """started_ms: when they were started, if that was before now."""
    claimed_ms = now_ms if started_ms is None else started_ms
    added = insert_jobs(tx, jobs, now_ms, is_gated=False)
    if added:
        ids, _, lanes, states, *_ = columns_of(tx, added, now_ms)
        for (lane, state), (mine,) in by_key([lanes, states], [ids]):
            put_in_queue(tx, lane, state, -len(mine))
            tx.tally.lane(lane, running=len(mine))
        tx.conn.execute(_START, (owner, now_ms + lease_ms, claimed_ms, job_ids(ids)))
    return AddReport(len(added), len(jobs) - len(added))


def add_ended_jobs(
    tx: Tx,
    owner: str,
    jobs: Sequence[NewJob],
    releases: Sequence[Release],
    now_ms: int,
    position: JournalPosition | None,
) -> ReleaseReport:
    if position is not None:
        keep_position(tx, position)
    small, others = _parted(jobs, releases)
    known = insert_archived(tx, *small, [now_ms] * len(small[0])) if small[0] else []
    # What was not there enters as running, and all of them end as any delivery does.
    for job, release in others:
        add_running_jobs(
            tx, owner, [job], 1, now_ms, None if isinstance(release, Unclaim) else release.outcome.started_ms
        )
    report = release_jobs(tx, owner, [*known, *(release for _, release in others)], now_ms)
    stale = set(report.stale)
    return ReleaseReport(
        len(jobs) - len(stale), tuple(release.id for release in releases if release.id in stale), report.paused
    )


def _parted(
    jobs: Sequence[NewJob], releases: Sequence[Release]
) -> tuple[tuple[Sequence[NewJob], Sequence[Archive]], Sequence[tuple[NewJob, Release]]]:
    """Those that can be inserted in bulk, and the others."""
    if jobs and are_small(jobs, releases):  # as nearly always
        return (jobs, cast("Sequence[Archive]", releases)), ()
    few: list[NewJob] = []
    archives: list[Archive] = []
    others: list[tuple[NewJob, Release]] = []
    for job, release in zip(jobs, releases, strict=True):
        if isinstance(release, Archive) and are_small([job], [release]):
            few.append(job)
            archives.append(release)
        else:
            others.append((job, release))
    return (few, archives), others
