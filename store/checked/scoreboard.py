"""The verbs on counters and buckets, checked."""

from collections.abc import Sequence

from store.checked.core import CheckedCore
from store.checks import (
    check_buckets,
    check_page_limit,
    check_range,
    check_time,
    check_type_buckets,
    check_width,
)
from store.names import MAX_BATCH, check_jobtype, check_tenant, checked_tenant_of
from store.protocol.activity import Activity
from store.protocol.scoreboard import Scoreboard
from store.values.scoreboard import Bucket, EndedSum, FailureGroup, Span, TypeCounters, Usage
from vocabulary.states import Code


class CheckedScoreboard(CheckedCore, Scoreboard):
    async def get_counters(self, tenant: str | None, *, now_ms: int) -> list[TypeCounters]:
        if tenant is not None:
            check_tenant(tenant)
        check_time("now_ms", now_ms)
        return await self._back.get_counters(tenant, now_ms=now_ms)

    async def get_buckets(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int, jobtype: str | None = None
    ) -> list[Bucket]:
        check_width(width_ms)
        if tenant is not None:
            check_tenant(tenant)
        if jobtype is not None:
            check_jobtype(checked_tenant_of(jobtype) if tenant is None else tenant, jobtype)
        return await self._back.get_buckets(
            tenant, width_ms=width_ms, since_ms=since_ms, until_ms=until_ms, jobtype=jobtype
        )

    async def list_failure_groups(
        self, tenant: str, *, jobtypes: Sequence[str] | None = None, since_ms: int = 0, limit: int = 100
    ) -> list[FailureGroup]:
        check_tenant(tenant)
        check_page_limit(limit)
        for jobtype in jobtypes or ():
            check_jobtype(tenant, jobtype)
        return await self._back.list_failure_groups(tenant, jobtypes=jobtypes, since_ms=since_ms, limit=limit)

    async def get_usage(self, tenant: str) -> Usage:
        check_tenant(tenant)
        return await self._back.get_usage(tenant)

    async def set_type_paused(self, tenant: str, jobtype: str, *, paused: bool) -> bool:
        check_jobtype(tenant, jobtype)
        return await self._back.set_type_paused(tenant, jobtype, paused=paused)

    async def expire_records(self, *, now_ms: int, audit_before_ms: int, limit: int = 1000) -> int:
        check_time("now_ms", now_ms)
        check_range("limit", limit, 1, MAX_BATCH)
        return await self._back.expire_records(now_ms=now_ms, audit_before_ms=audit_before_ms, limit=limit)


class CheckedActivity(CheckedCore, Activity):
    async def get_type_buckets(
        self, tenant: str, jobtypes: Sequence[str], *, width_ms: int, since_ms: int, until_ms: int
    ) -> list[Bucket]:
        check_type_buckets(tenant, jobtypes, width_ms, since_ms, until_ms)
        return await self._back.get_type_buckets(
            tenant, jobtypes, width_ms=width_ms, since_ms=since_ms, until_ms=until_ms
        )

    async def get_type_counts(
        self, tenant: str, jobtypes: Sequence[str], *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[str, dict[int, EndedSum]]:
        check_type_buckets(tenant, jobtypes, width_ms, since_ms, until_ms)
        return await self._back.get_type_counts(
            tenant, jobtypes, width_ms=width_ms, since_ms=since_ms, until_ms=until_ms
        )

    async def sum_by_start(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[int, EndedSum]:
        check_buckets(tenant, width_ms, since_ms, until_ms)
        return await self._back.sum_by_start(tenant, width_ms=width_ms, since_ms=since_ms, until_ms=until_ms)

    async def sum_by_type(
        self, tenant: str | None, *, width_ms: int, since_ms: int, until_ms: int
    ) -> dict[str, EndedSum]:
        check_buckets(tenant, width_ms, since_ms, until_ms)
        return await self._back.sum_by_type(tenant, width_ms=width_ms, since_ms=since_ms, until_ms=until_ms)

    async def count_by_type(self, tenant: str, codes: frozenset[Code], spans: Sequence[Span]) -> dict[str, int]:
        check_tenant(tenant)
        for _, width_ms, since_ms, until_ms in spans:
            check_buckets(tenant, width_ms, since_ms, until_ms)
        return await self._back.count_by_type(tenant, codes, spans)
