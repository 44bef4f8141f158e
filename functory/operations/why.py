"""Why a job is not running: one reason for programs, one sentence for people, and the numbers behind it.

Checks everything that could stop a job, in the order in which it would, and returns the first that does.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final, NamedTuple

from functory.execution.handler_document import decode_handler
from functory.operations.consumers import find_consumer_of, leader_of
from functory.operations.daemons import info_of
from functory.operations.hosts import can_call_hosts
from functory.operations.jobs import Queued, get_job
from functory.operations.packages import packages_of
from functory.operations.run_message import run_message
from functory.operations.service import Service
from functory.wire.job_limits import attempts_text
from functory.workers.asked_types import AskedTypes
from functory.workers.unasked import JUST_NOW_MS
from functory.workers.values import OWNER, Delivery
from handlers.errors import HandlerError
from handlers.model import Handler
from runner.egress import needs_own_network
from runner.launch import Level
from runner.packages.source import State
from store.base import Daemon, Job, JobRecord, JobState, RateState, TypeCounters
from store.base import Handler as StoredHandler
from vocabulary.job_limits import limits_of
from vocabulary.names import WORKER, type_of
from vocabulary.rate_text import rate_text
from vocabulary.time_text import iso_time

_HOLDS: Final = {
    "type_cap": "its type already runs as many batches on this daemon as its limit allows",
    "tenant_cap": "the tenant already runs as many batches on this daemon as its limit allows",
    "tenant_share": "the tenant holds all the slots of this daemon that it may; the rest are kept for others",
    "long_work": "long jobs hold all slots of this daemon but the last, which is kept for short ones",
    "no_slot": "every slot of this daemon is busy",
}
"""The scheduler's reasons in words. For its other reasons, the place in the queue is the answer."""


_MOST_DAEMONS: Final = 10
"""That are named."""


class Reason(NamedTuple):
    state: str
    reason: str
    text: str
    detail: dict[str, Any]


async def why(service: Service, tenant: str, job_id: str) -> Reason:
    """Raises Missing."""
    job = await get_job(service, tenant, job_id)
    if isinstance(job, Queued):
        return Reason("queued", *_while_queued(service, job))
    reason, text, detail = (
        _by_pause(job)
        or _by_state(job, _worker_of(service, tenant, job))
        or await _by_consumer(service, job)
        or await _first(_obstacles(service, tenant, job))
    )
    return Reason(job.state.value, reason, text, detail)


def _worker_of(service: Service, tenant: str, record: JobRecord) -> str:
    """The name of the worker that holds it, if this daemon knows it."""
    return service.workers.holder(tenant, Delivery(record.job.id, record.job.token))


_Finding = tuple[str, str, dict[str, Any]]


def _while_queued(service: Service, job: Queued) -> _Finding:
    """A job that is to start without a detour through the store does not come there while it waits for room."""
    hold = service.control.hold(job.jobtype)
    if hold in _HOLDS:
        return hold, _HOLDS[hold], {"daemon": service.control.sysid}
    return "queued", "accepted and durable; the store has not taken it in yet", {}


def _by_pause(record: JobRecord) -> _Finding | None:
    pause = record.schedule.pause
    if pause is None or not record.is_on_hold:
        return None
    text = f"this schedule was paused at {iso_time(pause.since_ms)} by {pause.by}: it goes on when it is resumed"
    return "schedule_paused", text, {"since_ms": pause.since_ms, "by": pause.by}


