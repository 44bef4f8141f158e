"""The verbs on single jobs, on SQLite."""

from collections.abc import Sequence

from store.checks import (
    check_data,
    check_new_job,
    check_page_limit,
    check_priority,
    check_range,
    check_rate_domain,
    check_text,
    check_time,
)
from store.names import MAX_BATCH, MAX_OPTIONS_CHARS, check_batch, check_job_id, check_jobtype, check_tenant
from store.protocol.jobs import JobDesk
from store.sqlite import add, desk, listing, rates
from store.sqlite.core import SqliteCore
from store.values.jobs import CreateReport, IndexState, JobFilter, JobPage, JobRecord, JobState, NewJob
from store.values.records import RateDomain, RateState


class SqliteDesk(SqliteCore, JobDesk):
    async def create_job(self, job: NewJob, *, now_ms: int) -> CreateReport:
        check_new_job(job)
        return await self._write(lambda tx: add.create_job(tx, job, now_ms))

    async def get_job(self, tenant: str, job_id: str, *, now_ms: int) -> JobRecord | None:
        check_tenant(tenant)
        check_job_id(job_id)
        return await self._read(lambda conn: listing.get_job(conn, tenant, job_id, now_ms))

    async def get_job_at(self, tenant: str, jobtype: str, seq: int, *, now_ms: int) -> JobRecord | None:
        check_jobtype(tenant, jobtype)
        return await self._read(lambda conn: listing.get_job_at(conn, jobtype, seq, now_ms))

    async def get_states(self, tenant: str, job_ids: Sequence[str], *, now_ms: int) -> dict[str, JobState]:
        check_tenant(tenant)
        check_batch("get_states", len(job_ids))
        return await self._read(lambda conn: listing.get_states(conn, tenant, job_ids, now_ms))

    async def list_jobs(
        self, tenant: str, where: JobFilter, *, now_ms: int, cursor: str | None = None, limit: int = 100
    ) -> JobPage:
        check_tenant(tenant)
        check_page_limit(limit)
        if where.jobtype is not None:
            check_jobtype(tenant, where.jobtype)
        return await self._read(lambda conn: listing.list_jobs(conn, tenant, where, now_ms, cursor, limit))

    async def list_children(
        self, tenant: str, parent_id: str, *, now_ms: int, cursor: str | None = None, limit: int = 100
    ) -> JobPage:
        check_tenant(tenant)
        check_page_limit(limit)
        return await self._read(lambda conn: listing.list_children(conn, tenant, parent_id, now_ms, cursor, limit))

    async def get_position(self, tenant: str, job_id: str, *, now_ms: int, cap: int = 10_000) -> int | None:
        check_tenant(tenant)
        check_range("cap", cap, 1, 100_000)
        return await self._read(lambda conn: listing.get_position(conn, tenant, job_id, now_ms, cap))

    async def update_job(
        self,
        tenant: str,
        job_id: str,
        *,
        now_ms: int,
        token: int | None = None,
        data: bytes | None = None,
        repeat: str | None = None,
        priority: int | None = None,
        dt_ms: int | None = None,
    ) -> JobState:
        check_tenant(tenant)
        if data is not None:
            check_data(data)
        if repeat is not None:
            check_text("repeat", repeat, MAX_OPTIONS_CHARS)
        if priority is not None:
            check_priority(priority)
        if dt_ms is not None:
            check_time("dt_ms", dt_ms)
        change = desk.Change(token, data, repeat, priority, dt_ms)
        return await self._write(lambda tx: desk.update_job(tx, tenant, job_id, change, now_ms))

    async def cancel_job(self, tenant: str, job_id: str, *, now_ms: int) -> None:
        check_tenant(tenant)
        await self._write(lambda tx: desk.cancel_job(tx, tenant, job_id, now_ms))

    async def replay_jobs(self, tenant: str, job_ids: Sequence[str], *, dt_ms: int, now_ms: int) -> tuple[str, ...]:
        check_tenant(tenant)
        check_batch("replay_jobs", len(job_ids))
        check_time("dt_ms", dt_ms)
        return await self._write(lambda tx: desk.replay_jobs(tx, tenant, job_ids, dt_ms, now_ms), bulk=True)

    async def delete_jobs(self, tenant: str, job_ids: Sequence[str]) -> int:
        check_tenant(tenant)
        check_batch("delete_jobs", len(job_ids))
        return await self._write(lambda tx: desk.delete_jobs(tx, tenant, job_ids), bulk=True)

    async def get_index_state(self, tenant: str, jobtype: str) -> IndexState:
        check_jobtype(tenant, jobtype)
        return await self._read(lambda conn: desk.get_index_state(conn, jobtype))

    async def advance_index(self, tenant: str, jobtype: str, *, skip_failed: bool, limit: int = 1000) -> IndexState:
        check_jobtype(tenant, jobtype)
        check_range("limit", limit, 1, MAX_BATCH)
        return await self._write(lambda tx: desk.advance_index(tx, jobtype, limit, skip_failed=skip_failed))

    async def set_rate_domain(self, domain: RateDomain, *, now_ms: int) -> None:
        check_rate_domain(domain)
        await self._write(lambda tx: rates.set_rate_domain(tx, domain, now_ms))

    async def delete_rate_domain(self, tenant: str, domain: str) -> bool:
        check_tenant(tenant)
        sql = "DELETE FROM rates WHERE tenant = ? AND domain = ? RETURNING 1"
        return await self._write(lambda tx: tx.conn.execute(sql, (tenant, domain)).get is not None)

    async def list_rate_domains(self, tenant: str, *, now_ms: int) -> list[RateState]:
        check_tenant(tenant)
        return await self._read(lambda conn: rates.list_rate_domains(conn, tenant, now_ms))
