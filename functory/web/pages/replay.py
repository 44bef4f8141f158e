"""Replay: choose ended jobs by a filter, see how many and which, queue them again at a rate, watch them end.

A run is kept as a note in the store, so that its progress is seen from any daemon, also after a restart.
"""

import secrets
from typing import Final

import msgspec

from functory.errors import InvalidInput, Missing
from functory.operations.replay import ReplayReport, replay
from functory.web.endpoint import check_type_name
from functory.web.pages.call import PageCall
from functory.web.pages.declare import Go, Page, Pages
from functory.web.pages.joblist import codes_of, line_of
from store.base import FINAL_CODES, Code, JobFilter, JobState
from store.values.scoreboard import DAY_MS, HOUR_MS

pages = Pages()

MAX_JOBS: Final = 10_000
_EXAMPLES: Final = 10
_LOOKED_AT: Final = 500
"""Failures since the run began that are looked through for jobs of the run."""
_RUN_KEPT_MS: Final = 7 * DAY_MS
AGES: Final = {"1h": HOUR_MS, "1d": DAY_MS, "7d": 7 * DAY_MS, "any": 0}
AGE_NAMES: Final = {"1h": "the last hour", "1d": "the last day", "7d": "the last week", "any": "any time"}
CHOICES: Final = ("failed", "abandoned", "cancelled", "ok")


class Choice(msgspec.Struct, frozen=True):
    """What the form says."""

    type: str
    codes: list[str]
    age: str
    limit: int
    rate_per_s: float | None

    def where(self, tenant: str, now_ms: int) -> JobFilter:
        since_ms = max(now_ms - AGES[self.age], 0) if AGES[self.age] else None
        jobtype = f"{tenant}-{self.type}" if self.type else None
        return JobFilter(JobState.ARCHIVED, jobtype, codes_of(",".join(self.codes)), since_ms)


class Run(msgspec.Struct, frozen=True):
    """A replay that was begun."""

    tenant: str
    began_ms: int
    last_due_ms: int
    ids: list[str]
    choice: Choice


@pages.get("/ui/t/{tenant}/replay", scope="read")
async def choose(call: PageCall) -> Page:
    """The form; with `look` also the count and examples of what it chooses. Nothing is changed."""
    choice = _choice(dict(call.request.query))
    values = {
        "choice": choice,
        "choices": CHOICES,
        "ages": AGE_NAMES,
        "max_jobs": MAX_JOBS,
        "looked": "look" in call.request.query,
        "found": 0,
        "has_more": False,
        "examples": [],
        "now_ms": call.now_ms,
    }
    if values["looked"]:
        where = choice.where(call.tenant, call.now_ms)
        report = await _replay(call, choice, where, dry_run=True)
        page = await call.service.store.list_jobs(call.tenant, where, now_ms=call.now_ms, limit=_EXAMPLES)
        values |= {
            "found": len(report.ids),
            "has_more": report.more,
            "examples": [line_of(record) for record in page.records],
        }
    return Page("replay.html", values)


@pages.post("/ui/t/{tenant}/replay", scope="manage")
async def begin(call: PageCall) -> Go:
    choice, now_ms = _choice(call.form), call.now_ms
    report = await _replay(call, choice, choice.where(call.tenant, now_ms), dry_run=False)
    if not report.replayed:
        return Go(f"{call.home}/replay", "nothing_to_replay")
    run = Run(call.tenant, now_ms, report.last_due_ms or now_ms, list(report.ids), choice)
    name = secrets.token_hex(8)
    await call.service.store.put_note(_key(name), msgspec.json.encode(run), expires_ms=now_ms + _RUN_KEPT_MS)
    return Go(f"{call.home}/replay/{name}", "replaying")


@pages.get("/ui/t/{tenant}/replay/{run}", scope="read", live="live/replay.html")
async def watch(call: PageCall) -> Page:
    run = await _find(call)
    states = await call.service.store.get_states(call.tenant, run.ids, now_ms=call.now_ms)
    counts = dict.fromkeys(JobState, 0)
    for state in states.values():
        counts[state] += 1
    gone = len(run.ids) - len(states)
    where = run.choice.where(call.tenant, call.now_ms)
    again = where._replace(codes=frozenset({Code.FAILED, Code.ABANDONED}), since_ms=run.began_ms)
    bad = await call.service.store.list_jobs(call.tenant, again, now_ms=call.now_ms, limit=_LOOKED_AT)
    mine = frozenset(run.ids)
    failed_again = [record for record in bad.records if record.job.id in mine]
    values = {
        "run": run,
        "total": len(run.ids),
        "ended": counts[JobState.ARCHIVED] + gone,
        "running": counts[JobState.RUNNING],
        "waiting": counts[JobState.WAITING],
        "deferred": counts[JobState.DEFERRED],
        "bad": [line_of(record) for record in failed_again[:_EXAMPLES]],
        "bad_count": len(failed_again),
        "bad_more": bad.cursor is not None,
        "now_ms": call.now_ms,
    }
    return Page("replay_run.html", values)


async def _find(call: PageCall) -> Run:
    name = call.params["run"]
    stored = await call.service.store.get_note(_key(name), now_ms=call.now_ms) if name.isalnum() else None
    run = msgspec.json.decode(stored, type=Run) if stored is not None else None
    if run is None or run.tenant != call.tenant:
        raise Missing("there is no such replay, or it was begun more than a week ago")
    return run


async def _replay(call: PageCall, choice: Choice, where: JobFilter, *, dry_run: bool) -> ReplayReport:
    return await replay(
        call.service,
        call.who.key_id,
        call.tenant,
        where,
        limit=choice.limit,
        rate_per_s=choice.rate_per_s,
        dry_run=dry_run,
    )


def _choice(given: dict[str, str]) -> Choice:
    """From a query or a form. Raises InvalidInput."""
    codes = [name for name in CHOICES if given.get(name) == "yes"]
    if not codes and "look" not in given and not any(name in given for name in CHOICES):
        codes = ["failed", "abandoned"]
    if not codes:
        raise InvalidInput("choose at least one outcome")
    age = given.get("age", "1d")
    if age not in AGES:
        raise InvalidInput("that time is not one of the choices")
    assert all(Code(name) in FINAL_CODES for name in codes)
    type_name = given.get("type", "").strip()
    limit, rate = given.get("limit", "") or "1000", given.get("rate_per_s", "").strip()
    try:
        wanted, rate_per_s = int(limit), float(rate) if rate else None
    except ValueError:
        raise InvalidInput("the number of jobs and the rate are numbers") from None
    if not 1 <= wanted <= MAX_JOBS or (rate_per_s is not None and not 0 < rate_per_s <= 10_000):
        raise InvalidInput(f"from 1 to {MAX_JOBS:,} jobs, at up to 10,000 a second")
    return Choice(check_type_name(type_name) if type_name else "", codes, age, wanted, rate_per_s)


def _key(name: str) -> str:
    return f"replay:{name[:32]}"
