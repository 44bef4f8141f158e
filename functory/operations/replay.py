"""Replay: queue archived jobs again, chosen by a filter, with a dry run and a rate cap."""

from typing import Final, NamedTuple

from functory.errors import InvalidInput
from functory.operations.audit import audit
from functory.operations.bulk import matching
from functory.operations.finding import filter_of, told
from functory.operations.keyring import require_same_tenant
from functory.operations.principal import Principal
from functory.operations.service import Service
from store.base import JobFilter

_LONGEST_S: Final = 365 * 86_400
"""From now until the last of them is due."""


class ReplayReport(NamedTuple):
    """replayed is 0 in a dry run. ids are those that matched, the latest end first. cursor: for the next call, if more
    match."""

    ids: tuple[str, ...]
    replayed: int
    cursor: str | None
    last_due_ms: int | None
    schedules: int = 0
    """How many match, too, and were left alone."""

    @property
    def more(self) -> bool:
        return self.cursor is not None


class _Pace(NamedTuple):
    """When the first of them are due, and how many come together."""

    first_ms: int
    step: int


async def replay(
    service: Service,
    who: Principal,
    where: JobFilter,
    *,
    limit: int,
    rate_per_s: float | None,
    dry_run: bool,
    pattern: str | None = None,
    after_ms: int | None = None,
    cursor: str | None = None,
    schedules: bool = False,
) -> ReplayReport:
    """Queue up to `limit` jobs again, the n-th due n / rate_per_s from now: the rate holds however fast runners are.
    after_ms: when the last ones of the call before are due; those of this one follow at the same rate. cursor: of the
    call before; this one begins after the jobs of that, also after those that could not be queued again.

    With a pattern, those of the types that it matches. Jobs that repeat only with schedules: they would go on with
    that. Repeating it replays nothing twice, because a queued job is not archived. Raises InvalidInput, QuotaExceeded
    (too many types would have jobs); none was queued then.
    """
    tenant = who.tenant
    async with service.bulk_turns.of(tenant):
        await require_same_tenant(service, who)
        of_types = await filter_of(service, tenant, pattern, where)
        found = await matching(service, tenant, [of_types], limit, cursor, schedules=schedules)
        ids, after = found.ids, found.after
        now_ms = service.now_ms()
        first_ms, step = _pace(len(ids), rate_per_s, after_ms, now_ms)
        if dry_run or not ids:
            return ReplayReport(ids, 0, after, None, found.schedules)
        await service.admission.take_types(tenant, who.limits, found.jobtypes)
        replayed, due_ms = 0, first_ms
        for start in range(0, len(ids), step):
            due_ms = first_ms + (0 if rate_per_s is None else round(start / rate_per_s * 1000))
            chunk = ids[start : start + step]
            replayed += len(await service.store.replay_jobs(tenant, chunk, dt_ms=due_ms, now_ms=now_ms))
    await audit(service, who.key_id, "job.replay", tenant, **told(pattern, where), matched=len(ids), replayed=replayed)
    service.control.wake()
    return ReplayReport(ids, replayed, after, due_ms, found.schedules)


def _pace(count: int, rate_per_s: float | None, after_ms: int | None, now_ms: int) -> _Pace:
    """Raises InvalidInput if the last of so many jobs would be due too late."""
    if rate_per_s is None or not count:
        return _Pace(now_ms, max(count, 1))
    step = max(1, int(rate_per_s))
    first_s = 0.0 if after_ms is None else max((after_ms - now_ms) / 1000 + step / rate_per_s, 0.0)
    if first_s + (count - 1) // step * step / rate_per_s > _LONGEST_S:
        raise InvalidInput(
            f"at {rate_per_s:g} per second the last of {count:,} jobs would be due in more than a year: raise"
            " rate_per_s, or lower limit",
            detail={"field": "rate_per_s"},
        )
    first_ms = now_ms if after_ms is None else max(now_ms, after_ms + round(step / rate_per_s * 1000))
    return _Pace(first_ms, step)
