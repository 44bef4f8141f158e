"""The verbs of activity on SQLite."""

from collections.abc import Sequence

from store.checks import check_buckets, check_type_buckets
from store.protocol.activity import Activity
from store.sqlite import activity
from store.sqlite.core import SqliteCore
from store.values.jobs import Code
from store.values.scoreboard import Bucket, EndedSum, Span


class SqliteActivity(SqliteCore, Activity):
    async def get_type_buckets(
        self, tenant: str, jobtypes: Sequence[str], *, width_ms: int, since_ms: int, until_ms: int
    ) -> list[Bucket]:
        chosen = check_type_buckets(tenant, jobtypes, width_ms, since_ms, until_ms)
        return await self._read(lambda conn: activity.get_type_buckets(conn, chosen, width_ms, since_ms, until_ms))

    async def get_type_counts(
        self, tenant: str, jobtypes: Sequence[str], *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[str, dict[int, EndedSum]]:
        chosen = check_type_buckets(tenant, jobtypes, width_ms, since_ms, until_ms)
        return await self._read(lambda conn: activity.get_type_counts(conn, chosen, width_ms, since_ms, until_ms))

    async def sum_by_start(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[int, EndedSum]:
        check_buckets(tenant, width_ms, since_ms, until_ms)
        return await self._read(lambda conn: activity.sum_by_start(conn, tenant, width_ms, since_ms, until_ms))

    async def sum_by_type(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[str, EndedSum]:
        check_buckets(tenant, width_ms, since_ms, until_ms)
        return await self._read(lambda conn: activity.sum_by_type(conn, tenant, width_ms, since_ms, until_ms))

    async def count_by_type(self, tenant: str, codes: frozenset[Code], spans: Sequence[Span]) -> dict[str, int]:
        for span in spans:
            check_buckets(tenant, *span[1:])
        return await self._read(lambda conn: activity.count_by_type(conn, tenant, codes, spans))