def _by_state(record: JobRecord, worker: str) -> _Finding | None:  # noqa: PLR0911 (a table of states, one line each)
    """What the job's own state says; None when it is waiting, and something else must hold it. worker: the name of the
    one that holds it, if that is known."""
    job, outcome = record.job, record.outcome
    match record.state:
        case JobState.ARCHIVED:
            code = outcome.code.value if outcome else "ok"
            when = iso_time(record.done_ms)
            told = f": {message}" if (message := run_message(record)) else ""
            return "ended", f"it ended with {code} at {when}{told}", {"code": code, "done_ms": record.done_ms}
        case JobState.RUNNING if job.lock == OWNER:
            whose = f"worker {worker}" if worker else "a worker"
            text = f"{whose} has it, until {iso_time(job.dt_ms)} unless it renews its lease"
            return "running", text, {"lease_until_ms": job.dt_ms} | ({"worker": worker} if worker else {})
        case JobState.RUNNING:
            text = f"it has been running on daemon {job.lock} since {iso_time(record.claimed_ms)}"
            detail = {"daemon": job.lock, "lease_until_ms": job.dt_ms}
            return "running", text, detail | {"since_ms": record.claimed_ms}
        case JobState.LAPSED if job.lock == OWNER:
            text = "its worker has lost it: its lease ended, and it will be given to another in a moment"
            return "lease_lapsed", text, {}
        case JobState.LAPSED:
            text = f"daemon {job.lock} has lost it: its lease ended, and it will be given to another in a moment"
            return "lease_lapsed", text, {"daemon": job.lock}
        case JobState.PAUSED if record.pending_children:
            text = f"it waits for {record.pending_children} of its children to end"
            return "waits_for_children", text, {"pending_children": record.pending_children}
        case JobState.PAUSED if job.parent:
            return "waits_for_parent", f"it waits for its parent {job.parent} to end", {"parent": job.parent}
        case JobState.DEFERRED if outcome is not None and job.attempts:
            told = f": {outcome.message}" if outcome.message else ""
            most = limits_of(job.options).max_attempts
            which = attempts_text(job.attempts, most)
            text = f"attempt {which} ended with {outcome.code.value}{told}; the next is at {iso_time(job.dt_ms)}"
            detail = {"until_ms": job.dt_ms, "attempts": job.attempts, "code": outcome.code.value}
            detail |= {"message": outcome.message} | ({"max_attempts": most} if most else {})
            return "retry_backoff", text, detail
        case JobState.DEFERRED:
            told = f"repeats ({job.repeat}), and its next round is at" if job.repeat else "is deferred until"
            return "deferred", f"it {told} {iso_time(job.dt_ms)}", {"until_ms": job.dt_ms}
        case _:
            return None


async def _by_consumer(service: Service, record: JobRecord) -> _Finding | None:
    """What a job that is held waits for, if not for relatives."""
    if record.state is not JobState.PAUSED:
        return None
    consumer = await find_consumer_of(service, record.job.jobtype)
    if consumer is None:
        return "waits_for_consumer", "its type had a consumer: it enters the queue in a moment", {}
    leader = leader_of(consumer, service.now_ms())
    led = f"daemon {leader} leads it" if leader else "no daemon leads it now"
    state = led if consumer.is_running else "it is stopped"
    text = f"it waits until consumer {consumer.name} has come to index {record.job.seq}; {state}"
    return "waits_for_consumer", text, {"consumer": consumer.name, "index": record.job.seq, "leader": leader}


async def _first(findings: AsyncIterator[_Finding]) -> _Finding:
    async for finding in findings:
        return finding
    raise AssertionError("the last obstacle is the queue itself, which is always there")


async def _obstacles(service: Service, tenant: str, record: JobRecord) -> AsyncIterator[_Finding]:
    store, now_ms, jobtype = service.store, service.now_ms(), record.job.jobtype
    owner = await store.get_tenant(tenant)
    if owner is not None and owner.suspended:
        yield "tenant_suspended", "the operator has suspended the tenant", {}
    counters = await store.get_counters(tenant, now_ms=now_ms)
    mine = next((row for row in counters if row.jobtype == jobtype), None)
    if mine is not None and mine.paused:
        yield "type_paused", "its type is paused", {}
    async for finding in _about_runners(service, tenant, jobtype):
        yield finding
    domain = await _domain_of(service, tenant, record.job)
    rate = await store.find_rate(tenant, domain, now_ms=now_ms) if domain else None
    if rate is not None and rate.tokens < 1:
        yield _about_rate(domain, rate)
    if record.job.key and (waiting_for := await _about_key(service, tenant, record)) is not None:
        yield waiting_for
    hold = service.control.hold(jobtype)
    if hold in _HOLDS:
        yield hold, _HOLDS[hold], {"daemon": service.control.sysid}
    ahead = await store.get_position(tenant, record.job.id, now_ms=now_ms) or 0
    langs = {handler.jobtype: handler.lang for handler in await store.list_handlers(tenant)}
    is_external = langs.get(jobtype) == WORKER
    waiting = sum(row.waiting for row in counters if _competes(row, langs, is_external=is_external))
    whom = "a worker" if is_external else "a free runner"
    text = f"{ahead} jobs of its type are before it; {waiting} of the tenant's jobs wait for {whom}"
    if rate is None:
        yield "in_line", text, {"ahead": ahead, "waiting": waiting}
    else:  # there is a token in this moment, and what is before it may take that
        rate_per_s = rate.domain.rate_per_s
        text += f"; jobs of its rate domain {domain} start at {rate_text(rate_per_s)}"
        yield "in_line", text, {"ahead": ahead, "waiting": waiting, "domain": domain, "rate_per_s": rate_per_s}


