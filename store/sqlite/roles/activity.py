"""The verbs of activity on SQLite."""

from collections.abc import Sequence

from store.protocol.activity import Activity
from store.sqlite.file.core import SqliteCore
from store.sqlite.records import activity
from store.values.scoreboard import Bucket, EndedSum, Span
from vocabulary.states import Code


class SqliteActivity(SqliteCore, Activity):
    async def get_type_buckets(
        self, tenant: str, jobtypes: Sequence[str], *, width_ms: int, since_ms: int, until_ms: int
    ) -> list[Bucket]:
        return await self._read(lambda conn: activity.get_type_buckets(conn, jobtypes, width_ms, since_ms, until_ms))

    async def get_type_counts(
        self, tenant: str, jobtypes: Sequence[str], *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[str, dict[int, EndedSum]]:
        return await self._read(lambda conn: activity.get_type_counts(conn, jobtypes, width_ms, since_ms, until_ms))

    async def sum_by_start(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[int, EndedSum]:
        return await self._read(lambda conn: activity.sum_by_start(conn, tenant, width_ms, since_ms, until_ms))

    async def sum_by_type(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[str, EndedSum]:
        return await self._read(lambda conn: activity.sum_by_type(conn, tenant, width_ms, since_ms, until_ms))

    async def count_by_type(self, tenant: str, codes: frozenset[Code], spans: Sequence[Span]) -> dict[str, int]:
        return await self._read(lambda conn: activity.count_by_type(conn, tenant, codes, spans))
