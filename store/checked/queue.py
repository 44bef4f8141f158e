"""The queue's verbs, checked. Batches of thousands pass here: their checks look at columns, not at each job."""

from collections.abc import Sequence

from store.checked.core import CheckedCore
from store.checks import (
    check_claim,
    check_creations,
    check_lease,
    check_new_jobs,
    check_note,
    check_range,
    check_releases,
    check_time,
)
from store.errors import InvalidValue
from store.names import (
    MAX_BATCH,
    MAX_DATA_BYTES,
    check_batch,
    check_label,
    check_owner,
    check_tenant,
    checked_tenant_of,
)
from store.protocol.queue import JobQueue
from store.values.again import Binding
from store.values.claims import ClaimedJobs
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


class CheckedQueue(CheckedCore, JobQueue):
    async def add_jobs(
        self, jobs: Sequence[NewJob], *, now_ms: int, position: JournalPosition | None = None
    ) -> AddReport:
        check_new_jobs(jobs)
        check_time("now_ms", now_ms)
        if position is not None:
            check_label("journal reader", position.reader)
        return await self._back.add_jobs(jobs, now_ms=now_ms, position=position)

    async def add_jobs_once(self, binding: Binding, jobs: Sequence[NewJob], *, now_ms: int) -> bytes:
        check_tenant(binding.tenant)
        check_note(binding.key, binding.value)
        check_note(binding.done)
        if binding.more is not None:
            check_note(*binding.more)
        check_new_jobs(jobs)
        check_time("now_ms", now_ms)
        return await self._back.add_jobs_once(binding, jobs, now_ms=now_ms)

    async def get_journal_position(self, reader: str) -> JournalPosition | None:
        check_label("journal reader", reader)
        return await self._back.get_journal_position(reader)

    async def get_waiting_jobtypes(self, *, now_ms: int, runnable: bool = False) -> list[WaitingType]:
        check_time("now_ms", now_ms)
        return await self._back.get_waiting_jobtypes(now_ms=now_ms, runnable=runnable)

    async def get_next_due(self, *, after_ms: int) -> int | None:
        check_time("after_ms", after_ms)
        return await self._back.get_next_due(after_ms=after_ms)

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
        checked_tenant_of(jobtype)
        check_owner(owner)
        check_claim(limit, max_bytes, max_per_key)
        if domain:
            check_label("rate domain", domain, "domain")
        check_lease(lease_ms, now_ms)
        return await self._back.claim_jobs(
            jobtype,
            limit,
            owner=owner,
            lease_ms=lease_ms,
            now_ms=now_ms,
            max_bytes=max_bytes,
            max_per_key=max_per_key,
            tenant_created_ms=tenant_created_ms,
            domain=domain,
        )

    async def renew_locks(self, owner: str, leases: Sequence[Lease], *, lease_ms: int, now_ms: int) -> RenewReport:
        check_owner(owner)
        check_batch("renew_locks", len(leases))
        check_lease(lease_ms, now_ms)
        return await self._back.renew_locks(owner, leases, lease_ms=lease_ms, now_ms=now_ms)

    async def get_leases(self, owner: str, leases: Sequence[Lease]) -> dict[Lease, int]:
        check_owner(owner)
        check_batch("get_leases", len(leases))
        return await self._back.get_leases(owner, leases)

    async def release_jobs(self, owner: str, releases: Sequence[Release], *, now_ms: int) -> ReleaseReport:
        check_owner(owner)
        check_releases(releases)
        check_time("now_ms", now_ms)
        return await self._back.release_jobs(owner, releases, now_ms=now_ms)

    async def release_with_jobs(self, owner: str, ends: Sequence[MakingEnd], *, now_ms: int) -> ReleaseReport:
        check_owner(owner)
        check_releases([end.release for end in ends])
        check_creations([creation for end in ends for creation in end.new_jobs])
        _check_apart(ends)
        check_time("now_ms", now_ms)
        return await self._back.release_with_jobs(owner, ends, now_ms=now_ms)

    async def expire_locks(self, *, now_ms: int, limit: int = 1000, owner: str | None = None) -> int:
        check_time("now_ms", now_ms)
        if owner is not None:
            check_owner(owner)
        check_range("limit", limit, 1, MAX_BATCH)
        return await self._back.expire_locks(now_ms=now_ms, limit=limit, owner=owner)

    async def cut_leases(self, *, now_ms: int, longest_ms: int, limit: int = 1000) -> int:
        check_lease(longest_ms, now_ms)
        check_range("limit", limit, 1, MAX_BATCH)
        return await self._back.cut_leases(now_ms=now_ms, longest_ms=longest_ms, limit=limit)

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
        check_time("now_ms", now_ms)
        check_range("limit", limit, 1, MAX_BATCH)
        if tenant is not None:
            check_tenant(tenant)
        if jobtype is not None:
            checked_tenant_of(jobtype)
        return await self._back.expire_jobs(
            now_ms=now_ms,
            done_before_ms=done_before_ms,
            waiting_before_ms=waiting_before_ms,
            failed_before_ms=failed_before_ms,
            tenant=tenant,
            jobtype=jobtype,
            limit=limit,
        )


def _check_apart(ends: Sequence[MakingEnd]) -> None:
    """No run makes a child of another that ends in the same call: which of them is first would decide whether it can.
    Raises InvalidValue."""
    ending = {end.release.id for end in ends}
    for end in ends:
        for job, _ in end.new_jobs:
            if job.parent in ending and job.parent != end.release.id:
                raise InvalidValue(f"job {job.parent}, named as the parent of {job.id}, ends in the same call")
