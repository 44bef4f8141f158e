"""Admission: the one place that says whether jobs may come in, whichever way they come.

Lines, jobs in JSON, unique names, idempotency keys, jobs that a job asked for, results and handlers: all are held
against the same limits of size (the journal's) and the same quotas of what a tenant may have stored.

Quotas are not exact to the job: every daemon counts what it took itself since it last asked the store, and what it took
before and the store did not have then. So a tenant may pass its quota by what other daemons take within `usage_life_s`,
and by what they have in their journals. What a journal had when its daemon started counts when the store has it: to
know whose it is, all of it would have to be read first. When the store is away, or does not answer, the last usage
known is used: intake goes on into the journal, whose own limit then holds.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from functory.errors import QuotaExceeded
from functory.intake.weights import Weight
from functory.loops.one_look import OneLook
from functory.tenant_limits import TenantLimits
from journal import Journal
from store.base import Store, TypeCounters, Usage
from store.errors import StoreUnavailable

_NOTHING: Final = Usage(0, 0, 0)
_RETRY_AFTER_S: Final = 30.0
_MORE_READINGS: Final = 2
MAX_TYPES: Final = 5000
"""Types of which a tenant may have jobs that are not over, unless its limits say otherwise: each costs every look for
work a little."""
_TYPES_LIFE_MS: Final = 10_000
"""A tenant that is at this limit is looked at again after this time."""
FREE_RESULT_BYTES: Final = 1024
"""A result up to this size is always kept: a tenant at its quota still learns how its jobs ended. It counts, though,
and a tenant that is over its quota gets nothing new in."""

_IN_WORDS: Final = {"types": ("types with jobs that are not over", "all jobs of one have ended")}
"""What a quota counts that is not simply stored, and when there is less of it."""


class _Seen:
    """A tenant's usage as the store last said, and what this daemon took since."""

    __slots__ = ("asked_ms", "jobs", "size_bytes")

    def __init__(self, asked_ms: int, usage: Usage, unstored: Weight) -> None:
        self.asked_ms = asked_ms
        self.jobs = usage.jobs + unstored.lines
        self.size_bytes = usage.size_bytes + unstored.size_bytes


class _Types:
    """Types of a tenant that have jobs or are paused: as the store last said, and those that were added since."""

    __slots__ = ("asked_ms", "names")

    def __init__(self, asked_ms: int, names: set[str]) -> None:
        self.asked_ms = asked_ms
        self.names = names


def _none(_: str) -> Weight:
    return Weight()


