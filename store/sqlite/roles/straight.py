"""The verbs for jobs that start before the store has them, on SQLite."""

from collections.abc import Sequence

from store.protocol.straight import StraightVerbs
from store.sqlite.file.core import SqliteCore
from store.sqlite.file.writer import Joint
from store.sqlite.queue import discard, straight
from store.sqlite.roles.queue import FEW
from store.values.jobs import AddReport, NewJob, Release, ReleaseReport, TypeGate
from store.values.positions import JournalPosition


class SqliteStraight(SqliteCore, StraightVerbs):
    async def get_type_gates(self, jobtypes: Sequence[str]) -> list[TypeGate]:
        return await self._read(lambda conn: straight.get_type_gates(conn, jobtypes))

    async def add_running_jobs(self, owner: str, jobs: Sequence[NewJob], *, lease_ms: int, now_ms: int) -> AddReport:
        return await self._write(
            lambda tx: straight.add_running_jobs(tx, owner, jobs, lease_ms, now_ms), bulk=len(jobs) > FEW
        )

    async def add_ended_jobs(
        self,
        owner: str,
        jobs: Sequence[NewJob],
        releases: Sequence[Release],
        *,
        now_ms: int,
        position: JournalPosition | None = None,
    ) -> ReleaseReport:
        ended = discard.EndedJobs(owner, jobs, releases, now_ms, position)
        is_bulk = len(jobs) > FEW
        joint = None if is_bulk else Joint(discard.add_ended_together, discard.may_be_together, ended)
        return await self._write(lambda tx: discard.add_ended_or_discard(tx, ended), bulk=is_bulk, joint=joint)
