"""The verbs on single jobs, on SQLite."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from store.protocol.jobs import JobVerbs
from store.sqlite.file.core import SqliteCore
from store.sqlite.file.writer import Tx
from store.sqlite.queue import add, families, job_changes, listing, numbers, rates, turns
from store.values.job_changes import JobChange
from store.values.jobs import CreateReport, Creation, IndexState, JobFilter, JobPage, JobRecord, KeyState
from store.values.records import RateDomain, RateState
from vocabulary.states import Code, JobState

_FEW: Final = 20
"""Jobs that are created or numbered before batches that wait."""

_LANES_AT_ONCE: Final = 1000


class SqliteJobs(SqliteCore, JobVerbs):
    async def create_jobs(self, creations: Sequence[Creation], *, now_ms: int) -> list[CreateReport]:
        return await self._write(
            lambda tx: [add.create_job(tx, *creation, now_ms) for creation in creations], bulk=len(creations) > _FEW
        )

    async def get_job(self, tenant: str, job_id: str, *, now_ms: int, max_bytes: int | None = None) -> JobRecord | None:
        return await self._read(lambda conn: listing.get_job(conn, tenant, job_id, now_ms, max_bytes))

    async def read_result(self, tenant: str, job_id: str, *, done_ms: int, start: int, length: int) -> bytes | None:
        return await self._read(lambda conn: listing.read_result(conn, tenant, job_id, done_ms, start, length))

    async def get_job_at(
        self, tenant: str, jobtype: str, seq: int, *, now_ms: int, max_bytes: int | None = None
    ) -> JobRecord | None:
        return await self._read(lambda conn: listing.get_job_at(conn, jobtype, seq, now_ms, max_bytes))

    async def get_states(self, tenant: str, job_ids: Sequence[str], *, now_ms: int) -> dict[str, JobState]:
        return await self._read(lambda conn: listing.get_states(conn, tenant, job_ids, now_ms))

    async def get_codes(self, tenant: str, job_ids: Sequence[str]) -> dict[str, Code]:
        return await self._read(lambda conn: listing.get_codes(conn, tenant, job_ids))

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
        return await self._read(lambda conn: listing.list_jobs(conn, tenant, where, now_ms, cursor, limit, max_bytes))

    async def list_repeating(self, tenant: str, *, now_ms: int, cursor: str | None = None, limit: int = 100) -> JobPage:
        return await self._read(lambda conn: listing.list_repeating(conn, tenant, now_ms, cursor, limit))

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
        return await self._read(
            lambda conn: listing.list_children(conn, tenant, parent_id, now_ms, cursor, limit, max_bytes)
        )

    async def get_position(self, tenant: str, job_id: str, *, now_ms: int, cap: int = 10_000) -> int | None:
        return await self._read(lambda conn: listing.get_position(conn, tenant, job_id, now_ms, cap))

    async def get_key_state(self, tenant: str, jobtype: str, key: str, *, limit: int, now_ms: int) -> KeyState:
        return await self._read(lambda conn: turns.get_key_state(conn, jobtype, key, limit, now_ms))

    async def update_job(self, tenant: str, job_id: str, change: JobChange, *, now_ms: int) -> JobState:
        return await self._write(lambda tx: job_changes.update_job(tx, tenant, job_id, change, now_ms))

    async def cancel_job(self, tenant: str, job_id: str, *, now_ms: int, running: bool = False) -> None:
        left = await self._write(lambda tx: job_changes.cancel_job(tx, tenant, job_id, now_ms, running=running))
        while left:
            left = await self._write(partial(families.carry_on, parents=left, now_ms=now_ms), bulk=True)

    async def replay_jobs(
        self, tenant: str, job_ids: Sequence[str], *, dt_ms: int, now_ms: int, data: bytes | None = None
    ) -> tuple[str, ...]:
        replayed: dict[str, None] = {}
        left: Sequence[str] = list(dict.fromkeys(job_ids))

        def step(tx: Tx) -> tuple[list[str], Sequence[str]]:
            return job_changes.replay_jobs(tx, tenant, left, replayed, dt_ms, now_ms, data)

        while left:
            some, left = await self._write(step, bulk=True)
            replayed |= dict.fromkeys(some)
        return tuple(replayed)

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
        move = job_changes.Move(jobtype, dt_ms, data, token)
        await self._write(lambda tx: job_changes.move_job(tx, tenant, job_id, move, now_ms))

    async def delete_jobs(self, tenant: str, job_ids: Sequence[str], *, now_ms: int) -> int:
        removed = 0
        while job_ids:
            step = partial(job_changes.delete_jobs, tenant=tenant, job_ids=job_ids, now_ms=now_ms)
            count, job_ids = await self._write(step, bulk=True)
            removed += count
        return removed

    async def number_jobs(self, tenant: str, job_ids: Sequence[str]) -> dict[str, int]:
        known = await self._read(lambda conn: numbers.get_numbers(conn, tenant, job_ids))
        if None not in known.values():
            return {job_id: number for job_id, number in known.items() if number is not None}
        return await self._write(lambda tx: numbers.number_jobs(tx, tenant, list(known)), bulk=len(known) > _FEW)

    async def take_numbers(self, tenant: str, count: int) -> int:
        return await self._write(lambda tx: numbers.take_numbers(tx, tenant, count))

    async def find_numbered(self, tenant: str, number: int) -> str | None:
        return await self._read(lambda conn: numbers.find_numbered(conn, tenant, number))

    async def get_index_state(self, tenant: str, jobtype: str) -> IndexState:
        return await self._read(lambda conn: job_changes.get_index_state(conn, jobtype))

    async def set_rate_domain(self, domain: RateDomain, *, now_ms: int) -> bool:
        is_changed = await self._write(lambda tx: rates.set_rate_domain(tx, domain, now_ms))
        await self._reopen_lanes(domain.tenant, now_ms)
        return is_changed

    async def delete_rate_domain(self, tenant: str, domain: str, *, now_ms: int) -> bool:
        was_there = await self._write(lambda tx: rates.delete_rate_domain(tx, tenant, domain))
        await self._reopen_lanes(tenant, now_ms)
        return was_there

    async def list_rate_domains(self, tenant: str, *, now_ms: int) -> list[RateState]:
        return await self._read(lambda conn: rates.list_rate_domains(conn, tenant, now_ms))

    async def find_rate(self, tenant: str, domain: str, *, now_ms: int) -> RateState | None:
        return await self._read(lambda conn: rates.find_rate(conn, tenant, domain, now_ms))

    async def _reopen_lanes(self, tenant: str, now_ms: int) -> None:
        """In slices, so that a tenant with very many domains holds up nobody."""
        while await self._write(lambda tx: rates.reopen_lanes(tx, tenant, now_ms, _LANES_AT_ONCE), bulk=True):
            pass
