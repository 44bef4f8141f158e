"""The operator's view of the whole service: tenants and their shares, queues, daemons, the audit log."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from functory.operations import audit, daemons, figures
from functory.operations.tenants import list_tenants as all_tenants
from functory.tenant_limits import TenantLimits, limits_from
from functory.web.pages import inert_text
from functory.web.pages.board import PAGE_ROWS
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Go, Page, Pages
from store.base import Daemon, EndedSum, Tenant, TypeCounters, Usage
from vocabulary.names import tenant_of, type_of

pages = Pages()

_SAFE_LEVELS: Final = frozenset({"L2", "L3"})
_AUDIT_ROWS: Final = 100
_NOTHING: Final = EndedSum()


class TenantRow(NamedTuple):
    tenant: Tenant
    limits: TenantLimits
    usage: Usage
    waiting: int
    running: int
    ended: EndedSum
    share: float
    """Its share of the runner time of this hour and the previous one."""
    fair_share: float
    """Its weight as a share of all weights."""


class QueueRow(NamedTuple):
    tenant: str
    type: str
    now: TypeCounters


class DaemonRow(NamedTuple):
    """A daemon as it last described itself."""

    sysid: str
    host: str
    role: str
    version: str
    is_paused: bool
    is_this: bool
    uptime_s: float
    backlog_bytes: float
    slots: float
    slots_free: float
    contexts: float
    isolation: str
    is_safe: bool
    runs_code: bool
    languages: str
    problems: Mapping[str, str]


@pages.get("/ui/operator", scope="operator", live="live/operator.html")
async def list_tenants(call: PageCall) -> Page:
    service, now_ms = call.service, call.now_ms
    needle = call.query("q")[:32]
    tenants = await all_tenants(service)
    chosen = [it for it in tenants if needle.lower() in it.name]
    start = call.start(len(chosen), PAGE_ROWS)
    counters = await figures.counters_of(service, None)
    waiting, running = Counter[str](), Counter[str]()
    for it in counters:
        tenant_name = tenant_of(it.jobtype)
        waiting[tenant_name] += it.waiting
        running[tenant_name] += it.running
    ended = _by_tenant(await figures.last_two_hours_of_all(service))
    runner_us = sum(it.runner_us for it in ended.values()) or 1
    weights = sum(it.weight for it in tenants) or 1
    rows = []
    for tenant in chosen[start : start + PAGE_ROWS]:
        used = ended.get(tenant.name, _NOTHING)
        rows.append(
            TenantRow(
                tenant,
                limits_from(tenant.limits),
                await figures.usage_of(service, tenant.name),
                waiting[tenant.name],
                running[tenant.name],
                used,
                used.runner_us / runner_us,
                tenant.weight / weights,
            )
        )
    values = {
        "rows": rows,
        "q": needle,
        "tenants": len(tenants),
        "matching": len(chosen),
        "start": start,
        "page_rows": PAGE_ROWS,
        "waiting": waiting.total(),
        "running": running.total(),
        "runner_s": sum(it.runner_us for it in ended.values()) / 1e6,
        "suspended": sum(it.suspended for it in tenants),
        "daemons": await _daemons(call),
        "now_ms": now_ms,
        "problem": "",
        "name": "",
    }
    return Page("operator.html", values)


@pages.get("/ui/operator/queues", scope="operator", live="live/queues.html")
async def list_queues(call: PageCall) -> Page:
    """Types of all tenants, those with the most work first."""
    needle = call.query("q")[:160]
    rows = [
        QueueRow(tenant_of(it.jobtype), type_of(it.jobtype), it)
        for it in await figures.counters_of(call.service, None)
        if needle.lower() in it.jobtype.lower()
    ]
    rows.sort(key=lambda row: (-row.now.waiting, -row.now.running, -row.now.deferred, row.now.jobtype))
    start = call.start(len(rows), PAGE_ROWS)
    values = {
        "rows": rows[start : start + PAGE_ROWS],
        "matching": len(rows),
        "q": needle,
        "start": start,
        "page_rows": PAGE_ROWS,
        "now_ms": call.now_ms,
    }
    return Page("queues.html", values)


@pages.get("/ui/operator/daemons", scope="operator", live="live/daemons.html")
async def list_daemons(call: PageCall) -> Page:
    found = await _daemons(call)
    state = tuple(f"{it.sysid}:{it.is_paused}" for it in found)
    return Page("daemons.html", {"daemons": found, "now_ms": call.now_ms}, state=state)


@pages.post("/ui/operator/daemons/{sysid}/{order:pause|resume}", scope="operator")
async def pause_daemon(call: PageCall) -> Go:
    paused = call.params["order"] == "pause"
    await daemons.pause_daemon(call.service, call.who.key_id, call.params["sysid"], paused=paused)
    return Go("/ui/operator/daemons", "paused" if paused else "resumed")


@pages.get("/ui/operator/audit", scope="operator")
async def list_audit(call: PageCall) -> Page:
    tenant, cursor = call.query("tenant")[:32] or None, call.query("cursor") or None
    page = await audit.list_audit(call.service, tenant=tenant, cursor=cursor, limit=_AUDIT_ROWS)
    values = {
        "events": [it._replace(detail=inert_text.line(_detail(it.detail))) for it in page.events],
        "next": page.cursor,
        "of_tenant": tenant or "",
        "is_first": cursor is None,
    }
    return Page("audit.html", values)


def _detail(text: str) -> str:
    """What an event tells beside its action, in words instead of JSON; what is null is left out."""
    try:
        fields = json.loads(text)
    except ValueError:
        return text
    if not isinstance(fields, dict):
        return text
    told = {name: value for name, value in fields.items() if value is not None}
    return ", ".join(f"{name} {' '.join(map(str, it)) if isinstance(it, list) else it}" for name, it in told.items())


def _by_tenant(sums: Mapping[str, EndedSum]) -> dict[str, EndedSum]:
    found: dict[str, EndedSum] = {}
    for jobtype, ended in sums.items():
        tenant = tenant_of(jobtype)
        before = found.get(tenant, _NOTHING)
        found[tenant] = EndedSum._make(one + other for one, other in zip(before, ended, strict=True))
    return found


async def _daemons(call: PageCall) -> list[DaemonRow]:
    return [_daemon(call, it) for it in await daemons.list_daemons(call.service)]


def _daemon(call: PageCall, daemon: Daemon) -> DaemonRow:
    """What other daemons say about themselves is up to one renewal old; for this one it is current."""
    is_this = daemon.sysid == call.service.control.sysid
    info = daemons.info_of(daemon)
    gauges, isolation, backlog_bytes = info.gauges, info.isolation, info.journal_backlog_bytes
    problems: Mapping[str, str] = {name[:40]: inert_text.line(text) for name, text in info.problems.items()}
    if is_this:
        health = call.service.control.health()
        gauges, problems, isolation = call.service.control.gauges(), health.problems, health.isolation
        backlog_bytes = figures.journal_backlog_bytes(call.service)
    return DaemonRow(
        sysid=daemon.sysid,
        host=inert_text.line(info.host, 60),
        role=info.role,
        version=info.version[:20],
        is_paused=daemon.paused or (is_this and call.service.control.is_paused),
        is_this=is_this,
        uptime_s=(call.now_ms - daemon.reserved_ms) / 1000,
        backlog_bytes=backlog_bytes,
        slots=gauges.get("slots", 0),
        slots_free=gauges.get("slots_free", 0),
        contexts=gauges.get("runner_contexts", 0),
        isolation=isolation,
        is_safe=isolation in _SAFE_LEVELS and "isolation" not in problems,
        runs_code=info.role != "api",
        languages=", ".join(info.languages or ()),
        problems=problems,
    )
