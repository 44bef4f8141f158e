"""Quotas of stored jobs and bytes, held against a usage that is at most a moment old.

Not exact to the job: every daemon counts what it took itself since it last asked the store, so a tenant may pass its
quota by what other daemons take within `usage_life_s`. When the store is away, the last usage known is used: intake
goes on into the journal, whose own limit then holds.
"""

from functory.errors import QuotaExceeded
from functory.wire.admin import TenantLimits
from store.base import Store, Usage
from store.errors import StoreUnavailable

_NOTHING = Usage(0, 0, 0)
_RETRY_AFTER_S = 30.0


class _Seen:
    """A tenant's usage as the store last said, and what this daemon took since."""

    __slots__ = ("asked_ms", "jobs", "size_bytes")

    def __init__(self, asked_ms: int, usage: Usage) -> None:
        self.asked_ms = asked_ms
        self.jobs = usage.jobs
        self.size_bytes = usage.size_bytes


class Quotas:
    def __init__(self, *, usage_life_s: float = 1.0, max_tenants: int = 10_000) -> None:
        """`usage_life_s`: how old the usage may be that quotas are held against."""
        self._usage_life_ms = usage_life_s * 1000
        self._max_tenants = max_tenants
        self._seen: dict[str, _Seen] = {}

    async def take(
        self, store: Store, tenant: str, limits: TenantLimits, *, jobs: int, size_bytes: int, now_ms: int
    ) -> None:
        """Count what is about to be stored. Raises QuotaExceeded when it does not fit; then nothing is counted."""
        if limits.max_jobs is None and limits.max_bytes is None:
            return
        seen = await self._look(store, tenant, now_ms)
        _check("jobs", seen.jobs + jobs, limits.max_jobs)
        _check("bytes", seen.size_bytes + size_bytes, limits.max_bytes)
        seen.jobs += jobs
        seen.size_bytes += size_bytes

    async def _look(self, store: Store, tenant: str, now_ms: int) -> _Seen:
        seen = self._seen.get(tenant)
        if seen is not None and abs(now_ms - seen.asked_ms) < self._usage_life_ms:
            return seen
        try:
            usage = await store.get_usage(tenant)
        except StoreUnavailable:
            return seen or _Seen(now_ms, _NOTHING)
        if tenant not in self._seen and len(self._seen) >= self._max_tenants:
            del self._seen[next(iter(self._seen))]
        self._seen[tenant] = seen = _Seen(now_ms, usage)
        return seen


def _check(what: str, wanted: int, limit: int | None) -> None:
    if limit is not None and wanted > limit:
        raise QuotaExceeded(
            f"the tenant would have {wanted} {what} stored, and may have {limit}: wait until older results are purged,"
            " or ask the operator for more",
            detail={"quota": f"max_{what}", "limit": limit, "wanted": wanted},
            retry_after_s=_RETRY_AFTER_S,
        )
