"""Replay: queue archived jobs again, chosen by a filter, with a dry run and a rate cap."""

from typing import NamedTuple

from functory.operations.audit import audit
from functory.operations.bulk import matching
from functory.operations.service import Service
from functory.operations.type_patterns import types_matching
from store.base import JobFilter


class ReplayReport(NamedTuple):
    """replayed is 0 in a dry run. ids are those that matched, the latest end first."""

    ids: tuple[str, ...]
    replayed: int
    more: bool
    last_due_ms: int | None


async def replay(
    service: Service,
    actor: str,
    tenant: str,
    where: JobFilter,
    *,
    limit: int,
    rate_per_s: float | None,
    dry_run: bool,
    pattern: str | None = None,
    after_ms: int | None = None,
) -> ReplayReport:
    """Queue up to `limit` jobs again, the n-th due n / rate_per_s from now: the rate holds however fast runners are.
    after_ms: when the last ones of the call before are due; those of this one follow at the same rate.

    With a pattern, those of the types that it matches. Repeating it replays nothing twice, because a queued job is not
    archived.
    """
    filters = [where]
    if pattern is not None:
        filters = [where._replace(jobtype=jobtype) for jobtype in await types_matching(service, tenant, pattern)]
    ids, more = await matching(service, tenant, filters, limit)
    if dry_run or not ids:
        return ReplayReport(ids, 0, more, None)
    now_ms = service.now_ms()
    step = len(ids) if rate_per_s is None else max(1, int(rate_per_s))
    first_ms = now_ms
    if rate_per_s is not None and after_ms is not None:
        first_ms = max(now_ms, after_ms + round(step / rate_per_s * 1000))
    replayed, due_ms = 0, first_ms
    for start in range(0, len(ids), step):
        due_ms = first_ms + (0 if rate_per_s is None else round(start / rate_per_s * 1000))
        chunk = ids[start : start + step]
        replayed += len(await service.store.replay_jobs(tenant, chunk, dt_ms=due_ms, now_ms=now_ms))
    await audit(service, actor, "job.replay", tenant, matched=len(ids), replayed=replayed)
    service.control.wake()
    return ReplayReport(ids, replayed, more, due_ms)
