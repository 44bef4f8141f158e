"""Many jobs at once, chosen by a filter: cancel what is not over, delete what is. A dry run shows first how many and
which."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from functory.errors import InvalidInput
from functory.operations import bulk, jobs
from functory.operations.ages import AGES, ANY_AGE, span_until
from functory.operations.bulk import BulkReport
from functory.operations.type_patterns import check_named
from functory.web.pages.call import PageCall, whole_number
from functory.web.pages.declaration import Go, Page, Pages
from functory.web.pages.job_list import ENDINGS, STATES, line_of
from store.base import Code, JobFilter, JobState
from store.errors import InvalidValue

pages = Pages()

_EXAMPLES: Final = 10
_MOST_CANCELLED: Final = 1000
_MOST_DELETED: Final = 10_000


class _Deed(NamedTuple):
    name: str
    about: str
    legend: str
    choices: Mapping[str, str]
    """Of the boxes to check: the name of each, and its words."""
    has_age: bool
    warning: str
    done: str
    """The notice afterwards."""


_CANCEL: Final = _Deed(
    name="cancel",
    about="jobs that have not ended",
    legend="State",
    choices={state.value: STATES[state.value] for state in bulk.UNFINISHED},
    has_age=False,
    warning="Running ones are asked to stop, and are ended if they do not.",
    done="jobs_cancelled",
)
_DELETE: Final = _Deed(
    name="delete",
    about="all trace of jobs that ended",
    legend="Outcome",
    choices={name: name for name in ENDINGS},
    has_age=True,
    warning="Their payloads, results and logs are gone for good.",
    done="jobs_deleted",
)


class _Choice(NamedTuple):
    """type: or a pattern of types. failure and key may be empty, and type with one of these. age: a key of AGES. at_ms:
    when it was chosen; what was added or ended later is not meant."""

    type: str
    failure: str
    key: str
    boxes: list[str]
    age: str
    at_ms: int

    @property
    def where(self) -> JobFilter:
        """But for the type and the boxes."""
        return JobFilter(JobState.ARCHIVED, key=self.key or None, failure=self.failure or None)


@pages.get("/ui/t/{tenant}/cancel", scope="read")
async def choose_to_cancel(call: PageCall) -> Page:
    return await _choose(call, _CANCEL)


@pages.post("/ui/t/{tenant}/cancel", scope="manage", form=choose_to_cancel)
async def cancel(call: PageCall) -> Go:
    return await _do(call, _CANCEL)


@pages.get("/ui/t/{tenant}/delete", scope="read")
async def choose_to_delete(call: PageCall) -> Page:
    return await _choose(call, _DELETE)


@pages.post("/ui/t/{tenant}/delete", scope="manage", form=choose_to_delete)
async def delete(call: PageCall) -> Go:
    return await _do(call, _DELETE)


async def _choose(call: PageCall, deed: _Deed) -> Page:
    """The form; with `look` also the number and examples of the jobs that it chooses. Nothing is changed."""
    given = dict(call.form or call.request.query)
    values: dict[str, Any] = {
        "deed": deed,
        "typed": _typed(given, deed, call.now_ms),
        "ages": AGES,
        "looked": False,
        "now_ms": call.now_ms,
    }
    if "look" in given:
        try:
            choice = _read(given, deed, call.now_ms)
            values |= {"looked": True} | await _look(call, deed, choice)
        except (InvalidInput, InvalidValue) as error:
            call.refusal = call.refusal or str(error)
    return Page("bulk.html", values, 422 if call.refusal else 200)


async def _look(call: PageCall, deed: _Deed, choice: _Choice) -> dict[str, Any]:
    report = await _run(call, deed, choice, dry_run=True)
    examples = await jobs.get_lines(call.service, call.tenant, report.ids[:_EXAMPLES])
    return {
        "found": len(report.ids),
        "has_more": report.more,
        "schedules": report.schedules,
        "examples": [line_of(record) for record in examples],
    }


async def _do(call: PageCall, deed: _Deed) -> Go:
    """Afterwards the page shows what still matches: nothing, unless there was more than one call takes."""
    choice = _read(call.form, deed, call.now_ms)
    report = await _run(call, deed, choice, dry_run=False)
    named = {"type": choice.type, "failure": choice.failure, "key": choice.key}
    again = (
        {name: text for name, text in named.items() if text}
        | dict.fromkeys(choice.boxes, "yes")
        | {"age": choice.age, "look": "1"}
    )
    return Go(f"{call.home}/{deed.name}?{urlencode(again)}", deed.done if report.changed else "nothing_matched")


async def _run(call: PageCall, deed: _Deed, choice: _Choice, *, dry_run: bool) -> BulkReport:
    service, pattern = call.service, choice.type or None
    if deed is _CANCEL:
        states = [JobState(name) for name in choice.boxes]
        return await bulk.cancel_jobs(
            service,
            call.who,
            pattern,
            states,
            choice.where,
            limit=_MOST_CANCELLED,
            dry_run=dry_run,
            created_until_ms=choice.at_ms + 1,
        )
    since_ms, until_ms = span_until(choice.age, choice.at_ms)
    where = choice.where._replace(codes=frozenset(map(Code, choice.boxes)), since_ms=since_ms, until_ms=until_ms)
    return await bulk.delete_jobs(service, call.who, pattern, where, limit=_MOST_DELETED, dry_run=dry_run)


def _typed(given: Mapping[str, str], deed: _Deed, now_ms: int) -> _Choice:
    """The fields of the form, as they were typed; at first, every box is checked."""
    boxes = [name for name in deed.choices if given.get(name) == "yes"]
    if not boxes and "look" not in given:
        boxes = list(deed.choices)
    at_ms = min(whole_number(given.get("at_ms", "")) or now_ms, now_ms)
    type_name, failure, key = (given.get(name, "").strip() for name in ("type", "failure", "key"))
    return _Choice(type_name, failure, key, boxes, given.get("age", ANY_AGE), at_ms)


def _read(given: Mapping[str, str], deed: _Deed, now_ms: int) -> _Choice:
    """The choice in a query or form. Raises InvalidInput."""
    choice = _typed(given, deed, now_ms)
    if not choice.type and not choice.failure and not choice.key:
        raise InvalidInput("name a type, or a pattern such as mail*; all types are *")
    if not choice.boxes:
        raise InvalidInput(f"choose at least one {deed.legend.lower()}")
    if choice.age not in AGES:
        raise InvalidInput("that time is not one of the choices")
    if choice.type:
        check_named(choice.type)
    return choice
