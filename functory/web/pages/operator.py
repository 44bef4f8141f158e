"""The operator's view of the whole service: tenants and their shares, queues, daemons, the audit log."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from functory.operations import pauses
from functory.operations.keyring import limits_of
from functory.web.pages import inert
from functory.web.pages.board import PAGE_ROWS
from functory.web.pages.call import PageCall
from functory.web.pages.declare import Go, Page, Pages
from functory.web.rendering import type_of
from functory.wire.admin import TenantLimits
from store.base import Daemon, EndedSum, Tenant, TypeCounters, Usage
from store.names import tenant_of
from store.values.scoreboard import HOUR_MS

pages = Pages()

_SAFE_LEVELS: Final = frozenset({"L2", "L3"})
_AUDIT_ROWS: Final = 100
_NOTHING: Final = EndedSum(0, 0, 0, 0, 0, 0, 0)


class TenantRow(NamedTuple):
    tenant: Tenant
    limits: TenantLimits
    usage: Usage
    waiting: int
    running: int
    ended: EndedSum
    share: float
    """Of the runner time of this hour and the one before."""
    fair_share: float
    """What its weight is of all weights."""


class QueueRow(NamedTuple):
    tenant: str
    type: str
    now: TypeCounters


class DaemonRow(NamedTuple):
    """A daemon as it last said of itself."""

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
    store, now_ms = call.service.store, call.now_ms
    needle = call.query("q")[:32]
    tenants = await store.list_tenants()
    chosen = [it for it in tenants if needle in it.name]
    start = call.number("from", 0, 0, 1_000_000)
    counters = await store.get_counters(None, now_ms=now_ms)
    waiting, running = Counter[str](), Counter[str]()
    for it in counters:
        tenant_name = tenant_of(it.jobtype)
        waiting[tenant_name] += it.waiting
        running[tenant_name] += it.running
    ended = _by_tenant(await _last_hours(call))
    runner_us = sum(it.runner_us for it in ended.values()) or 1
    weights = sum(it.weight for it in tenants) or 1
    rows = []
    for tenant in chosen[start : start + PAGE_ROWS]:
        used = ended.get(tenant.name, _NOTHING)
        rows.append(
            TenantRow(
                tenant,
                limits_of(tenant),
                await store.get_usage(tenant.name),
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
        "matching": len(chosen),
        "start": start,
        "page_rows": PAGE_ROWS,
        "waiting": waiting.total(),
        "running": running.total(),
        "runner_s": sum(it.runner_us for it in ended.values()) / 1e6,
        "suspended": sum(it.suspended for it in tenants),
        "daemons": await _daemons(call),
        "now_ms": now_ms,
    }
    return Page("operator.html", values)


@pages.get("/ui/operator/queues", scope="operator", live="live/queues.html")
async def list_queues(call: PageCall) -> Page:
    """Types of all tenants, those with most work first."""
    needle = call.query("q")[:160]
    rows = [
        QueueRow(tenant_of(it.jobtype), type_of(it.jobtype), it)
        for it in await call.service.store.get_counters(None, now_ms=call.now_ms)
        if needle.lower() in it.jobtype.lower()
    ]
    rows.sort(key=lambda row: (-row.now.waiting, -row.now.running, -row.now.deferred, row.now.jobtype))
    start = call.number("from", 0, 0, 1_000_000)
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
    return Page("daemons.html", {"daemons": await _daemons(call), "now_ms": call.now_ms})


@pages.post("/ui/operator/daemons/{sysid}/{order:pause|resume}", scope="operator")
async def pause_daemon(call: PageCall) -> Go:
    paused = call.params["order"] == "pause"
    await pauses.pause_daemon(call.service, call.who.key_id, call.params["sysid"], paused=paused)
    return Go("/ui/operator/daemons", "paused" if paused else "resumed")


@pages.get("/ui/operator/audit", scope="operator")
async def list_audit(call: PageCall) -> Page:
    tenant, cursor = call.query("tenant")[:32] or None, call.query("cursor") or None
    page = await call.service.store.list_audit(tenant=tenant, cursor=cursor, limit=_AUDIT_ROWS)
    values = {
        "events": [it._replace(detail=inert.line(it.detail)) for it in page.events],
        "next": page.cursor,
        "of_tenant": tenant or "",
        "is_first": cursor is None,
    }
    return Page("audit.html", values)


async def _last_hours(call: PageCall) -> dict[str, EndedSum]:
    now_ms = call.now_ms
    return await call.service.store.sum_by_type(
        None, width_ms=HOUR_MS, since_ms=(now_ms // HOUR_MS - 1) * HOUR_MS, until_ms=now_ms + 1
    )


def _by_tenant(sums: Mapping[str, EndedSum]) -> dict[str, EndedSum]:
    found: dict[str, EndedSum] = {}
    for jobtype, ended in sums.items():
        tenant = tenant_of(jobtype)
        before = found.get(tenant, _NOTHING)
        found[tenant] = EndedSum._make(one + other for one, other in zip(before, ended, strict=True))
    return found


async def _daemons(call: PageCall) -> list[DaemonRow]:
    found = await call.service.store.list_daemons(now_ms=call.now_ms)
    return [_daemon(call, it) for it in found]


def _daemon(call: PageCall, daemon: Daemon) -> DaemonRow:
    """What others say of themselves is up to a renewal old; of this one it is of now."""
    is_this = daemon.sysid == call.service.control.sysid
    info = _object(daemon.info)
    gauges = {name: it for name, it in _dict(info.get("gauges")).items() if isinstance(it, int | float)}
    isolation = str(info.get("isolation", ""))
    role = str(info.get("role", ""))
    problems = {str(name)[:40]: inert.line(str(text)) for name, text in _dict(info.get("problems")).items()}
    if is_this:
        health = call.service.control.health()
        gauges, problems, isolation = call.service.control.gauges(), health.problems, health.isolation
    languages = info.get("languages")
    return DaemonRow(
        sysid=daemon.sysid,
        host=inert.line(str(info.get("host", "")), 60),
        role=role,
        version=str(info.get("version", ""))[:20],
        is_paused=daemon.paused or (is_this and call.service.control.is_paused),
        is_this=is_this,
        uptime_s=(call.now_ms - daemon.reserved_ms) / 1000,
        backlog_bytes=call.service.journal.stats().backlog_bytes
        if is_this
        else _number(info.get("journal_backlog_bytes")),
        slots=gauges.get("slots", 0),
        slots_free=gauges.get("slots_free", 0),
        contexts=gauges.get("runner_contexts", 0),
        isolation=isolation,
        is_safe=isolation in _SAFE_LEVELS and "isolation" not in problems,
        runs_code=role != "api",
        languages=", ".join(str(it) for it in languages) if isinstance(languages, list) else "",
        problems=problems,
    )


def _object(text: str) -> dict[str, Any]:
    try:
        return _dict(json.loads(text or "{}"))
    except ValueError:
        return {}


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