def _competes(row: TypeCounters, langs: Mapping[str, str], *, is_external: bool) -> bool:
    """Whether jobs of a type could start now where a job waits: with a worker, or on a daemon. Those of a type that is
    paused, or has no handler, could not."""
    lang = langs.get(row.jobtype)
    return not row.paused and lang is not None and (lang == WORKER) == is_external


def _about_rate(domain: str, rate: RateState) -> _Finding:
    limit = rate.domain.domain
    text = f"rate domain {domain} has no token until {iso_time(rate.next_ms)}"
    if limit != domain:
        text += f": {limit} allows {rate_text(rate.domain.rate_per_s)} for each domain"
    return "rate_domain", text, {"domain": domain, "limit": limit, "until_ms": rate.next_ms}


async def _domain_of(service: Service, tenant: str, job: Job) -> str:
    """The rate domain whose tokens it takes: its own, or that of its handler."""
    if job.domain:
        return job.domain
    handler = await service.store.get_handler(tenant, job.jobtype)
    try:
        return "" if handler is None else decode_handler(handler.data).domain
    except HandlerError:  # of a newer version of this program
        return ""


async def _about_key(service: Service, tenant: str, record: JobRecord) -> _Finding | None:
    """Whether other jobs of its key keep a job from starting."""
    job = record.job
    handler = await service.store.get_handler(tenant, job.jobtype)
    try:
        cap = None if handler is None else decode_handler(handler.data).max_per_key
    except HandlerError:  # of a newer version of this program
        return None
    now_ms = service.now_ms()
    state = await service.store.get_key_state(tenant, job.jobtype, job.key, limit=cap or 1, now_ms=now_ms)
    retried = state.retried if cap == 1 else ""
    before = [*state.running, retried] if retried not in {"", job.id} else [*state.running]
    text = f"it waits for another job of its key {job.key}: "
    if cap is not None and len(before) >= cap:
        return "waits_for_key", text + before[0], {"key": job.key, "job": before[0], "max_per_key": cap}
    first = None if job.id in {retried, state.first} else await _without_token(service, tenant, state.first)
    if first is None:
        return None
    before_it, domain = first
    told = f"{text}{before_it.id}, whose rate domain {domain} has no token"
    return "waits_for_key", told, {"key": job.key, "job": before_it.id, "max_per_key": cap, "domain": domain}


async def _without_token(service: Service, tenant: str, job_id: str) -> tuple[Job, str] | None:
    """The job and its domain, if that is what keeps it from starting."""
    now_ms = service.now_ms()
    found = await service.store.get_job(tenant, job_id, now_ms=now_ms) if job_id else None
    domain = "" if found is None else await _domain_of(service, tenant, found.job)
    if found is None or not domain:
        return None
    rate = await service.store.find_rate(tenant, domain, now_ms=now_ms)
    return (found.job, domain) if rate is not None and rate.tokens < 1 else None


async def _about_runners(service: Service, tenant: str, jobtype: str) -> AsyncIterator[_Finding]:
    """What keeps those who could run jobs of the type from starting one."""
    handler = await service.store.get_handler(tenant, jobtype)
    if handler is None:
        yield "no_handler", "its type has no handler: register one", {}
        return
    try:
        document = decode_handler(handler.data)
    except HandlerError as error:
        yield _about_reading(service, handler.version, error)
        return
    if handler.lang == WORKER:
        async for finding in _about_workers(service, tenant, jobtype):
            yield finding
        return
    async for finding in _about_needs(service, tenant, document):
        yield finding
    async for finding in _about_packages(service, tenant, handler):
        yield finding
    for finding in _about_daemons(service, await service.store.list_daemons(now_ms=service.now_ms()), handler.lang):
        yield finding


def _about_reading(service: Service, version: int, error: HandlerError) -> _Finding:
    """A handler that is damaged, or of a newer version of this program: a daemon that can read it runs its jobs."""
    sysid = service.control.sysid
    text = (
        f"daemon {sysid} cannot read version {version} of its handler ({error}): update the daemons, or register the"
        " handler again"
    )
    return "handler_unreadable", text, {"version": version, "daemon": sysid}


