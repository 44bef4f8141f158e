"""The scoreboard's verbs on SQLite."""

from collections.abc import Sequence

from store.protocol.scoreboard import Scoreboard
from store.sqlite.file.core import SqliteCore
from store.sqlite.file.writer import Tx
from store.sqlite.records import scoreboard
from store.values.scoreboard import Bucket, FailureGroup, TypeCounters, Usage


class SqliteScoreboard(SqliteCore, Scoreboard):
    async def get_counters(self, tenant: str | None, *, now_ms: int) -> list[TypeCounters]:
        return await self._read(lambda conn: scoreboard.get_counters(conn, tenant, now_ms))

    async def get_buckets(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int, jobtype: str | None = None
    ) -> list[Bucket]:
        return await self._read(
            lambda conn: scoreboard.get_buckets(conn, tenant, jobtype, width_ms, since_ms, until_ms)
        )

    async def list_failure_groups(
        self, tenant: str, *, jobtypes: Sequence[str] | None = None, since_ms: int = 0, limit: int = 100
    ) -> list[FailureGroup]:
        return await self._read(lambda conn: scoreboard.list_failure_groups(conn, tenant, jobtypes, since_ms, limit))

    async def get_usage(self, tenant: str) -> Usage:
        return await self._read(lambda conn: scoreboard.get_usage(conn, tenant))

    async def set_type_paused(self, tenant: str, jobtype: str, *, paused: bool) -> bool:

        def work(tx: Tx) -> bool:
            number = tx.catalog.make_type(jobtype) if paused else tx.catalog.type_of(jobtype)
            sql = "UPDATE types SET paused = ?1 WHERE type = ?2 AND paused != ?1 RETURNING 1"
            return tx.conn.execute(sql, (paused, number)).get is not None

        return await self._write(work)

    async def expire_records(self, *, now_ms: int, audit_before_ms: int, limit: int = 1000) -> int:
        return await self._write(lambda tx: scoreboard.expire_records(tx, now_ms, audit_before_ms, limit), bulk=True)