class Admission:
    def __init__(
        self,
        store: Store,
        journal: Journal,
        now_ms: Callable[[], int],
        unstored: Callable[[str], Weight] = _none,
        *,
        usage_life_s: float = 1.0,
        max_tenants: int = 10_000,
    ) -> None:
        """`unstored`: the lines of a tenant that were taken here and that the store does not have yet.
        `usage_life_s`: how old the usage may be that quotas are held against."""
        self._store = store
        self._journal = journal
        self._now_ms = now_ms
        self._unstored = unstored
        self._usage_life_ms = usage_life_s * 1000
        self._max_tenants = max_tenants
        self._seen: dict[str, _Seen] = {}
        self._types: dict[str, _Types] = {}
        self._storing: dict[str, Weight] = {}
        self._forgotten = 0
        """How often tenants were forgotten: nobody gets or keeps the answer of a look of before that."""
        self._looks: OneLook[tuple[str, int], _Seen] = OneLook()
        self._looks_at_types: OneLook[tuple[str, int], _Types] = OneLook()

    @property
    def max_jobs_at_once(self) -> int:
        """In one request, in one job's wishes, in one write."""
        return self._journal.options.max_batch_lines

    def check(self, jobtype: str, payloads: Sequence[bytes]) -> None:
        """What the journal would say of them, for those that do not go through it or not alone. Raises InvalidWrite,
        LimitExceeded."""
        self._journal.check(jobtype, payloads)

    def forget(self, tenant: str) -> None:
        """The tenant is gone: one that gets its name has none of its jobs and types."""
        self._forgotten += 1
        self._seen.pop(tenant, None)
        self._types.pop(tenant, None)

    async def take(self, tenant: str, limits: TenantLimits, *, jobs: int, size_bytes: int) -> None:
        """Count what is about to be stored. Raises QuotaExceeded when it does not fit; then nothing is counted. What
        was counted cannot be given back: it may be gone with what the store said before."""
        seen = await self.check_room(tenant, limits, jobs=jobs, size_bytes=size_bytes)
        if seen is not None:
            seen.jobs += jobs
            seen.size_bytes += size_bytes

    async def check_room(self, tenant: str, limits: TenantLimits, *, jobs: int, size_bytes: int) -> _Seen | None:
        """What `take` would say, for who has others to ask first. Nothing is counted. Returns where it would be, if
        there is a quota. Raises QuotaExceeded."""
        if limits.max_jobs is None and limits.max_bytes is None:
            return None
        seen = await self._usage(tenant)
        _check("jobs", seen.jobs + jobs, limits.max_jobs)
        _check("bytes", seen.size_bytes + size_bytes, limits.max_bytes)
        return seen

    @contextmanager
    def storing(self, tenant: str, *, jobs: int, size_bytes: int) -> Iterator[None]:
        """Jobs that were taken go to the store, past the journal. They count until the block ends, however often the
        store is asked while they wait for their turn."""
        self._count_storing(tenant, jobs, size_bytes)
        try:
            yield
        finally:
            self._count_storing(tenant, -jobs, -size_bytes)

    def _count_storing(self, tenant: str, jobs: int, size_bytes: int) -> None:
        before = self._storing.pop(tenant, Weight())
        now = Weight(before.lines + jobs, before.size_bytes + size_bytes)
        if now.lines:
            self._storing[tenant] = now

    async def check_result(self, tenant: str, limits: TenantLimits, size_bytes: int) -> None:
        """What `take_result` would say. Nothing is counted. Raises QuotaExceeded."""
        if size_bytes > FREE_RESULT_BYTES and limits.max_bytes is not None:
            _check("bytes", (await self._usage(tenant)).size_bytes + size_bytes, limits.max_bytes)

    async def _usage(self, tenant: str) -> _Seen:
        seen = self._seen.get(tenant)
        if seen is None or abs(self._now_ms() - seen.asked_ms) >= self._usage_life_ms:
            # All that ask at once get the same object, and count on it one after the other.
            seen = await self._looks.ask((tenant, self._forgotten), lambda: self._look(tenant), known=seen)
        return seen

    def knows_type(self, tenant: str, jobtype: str) -> bool:
        """Whether the tenant has jobs of the type, as far as this daemon knows: then another one is no new type."""
        known = self._types.get(tenant)
        return known is not None and jobtype in known.names

    async def take_type(self, tenant: str, limits: TenantLimits, jobtype: str) -> None:
        """Jobs of a type are about to be stored. Raises QuotaExceeded if it is one type too many."""
        await self.take_types(tenant, limits, (jobtype,))

    async def take_types(self, tenant: str, limits: TenantLimits, jobtypes: Sequence[str]) -> None:
        """Jobs of all these types. Raises QuotaExceeded if they are too many; then none is counted."""
        new = {jobtype for jobtype in jobtypes if not self.knows_type(tenant, jobtype)}
        if not new:
            return
        limit = MAX_TYPES if limits.max_types is None else limits.max_types
        known, now_ms = self._types.get(tenant), self._now_ms()
        if known is None or (len(known.names) + len(new) > limit and abs(now_ms - known.asked_ms) >= _TYPES_LIFE_MS):
            about = (tenant, self._forgotten)
            known = await self._looks_at_types.ask(about, lambda: self._look_at_types(tenant, now_ms), known=known)
        wanted = known.names.union(jobtypes)  # all of them: a look may have found that one has no jobs any more
        if len(wanted) > len(known.names):
            _check("types", len(wanted), limit)
            known.names |= wanted

    async def _look_at_types(self, tenant: str, now_ms: int) -> _Types:
        forgotten = self._forgotten
        try:
            rows = await self._store.get_counters(tenant, now_ms=now_ms)
        except StoreUnavailable:
            return self._types.get(tenant) or _Types(now_ms, set())
        known = _Types(now_ms, {row.jobtype for row in rows if is_live(row)})
        if self._forgotten == forgotten:
            if tenant not in self._types and len(self._types) >= self._max_tenants:
                del self._types[next(iter(self._types))]
            self._types[tenant] = known
        return known

    async def take_result(self, tenant: str, limits: TenantLimits, size_bytes: int) -> None:
        """A result that is about to be kept. Raises QuotaExceeded."""
        if size_bytes > FREE_RESULT_BYTES:
            await self.take_bytes(tenant, limits, size_bytes)

    async def take_bytes(self, tenant: str, limits: TenantLimits, size_bytes: int) -> None:
        """What is stored beside jobs, such as a version of a handler. Raises QuotaExceeded."""
        await self.take(tenant, TenantLimits(max_bytes=limits.max_bytes), jobs=0, size_bytes=size_bytes)

    async def _look(self, tenant: str) -> _Seen:
        now_ms, forgotten = self._now_ms(), self._forgotten
        before = self._seen.get(tenant)
        try:
            usage, unstored = await self._read_usage(tenant)
        except StoreUnavailable:
            return before or _Seen(now_ms, _NOTHING, self._on_their_way(tenant))
        seen = _Seen(now_ms, usage, unstored)
        if self._forgotten == forgotten:
            if tenant not in self._seen and len(self._seen) >= self._max_tenants:
                del self._seen[next(iter(self._seen))]
            self._seen[tenant] = seen
        return seen

    async def _read_usage(self, tenant: str) -> tuple[Usage, Weight]:
        """What the store has, and how many jobs are on their way to it. What comes there between the two readings would
        be counted twice: then both are read again; but not for ever, since more may come all the time."""
        unstored = self._on_their_way(tenant)
        usage = await self._store.get_usage(tenant)
        for _ in range(_MORE_READINGS):
            if (now := self._on_their_way(tenant)) == unstored:
                break
            unstored, usage = now, await self._store.get_usage(tenant)
        return usage, unstored

    def _on_their_way(self, tenant: str) -> Weight:
        unstored, storing = self._unstored(tenant), self._storing.get(tenant, Weight())
        return Weight(unstored.lines + storing.lines, unstored.size_bytes + storing.size_bytes)


def is_live(row: TypeCounters) -> bool:
    """Whether a type counts against the limit of types."""
    return row.paused or row.waiting + row.deferred + row.running + row.blocked > 0


def _check(what: str, wanted: int, limit: int | None) -> None:
    if limit is not None and wanted > limit:
        text, remedy = _IN_WORDS.get(what, (f"{what} stored", "older results are purged"))
        raise QuotaExceeded(
            f"the tenant would have {wanted} {text}, and may have {limit}: wait until {remedy},"
            " or ask the operator for more",
            detail={"quota": f"max_{what}", "limit": limit, "wanted": wanted},
            retry_after_s=_RETRY_AFTER_S,
        )