async def _about_needs(service: Service, tenant: str, handler: Handler) -> AsyncIterator[_Finding]:
    """What keeps a handler from the secrets that it names, and from the hosts that it calls."""
    if handler.hosts and not await can_call_hosts(service):
        yield "hosts_unavailable", needs_own_network(Level[service.control.health().isolation]), {}
    names = handler.secrets
    if absent := await service.vault.missing(tenant, names):
        text = f"its handler needs the secret {absent[0]}, which is not set: set it, or take it out of the handler"
        yield "secret_missing", text, {"secrets": absent}
    if names and (reason := service.vault.why_locked(tenant, names)):
        text = f"the daemon that answers cannot open the secrets of its handler, and leaves it to others: {reason}"
        yield "secrets_locked", text, {"daemon": service.control.sysid}


async def _about_packages(service: Service, tenant: str, handler: StoredHandler) -> AsyncIterator[_Finding]:
    """What keeps the packages of a handler from being there, on the daemon that answers; and what others say."""
    packages = await packages_of(service, tenant, handler)
    if packages is None or packages.state is State.READY or handler.lang not in service.control.languages():
        return
    where = {"daemon": service.control.sysid, "state": packages.state.value}
    if packages.state is State.BUILDING:
        yield "packages_building", f"the packages of its handler are being installed: {packages.text}", where
    elif packages.state is State.FAILED or packages.text:
        others = await _packages_elsewhere(service, handler.lang)
        text = f"daemon {where['daemon']} cannot get the packages of its handler: {packages.text}"
        if able := [sysid for sysid, reason in others.items() if not reason]:
            text += f"; {' and '.join(f'daemon {sysid}' for sysid in able)} may have them, or can get them"
        elif others:
            text += "; nor can " + ", ".join(f"daemon {sysid} ({reason})" for sysid, reason in others.items())
        yield "packages_unavailable", text, where | {"others": others}


async def _packages_elsewhere(service: Service, lang: str) -> dict[str, str]:
    """The other daemons that run the language, and why they get no packages for it; "" if they do. Which trees they
    have is known to them alone."""
    daemons = await service.store.list_daemons(now_ms=service.now_ms())
    running = [it for it in daemons if it.sysid != service.control.sysid and can_run(service, it, lang)]
    return {it.sysid: info_of(it).no_packages.get(lang, "") for it in running[:_MOST_DAEMONS]}


async def _about_workers(service: Service, tenant: str, jobtype: str) -> AsyncIterator[_Finding]:
    """What keeps workers from taking jobs of the type."""
    now_ms = service.now_ms()
    workers = await AskedTypes(await service.workers.seen(tenant)).workers_of(type_of(jobtype))
    if not workers:
        text = (
            "workers take the jobs of its type, and there is none: none has asked for them in the last hour, or those"
            " that did have left"
        )
        yield "no_worker", text, {}
        return
    asked_ms = max(seen.asked_ms for seen in workers)
    if now_ms - asked_ms > JUST_NOW_MS:
        text = f"no worker has asked for {(now_ms - asked_ms) // 1000} s"
        yield "no_worker", text, {"asked_ms": asked_ms, "workers": [seen.name for seen in workers[:10]]}
    if service.control.is_paused:
        yield "daemon_paused", "the daemon that answers is paused, and hands out nothing", {}
    if service.workers.room(jobtype) <= 0:
        text = "workers hold as many jobs of the tenant, or of its type, as its limits allow"
        yield "tenant_cap", text, {"daemon": service.control.sysid}


def _about_daemons(service: Service, daemons: list[Daemon], lang: str) -> list[_Finding]:
    """What keeps all daemons from running the language. A daemon that does not say what it runs may run it."""
    if not daemons:
        return [("no_daemon", "no daemon is alive to run it", {})]
    able = [it for it in daemons if can_run(service, it, lang)]
    if not able:
        reasons = {it.sysid: reason for it in daemons if (reason := info_of(it).unable.get(lang))}
        told = "".join(f"; on daemon {sysid} no {lang} context starts: {reason}" for sysid, reason in reasons.items())
        return [("no_runner", f"no daemon can run {lang}{told}", {"lang": lang, "reasons": reasons})]
    own = service.control
    if all(it.paused or (it.sysid == own.sysid and own.is_paused) for it in able):
        return [("daemon_paused", f"every daemon that can run {lang} is paused", {"lang": lang})]
    return []


def can_run(service: Service, daemon: Daemon, lang: str) -> bool:
    """Whether a daemon says that it runs the language, or does not say what it runs."""
    return lang in (_languages(service, daemon) or {lang})


def _languages(service: Service, daemon: Daemon) -> frozenset[str]:
    """What a daemon says it can run; empty when it does not say."""
    if daemon.sysid == service.control.sysid:
        return service.control.languages() or frozenset({"-"})
    languages = info_of(daemon).languages
    return frozenset() if languages is None else frozenset(languages) or frozenset({"-"})
