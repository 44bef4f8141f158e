"""The verbs on consumers, on SQLite."""

from collections.abc import Sequence
from typing import Final

from store.protocol.consumers import ConsumerShelf
from store.sqlite.file.core import SqliteCore
from store.sqlite.records import consumers
from store.values.consumers import ConsumerRecord, EndReport, HoldReport, WindowMove, WindowReport
from store.values.jobs import NewJob

_WIDE: Final = 500
"""Numbers of a window; a move looks at each of them."""


class SqliteConsumers(SqliteCore, ConsumerShelf):
    async def set_consumer(self, consumer: ConsumerRecord, *, start_index: int | None = None) -> bool:
        return await self._write(lambda tx: consumers.set_consumer(tx, consumer, start_index))

    async def get_consumer(self, tenant: str, name: str) -> ConsumerRecord | None:
        return await self._read(lambda conn: consumers.get_consumer(conn, tenant, name))

    async def list_consumers(self, tenant: str | None = None) -> list[ConsumerRecord]:
        return await self._read(lambda conn: consumers.list_consumers(conn, tenant))

    async def set_consumer_running(self, tenant: str, name: str, *, running: bool) -> None:
        await self._write(lambda tx: consumers.set_consumer_running(tx, tenant, name, running=running))

    async def end_consumer(
        self, tenant: str, name: str, *, now_ms: int, limit: int = 1000, only_ending: bool = False
    ) -> EndReport:
        return await self._write(
            lambda tx: consumers.end_consumer(tx, tenant, name, limit, now_ms, only_ending), bulk=True
        )

    async def lead_consumers(self, owner: str, *, lease_ms: int, now_ms: int, limit: int = 100) -> list[ConsumerRecord]:
        return await self._write(lambda tx: consumers.lead_consumers(tx, owner, lease_ms, now_ms, limit))

    async def resign_consumers(self, owner: str) -> None:
        await self._write(lambda tx: consumers.resign_consumers(tx, owner))

    async def move_window(self, move: WindowMove, *, now_ms: int) -> WindowReport:
        is_wide = move.released - move.after > _WIDE
        return await self._write(lambda tx: consumers.move_window(tx, move, now_ms), bulk=is_wide)

    async def append_job(self, tenant: str, name: str, token: int, seq: int, job: NewJob, *, now_ms: int) -> bool:
        return await self._write(lambda tx: consumers.append_job(tx, tenant, name, token, seq, job, now_ms))

    async def look_at_window(self, tenant: str, jobtype: str, *, after: int, until: int) -> WindowReport:
        return await self._read(lambda conn: consumers.look_at_window(conn, jobtype, after, until))

    async def get_last_numbers(self, jobtypes: Sequence[str]) -> list[int]:
        return await self._read(lambda conn: consumers.get_last_numbers(conn, jobtypes))

    async def hold_jobs(
        self, tenant: str, name: str, token: int, *, after: int, now_ms: int, limit: int = 1000
    ) -> HoldReport:
        return await self._write(lambda tx: consumers.hold_jobs(tx, tenant, name, token, after, limit), bulk=True)
