"""The verbs of activity on SQLite."""

from collections.abc import Sequence

from store.checks import check_buckets
from store.names import check_batch, check_jobtype, check_tenant
from store.protocol.activity import Activity
from store.sqlite import activity
from store.sqlite.core import SqliteCore
from store.values.scoreboard import Bucket, EndedSum


class SqliteActivity(SqliteCore, Activity):
    async def get_type_buckets(
        self,
        tenant: str,
        jobtypes: Sequence[str],
        *,
        width_ms: int,
        since_ms: int,
        until_ms: int,
        histograms: bool = True,
    ) -> list[Bucket]:
        check_batch("jobtypes", len(jobtypes))
        check_buckets(width_ms, since_ms, until_ms)
        chosen = [check_jobtype(tenant, jobtype) for jobtype in jobtypes]
        return await self._read(
            lambda conn: activity.get_type_buckets(conn, chosen, width_ms, since_ms, until_ms, histograms=histograms)
        )

    async def sum_by_start(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[int, EndedSum]:
        _check(tenant, width_ms, since_ms, until_ms)
        return await self._read(lambda conn: activity.sum_by_start(conn, tenant, width_ms, since_ms, until_ms))

    async def sum_by_type(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[str, EndedSum]:
        _check(tenant, width_ms, since_ms, until_ms)
        return await self._read(lambda conn: activity.sum_by_type(conn, tenant, width_ms, since_ms, until_ms))


def _check(tenant: str | None, width_ms: int, since_ms: int, until_ms: int) -> None:
    check_buckets(width_ms, since_ms, until_ms)
    if tenant is not None:
        check_tenant(tenant)
