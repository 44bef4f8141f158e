"""Endings of which nothing is kept: they are written like any other, and then removed. A crash in between leaves them
archived, until expire_jobs purges them."""

from collections.abc import Sequence

from store.mongo.queue.endings import NEEDED
from store.mongo.queue.expire import purge_jobs
from store.mongo.queue.straight import MongoStraight
from store.mongo.server import schema
from store.mongo.server.core import Core, once
from store.values.jobs import Discard, NewJob, Release, ReleaseReport
from store.values.positions import JournalPosition


class MongoDiscard(MongoStraight):
    @once
    async def release_jobs(self, owner: str, releases: Sequence[Release], *, now_ms: int) -> ReleaseReport:
        if not any(isinstance(release, Discard) for release in releases):
            return await super().release_jobs(owner, releases, now_ms=now_ms)
        report = await super().release_jobs(owner, releases, now_ms=now_ms)
        await _discard(self, releases, report, now_ms)
        return report

    @once
    async def add_ended_jobs(
        self,
        owner: str,
        jobs: Sequence[NewJob],
        releases: Sequence[Release],
        *,
        now_ms: int,
        position: JournalPosition | None = None,
    ) -> ReleaseReport:
        report = await super().add_ended_jobs(owner, jobs, releases, now_ms=now_ms, position=position)
        await _discard(self, releases, report, now_ms)
        return report


async def _discard(db: Core, releases: Sequence[Release], report: ReleaseReport, now_ms: int) -> None:
    stale = set(report.stale)
    ids = [release.id for release in releases if isinstance(release, Discard) and release.id not in stale]
    if ids:
        alone = {"_id": {"$in": ids}, "s": {"$in": list(schema.ARCHIVED_STATES)}, "kin": False, "seq": None}
        await purge_jobs(db, await db.collections.jobs.find(alone, NEEDED).to_list(None), now_ms)
