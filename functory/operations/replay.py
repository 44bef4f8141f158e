"""Replay: queue archived jobs again, chosen by a filter, with a dry run and a rate cap."""

from typing import NamedTuple

from functory.operations.audit import audit
from functory.operations.service import Service
from store.base import JobFilter

_PAGE = 1000


class ReplayReport(NamedTuple):
    """replayed is empty in a dry run; ids are those that matched, newest end first."""

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
) -> ReplayReport:
    """Queue up to limit jobs again, the n-th due n / rate_per_s from now: the cap holds whatever the runners can do.

    Repeating it replays nothing twice, because what is queued is not archived any more.
    """
    ids, more = await _matching(service, tenant, where, limit)
    if dry_run or not ids:
        return ReplayReport(tuple(ids), 0, more, None)
    now_ms = service.now_ms()
    step = len(ids) if rate_per_s is None else max(1, int(rate_per_s))
    replayed, due_ms = 0, now_ms
    for start in range(0, len(ids), step):
        due_ms = now_ms + (0 if rate_per_s is None else round(start / rate_per_s * 1000))
        chunk = ids[start : start + step]
        replayed += len(await service.store.replay_jobs(tenant, chunk, dt_ms=due_ms, now_ms=now_ms))
    await audit(service, actor, "job.replay", tenant, matched=len(ids), replayed=replayed)
    service.control.wake()
    return ReplayReport(tuple(ids), replayed, more, due_ms)


async def _matching(service: Service, tenant: str, where: JobFilter, limit: int) -> tuple[list[str], bool]:
    ids: list[str] = []
    cursor: str | None = None
    while True:
        size = min(_PAGE, limit - len(ids))
        page = await service.store.list_jobs(tenant, where, now_ms=service.now_ms(), cursor=cursor, limit=size)
        ids += [record.job.id for record in page.records]
        cursor = page.cursor
        if cursor is None or len(ids) >= limit:
            return ids, cursor is not None
