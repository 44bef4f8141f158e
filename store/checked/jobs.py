"""The verbs on single jobs, checked."""

from collections.abc import Sequence
from typing import Final

from store.checked.core import CheckedCore
from store.checks import (
    check_change,
    check_creations,
    check_data,
    check_page_limit,
    check_range,
    check_rate_domain,
    check_time,
)
from store.errors import InvalidValue
from store.names import (
    MAX_BATCH,
    MAX_BEGIN_BYTES,
    MAX_PER_KEY,
    check_batch,
    check_job_id,
    check_jobtype,
    check_label,
    check_tenant,
)
from store.protocol.jobs import JobVerbs
from store.values.job_changes import JobChange
from store.values.jobs import CreateReport, Creation, IndexState, JobFilter, JobPage, JobRecord, KeyState
from store.values.records import RateDomain, RateState
from vocabulary.names import is_job_id
from vocabulary.states import Code, JobState

MAX_POSITION: Final = 100_000
_MAX_BYTES: Final = (1 << 31) - 1
_MAX_NUMBER: Final = (1 << 63) - 1


class CheckedJobs(CheckedCore, JobVerbs):
    async def create_jobs(self, creations: Sequence[Creation], *, now_ms: int) -> list[CreateReport]:
        check_creations(creations)
        check_time("now_ms", now_ms)
        return await self._back.create_jobs(creations, now_ms=now_ms)

    async def get_job(self, tenant: str, job_id: str, *, now_ms: int, max_bytes: int | None = None) -> JobRecord | None:
        check_tenant(tenant)
        check_job_id(job_id)
        check_time("now_ms", now_ms)
        if max_bytes is not None:
            check_range("max_bytes", max_bytes, 0, _MAX_BYTES)
        return await self._back.get_job(tenant, job_id, now_ms=now_ms, max_bytes=max_bytes)

    async def read_result(self, tenant: str, job_id: str, *, done_ms: int, start: int, length: int) -> bytes | None:
        check_tenant(tenant)
        check_job_id(job_id)
        check_time("done_ms", done_ms)
        check_range("start", start, 0, _MAX_BYTES)
        check_range("length", length, 1, _MAX_BYTES)
        return await self._back.read_result(tenant, job_id, done_ms=done_ms, start=start, length=length)

    async def get_job_at(
        self, tenant: str, jobtype: str, seq: int, *, now_ms: int, max_bytes: int | None = None
    ) -> JobRecord | None:
        check_jobtype(tenant, jobtype)
        check_time("now_ms", now_ms)
        if max_bytes is not None:
            check_range("max_bytes", max_bytes, 0, _MAX_BYTES)
        return await self._back.get_job_at(tenant, jobtype, seq, now_ms=now_ms, max_bytes=max_bytes)

    async def get_states(self, tenant: str, job_ids: Sequence[str], *, now_ms: int) -> dict[str, JobState]:
        check_tenant(tenant)
        check_batch("get_states", len(job_ids))
        check_time("now_ms", now_ms)
        return await self._back.get_states(tenant, _possible(job_ids), now_ms=now_ms)

    async def get_codes(self, tenant: str, job_ids: Sequence[str]) -> dict[str, Code]:
        check_tenant(tenant)
        check_batch("get_codes", len(job_ids))
        return await self._back.get_codes(tenant, _possible(job_ids))

    async def list_jobs(
        self,
        tenant: str,
        where: JobFilter,
        *,
        now_ms: int,
        cursor: str | None = None,
        limit: int = 100,
        max_bytes: int = 0,
    ) -> JobPage:
        check_tenant(tenant)
        check_page_limit(limit)
        check_time("now_ms", now_ms)
        check_range("max_bytes", max_bytes, 0, MAX_BEGIN_BYTES)
        _check_named(where)
        if where.jobtype is not None and where.jobtypes is not None:
            raise InvalidValue("a listing names one type or several, not both")
        for jobtype in where.names or ():
            check_jobtype(tenant, jobtype)
        if where.names == ():
            return JobPage((), None)
        return await self._back.list_jobs(tenant, where, now_ms=now_ms, cursor=cursor, limit=limit, max_bytes=max_bytes)

    async def list_repeating(self, tenant: str, *, now_ms: int, cursor: str | None = None, limit: int = 100) -> JobPage:
        check_tenant(tenant)
        check_page_limit(limit)
        check_time("now_ms", now_ms)
        return await self._back.list_repeating(tenant, now_ms=now_ms, cursor=cursor, limit=limit)

    async def list_children(
        self,
        tenant: str,
        parent_id: str,
        *,
        now_ms: int,
        cursor: str | None = None,
        limit: int = 100,
        max_bytes: int = 0,
    ) -> JobPage:
        check_tenant(tenant)
        check_job_id(parent_id)
        check_page_limit(limit)
        check_time("now_ms", now_ms)
        check_range("max_bytes", max_bytes, 0, _MAX_BYTES)
        if cursor is not None:
            check_job_id(cursor, "cursor")
        return await self._back.list_children(
            tenant, parent_id, now_ms=now_ms, cursor=cursor, limit=limit, max_bytes=max_bytes
        )

    async def get_position(self, tenant: str, job_id: str, *, now_ms: int, cap: int = 10_000) -> int | None:
        check_tenant(tenant)
        check_job_id(job_id)
        check_time("now_ms", now_ms)
        check_range("cap", cap, 1, MAX_POSITION)
        return await self._back.get_position(tenant, job_id, now_ms=now_ms, cap=cap)

    async def get_key_state(self, tenant: str, jobtype: str, key: str, *, limit: int, now_ms: int) -> KeyState:
        check_jobtype(tenant, jobtype)
        check_label("key", key)
        check_range("limit", limit, 1, MAX_PER_KEY)
        check_time("now_ms", now_ms)
        return await self._back.get_key_state(tenant, jobtype, key, limit=limit, now_ms=now_ms)

    async def update_job(self, tenant: str, job_id: str, change: JobChange, *, now_ms: int) -> JobState:
        check_tenant(tenant)
        check_job_id(job_id)
        check_time("now_ms", now_ms)
        check_change(change)
        return await self._back.update_job(tenant, job_id, change, now_ms=now_ms)

    async def cancel_job(self, tenant: str, job_id: str, *, now_ms: int, running: bool = False) -> None:
        check_tenant(tenant)
        check_job_id(job_id)
        check_time("now_ms", now_ms)
        await self._back.cancel_job(tenant, job_id, now_ms=now_ms, running=running)

    async def replay_jobs(
        self, tenant: str, job_ids: Sequence[str], *, dt_ms: int, now_ms: int, data: bytes | None = None
    ) -> tuple[str, ...]:
        check_tenant(tenant)
        check_batch("replay_jobs", len(job_ids))
        check_time("dt_ms", dt_ms)
        check_time("now_ms", now_ms)
        if data is not None:
            check_data(data)
        return await self._back.replay_jobs(tenant, _possible(job_ids), dt_ms=dt_ms, now_ms=now_ms, data=data)

    async def move_job(
        self,
        tenant: str,
        job_id: str,
        jobtype: str,
        *,
        dt_ms: int,
        now_ms: int,
        data: bytes | None = None,
        token: int | None = None,
    ) -> None:
        check_jobtype(tenant, jobtype)
        check_job_id(job_id)
        check_time("dt_ms", dt_ms)
        check_time("now_ms", now_ms)
        if data is not None:
            check_data(data)
        await self._back.move_job(tenant, job_id, jobtype, dt_ms=dt_ms, now_ms=now_ms, data=data, token=token)

    async def delete_jobs(self, tenant: str, job_ids: Sequence[str], *, now_ms: int) -> int:
        check_tenant(tenant)
        check_batch("delete_jobs", len(job_ids))
        check_time("now_ms", now_ms)
        return await self._back.delete_jobs(tenant, _possible(job_ids), now_ms=now_ms)

    async def number_jobs(self, tenant: str, job_ids: Sequence[str]) -> dict[str, int]:
        check_tenant(tenant)
        check_batch("number_jobs", len(job_ids))
        return await self._back.number_jobs(tenant, _possible(job_ids))

    async def take_numbers(self, tenant: str, count: int) -> int:
        check_tenant(tenant)
        check_range("count", count, 1, MAX_BATCH)
        return await self._back.take_numbers(tenant, count)

    async def find_numbered(self, tenant: str, number: int) -> str | None:
        check_tenant(tenant)
        check_range("number", number, 1, _MAX_NUMBER)
        return await self._back.find_numbered(tenant, number)

    async def get_index_state(self, tenant: str, jobtype: str) -> IndexState:
        check_jobtype(tenant, jobtype)
        return await self._back.get_index_state(tenant, jobtype)

    async def set_rate_domain(self, domain: RateDomain, *, now_ms: int) -> bool:
        check_rate_domain(domain)
        check_time("now_ms", now_ms)
        return await self._back.set_rate_domain(domain, now_ms=now_ms)

    async def delete_rate_domain(self, tenant: str, domain: str, *, now_ms: int) -> bool:
        check_tenant(tenant)
        check_label("rate domain", domain)
        check_time("now_ms", now_ms)
        return await self._back.delete_rate_domain(tenant, domain, now_ms=now_ms)

    async def list_rate_domains(self, tenant: str, *, now_ms: int) -> list[RateState]:
        check_tenant(tenant)
        check_time("now_ms", now_ms)
        return await self._back.list_rate_domains(tenant, now_ms=now_ms)

    async def find_rate(self, tenant: str, domain: str, *, now_ms: int) -> RateState | None:
        check_tenant(tenant)
        check_label("rate domain", domain)
        check_time("now_ms", now_ms)
        return await self._back.find_rate(tenant, domain, now_ms=now_ms)


def _check_named(where: JobFilter) -> None:
    """What a listing looks for: one index is walked."""
    given = {"unique": where.unique, "key": where.key, "failure": where.failure}
    names = {field: name for field, name in given.items() if name is not None}
    if len(names) > 1:
        raise InvalidValue(
            f"a listing is by one of {', '.join(given)}, not by {' and '.join(names)}", field=[*names][1]
        )
    for field, name in names.items():
        check_label(field, name, field)


def _possible(job_ids: Sequence[str]) -> list[str]:
    """Those that can be ids: no job has another one, and a database may choke on it."""
    return [job_id for job_id in job_ids if is_job_id(job_id)]
