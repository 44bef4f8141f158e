"""Replays that can be watched. Each is kept as a note in the store, so that any daemon can show its progress."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from functory.errors import Missing
from functory.intake.former_tenants import since_ms
from functory.operations.ages import span_until
from functory.operations.jobs import get_lines
from functory.operations.principal import Principal
from functory.operations.replay import ReplayReport, replay
from functory.operations.service import Service
from store.base import Code, JobFilter, JobRecord, JobState
from store.values.scoreboard import DAY_MS
from vocabulary.states import FAILED_CODES

_RUN_KEPT_MS: Final = 7 * DAY_MS
EXAMPLES: Final = 10
"""Jobs that are shown of many."""


class ReplayChoice(msgspec.Struct, frozen=True):
    """Which ended jobs to queue again, and how fast. type may be a pattern, or empty: all types. failure and
    key may be empty. age is a key of
    AGES."""

    type: str
    codes: list[str]
    age: str
    limit: int
    rate_per_s: float | None
    at_ms: int = 0
    """When it was chosen: what ended later is not meant."""
    failure: str = ""
    key: str = ""

    def where(self) -> JobFilter:
        """But for the type."""
        span = span_until(self.age, self.at_ms)
        codes = frozenset(map(Code, self.codes))
        return JobFilter(JobState.ARCHIVED, None, codes, *span, key=self.key or None, failure=self.failure or None)


class ReplayRun(msgspec.Struct, frozen=True):
    """A replay that was begun, as it stands in its note."""

    tenant: str
    began_ms: int
    last_due_ms: int
    ids: list[str]
    choice: ReplayChoice


class ReplayProgress(NamedTuple):
    run: ReplayRun
    counts: Mapping[JobState, int]
    purged: int
    """Jobs of the run that are no longer in the store."""
    failed_again: int
    examples: Sequence[JobRecord]
    """Some of those that failed again."""


async def preview_run(service: Service, who: Principal, choice: ReplayChoice) -> ReplayReport:
    """What the choice matches now. Nothing is changed. Raises InvalidInput."""
    return await _replay(service, who, choice, dry_run=True)


async def begin_run(service: Service, who: Principal, choice: ReplayChoice) -> str:
    """The name of the run; empty when nothing matched. Raises InvalidInput, QuotaExceeded."""
    now_ms = service.now_ms()
    report = await _replay(service, who, choice, dry_run=False)
    if not report.replayed:
        return ""
    run = ReplayRun(who.tenant, now_ms, report.last_due_ms or now_ms, list(report.ids), choice)
    name = secrets.token_hex(8)
    await service.store.put_note(_key(name), msgspec.json.encode(run), expires_ms=now_ms + _RUN_KEPT_MS)
    return name


async def watch_run(service: Service, who: Principal, name: str) -> ReplayProgress:
    """How far a run of the tenant has come. Raises Missing."""
    tenant, run = who.tenant, await _find(service, who, name)
    states = await service.store.get_states(tenant, run.ids, now_ms=service.now_ms())
    counts = dict.fromkeys(JobState, 0)
    for state in states.values():
        counts[state] += 1
    ended = [job_id for job_id, state in states.items() if state is JobState.ARCHIVED]
    codes = await service.store.get_codes(tenant, ended)
    bad = [job_id for job_id, code in codes.items() if code in FAILED_CODES]
    examples = await get_lines(service, tenant, bad[:EXAMPLES])
    return ReplayProgress(run, counts, len(run.ids) - len(states), len(bad), examples)


async def _find(service: Service, who: Principal, name: str) -> ReplayRun:
    """What another tenant of the name has begun is not found."""
    stored = await service.store.get_note(_key(name), now_ms=service.now_ms()) if name.isalnum() else None
    run = msgspec.json.decode(stored, type=ReplayRun) if stored is not None else None
    since = since_ms(who.tenant_since_ms, service.now_ms(), apart_ms=0)
    if run is None or run.tenant != who.tenant or run.began_ms < since:
        raise Missing("there is no such replay, or it was begun more than a week ago")
    return run


async def _replay(service: Service, who: Principal, choice: ReplayChoice, *, dry_run: bool) -> ReplayReport:
    return await replay(
        service,
        who,
        choice.where(),
        limit=choice.limit,
        rate_per_s=choice.rate_per_s,
        dry_run=dry_run,
        pattern=choice.type or None,
    )


def _key(name: str) -> str:
    return f"replay:{name[:32]}"
