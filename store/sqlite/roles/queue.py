"""The queue's verbs on SQLite."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from store.names import (
    MAX_DATA_BYTES,
)
from store.protocol.queue import JobQueue
from store.sqlite.file.core import SqliteCore
from store.sqlite.queue import add, claim, discard, expire, families, making, release
from store.sqlite.queue.deleted import POSITION, position_from
from store.sqlite.records import once, scoreboard
from store.values.again import Binding
from store.values.claims import Claim, ClaimedJobs
from store.values.jobs import (
    AddReport,
    ExpireReport,
    Lease,
    NewJob,
    Release,
    ReleaseReport,
    RenewReport,
    WaitingType,
)
from store.values.making import MakingEnd
from store.values.positions import JournalPosition

FEW: Final = 20
"""Jobs that are claimed, added or released in a fraction of a millisecond."""
_FAMILY_STEPS: Final = 20
"""In one call of expire_locks, which is to come back to lapsed leases soon."""


class SqliteQueue(SqliteCore, JobQueue):
    async def add_jobs(
        self, jobs: Sequence[NewJob], *, now_ms: int, position: JournalPosition | None = None
    ) -> AddReport:
        return await self._write(lambda tx: add.add_jobs(tx, jobs, now_ms, position), bulk=len(jobs) > FEW)

    async def add_jobs_once(self, binding: Binding, jobs: Sequence[NewJob], *, now_ms: int) -> bytes:
        return await self._write(lambda tx: once.add_jobs_once(tx, binding, jobs, now_ms), bulk=len(jobs) > FEW)

    async def get_journal_position(self, reader: str) -> JournalPosition | None:
        sql = f"SELECT {POSITION} FROM positions WHERE reader = ?"
        row = await self._read(lambda conn: conn.execute(sql, (reader,)).get)
        return None if row is None else position_from(row)

    async def get_waiting_jobtypes(self, *, now_ms: int, runnable: bool = False) -> list[WaitingType]:
        return await self._read(lambda conn: scoreboard.get_waiting_jobtypes(conn, now_ms, runnable=runnable))

    async def get_next_due(self, *, after_ms: int) -> int | None:
        return await self._read(lambda conn: scoreboard.get_next_due(conn, after_ms))

    async def claim_jobs(
        self,
        jobtype: str,
        limit: int,
        *,
        owner: str,
        lease_ms: int,
        now_ms: int,
        max_bytes: int = MAX_DATA_BYTES,
        max_per_key: int | None = None,
        tenant_created_ms: int | None = None,
        domain: str = "",
    ) -> ClaimedJobs:
        wanted = Claim(jobtype, limit, owner, lease_ms, now_ms, max_bytes, max_per_key, tenant_created_ms, domain)
        return await self._write(lambda tx: claim.claim_jobs(tx, wanted), bulk=limit > FEW)

    async def renew_locks(self, owner: str, leases: Sequence[Lease], *, lease_ms: int, now_ms: int) -> RenewReport:
        return await self._write(lambda tx: release.renew_locks(tx, owner, leases, lease_ms, now_ms))

    async def get_leases(self, owner: str, leases: Sequence[Lease]) -> dict[Lease, int]:
        return await self._read(lambda conn: release.get_leases(conn, owner, leases))

    async def release_jobs(self, owner: str, releases: Sequence[Release], *, now_ms: int) -> ReleaseReport:
        return await self._write(
            lambda tx: discard.release_or_discard(tx, owner, releases, now_ms), bulk=len(releases) > FEW
        )

    async def release_with_jobs(self, owner: str, ends: Sequence[MakingEnd], *, now_ms: int) -> ReleaseReport:
        made = sum(len(end.new_jobs) for end in ends)
        return await self._write(
            lambda tx: making.release_with_jobs(tx, owner, ends, now_ms), bulk=len(ends) + made > FEW
        )

    async def expire_locks(self, *, now_ms: int, limit: int = 1000, owner: str | None = None) -> int:
        expired = await self._write(lambda tx: expire.expire_locks(tx, now_ms, limit, owner), bulk=True)
        for _ in range(_FAMILY_STEPS):
            parents = await self._read(families.noted)
            if not parents:
                break
            await self._write(partial(families.carry_on, parents=parents, now_ms=now_ms), bulk=True)
        return expired

    async def cut_leases(self, *, now_ms: int, longest_ms: int, limit: int = 1000) -> int:
        return await self._write(lambda tx: expire.cut_leases(tx, now_ms, longest_ms, limit), bulk=True)

    async def expire_jobs(
        self,
        *,
        now_ms: int,
        done_before_ms: int,
        waiting_before_ms: int,
        failed_before_ms: int | None = None,
        tenant: str | None = None,
        jobtype: str | None = None,
        limit: int = 1000,
    ) -> ExpireReport:
        failed_ms = done_before_ms if failed_before_ms is None else failed_before_ms
        before = expire.Before(done_before_ms, failed_ms, waiting_before_ms)
        old = await self._read(lambda conn: expire.find_old(conn, tenant, jobtype, before, limit))
        if not old.archived and not old.waiting:
            return ExpireReport(0, 0, more=False)
        return await self._write(lambda tx: expire.expire_jobs(tx, old, before, now_ms), bulk=True)
