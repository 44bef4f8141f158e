"""Replay: choose ended jobs by a filter, see how many and which, queue them again at a rate, watch them end."""

from typing import Any, Final

import msgspec

from functory.errors import InvalidInput
from functory.operations import jobs
from functory.operations.ages import AGES
from functory.operations.replay_runs import EXAMPLES, ReplayChoice, begin_run, preview_run, watch_run
from functory.operations.type_patterns import check_named
from functory.web.pages.call import PageCall, whole_number
from functory.web.pages.declaration import Go, Page, Pages
from functory.web.pages.job_list import ENDINGS, line_of
from store.base import JobState
from store.errors import InvalidValue

pages = Pages()

MAX_JOBS: Final = 10_000


@pages.get("/ui/t/{tenant}/replay", scope="read")
async def choose(call: PageCall) -> Page:
    """The form; with `look` also the number and examples of the jobs that it chooses. Nothing is changed."""
    given = dict(call.form or call.request.query)
    choice = None
    try:
        choice = _choice(given, call.now_ms)
    except InvalidInput as error:
        call.refusal = call.refusal or str(error)
    values: dict[str, Any] = {
        "typed": _typed(given, choice),
        "choice": choice,
        "choices": ENDINGS,
        "ages": AGES,
        "max_jobs": MAX_JOBS,
        "looked": choice is not None and "look" in given,
        "found": 0,
        "has_more": False,
        "schedules": 0,
        "examples": [],
        "now_ms": call.now_ms,
    }
    if choice is not None and values["looked"]:
        try:
            values |= await _look(call, choice)
        except (InvalidInput, InvalidValue) as error:
            call.refusal = call.refusal or str(error)
    return Page("replay.html", values, 422 if call.refusal else 200)


async def _look(call: PageCall, choice: ReplayChoice) -> dict[str, Any]:
    report = await preview_run(call.service, call.who, choice)
    examples = await jobs.get_lines(call.service, call.tenant, report.ids[:EXAMPLES])
    return {
        "found": len(report.ids),
        "has_more": report.more,
        "schedules": report.schedules,
        "examples": [line_of(record) for record in examples],
    }


@pages.post("/ui/t/{tenant}/replay", scope="manage", form=choose)
async def begin(call: PageCall) -> Go:
    name = await begin_run(call.service, call.who, _choice(call.form, call.now_ms))
    if not name:
        return Go(f"{call.home}/replay", "nothing_to_replay")
    return Go(f"{call.home}/replay/{name}", "replaying")


@pages.get("/ui/t/{tenant}/replay/{run}", scope="read", live="live/replay.html")
async def watch(call: PageCall) -> Page:
    seen = await watch_run(call.service, call.who, call.params["run"])
    counts = seen.counts
    values = {
        "run": seen.run,
        "total": len(seen.run.ids),
        "ended": counts[JobState.ARCHIVED] + seen.purged,
        "running": counts[JobState.RUNNING],
        "waiting": counts[JobState.WAITING],
        "deferred": counts[JobState.DEFERRED],
        "purged": seen.purged,
        "bad": [line_of(record) for record in seen.examples],
        "bad_count": seen.failed_again,
        "now_ms": call.now_ms,
    }
    return Page("replay_run.html", values)


def _typed(given: dict[str, str], choice: ReplayChoice | None) -> dict[str, object]:
    """The fields of the form: as they were typed if that is refused."""
    if choice is None:
        fields = {name: given.get(name, "") for name in ("type", "failure", "key", "age", "limit", "rate_per_s")}
        return {**fields, "codes": [name for name in ENDINGS if given.get(name) == "yes"]}
    rate = f"{choice.rate_per_s:g}" if choice.rate_per_s else ""
    return {**msgspec.structs.asdict(choice), "rate_per_s": rate}


def _choice(given: dict[str, str], now_ms: int) -> ReplayChoice:
    """The choice in a query, made now, or in a form, made when it was looked at. Raises InvalidInput."""
    codes = [name for name in ENDINGS if given.get(name) == "yes"]
    if not codes and "look" not in given and not any(name in given for name in ENDINGS):
        codes = ["failed", "abandoned"]
    if not codes:
        raise InvalidInput("choose at least one outcome")
    age = given.get("age", "1d")
    if age not in AGES:
        raise InvalidInput("that time is not one of the choices")
    type_name, failure, key = (given.get(name, "").strip() for name in ("type", "failure", "key"))
    limit, rate = given.get("limit", "") or "1000", given.get("rate_per_s", "").strip()
    try:
        wanted, rate_per_s = int(limit), float(rate) if rate else None
    except ValueError:
        raise InvalidInput("the number of jobs and the rate are numbers") from None
    if not 1 <= wanted <= MAX_JOBS or (rate_per_s is not None and not 0 < rate_per_s <= 10_000):
        raise InvalidInput(f"from 1 to {MAX_JOBS:,} jobs, at up to 10,000 a second")
    at_ms = min(whole_number(given.get("at_ms", "")) or now_ms, now_ms)
    if type_name:
        check_named(type_name)
    return ReplayChoice(type_name, codes, age, wanted, rate_per_s, at_ms, failure, key)
