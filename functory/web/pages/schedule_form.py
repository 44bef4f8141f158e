"""A form that changes a schedule: its pattern, next round, priority and payload; and when it would run then."""

from hashlib import sha256
from typing import Any, Final, NamedTuple

from functory.errors import InvalidInput
from functory.operations import job_changes, jobs, schedules
from functory.operations.job_settings import parse_time_ms
from functory.web.pages import inert_text
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Go, Page, Pages
from functory.web.pages.post_job import NUMBERS, PRIORITIES
from scheduler.cron import is_cron
from store.base import JobRecord
from store.errors import Conflict

pages = Pages()

_TIMES: Final = 5


class Draft(NamedTuple):
    """What the form says, or the schedule as it is. payload is None where it cannot be edited as text."""

    repeat: str
    next_run: str
    priority: str
    payload: str | None


class Shown(NamedTuple):
    """What the form was made of: a round may have carried another payload on since, and somebody else may have changed
    the schedule. What the reader left as it was is not written."""

    repeat: str
    priority: str
    payload: str
    """Its digest; empty if it was not shown."""


@pages.get("/ui/t/{tenant}/job/{id}/schedule", scope="read")
async def show_form(call: PageCall) -> Page:
    found = await _found(call)
    now = _draft_of(found)
    draft, shown = (_typed(call, now), _shown(call, now)) if call.form else (now, _as_shown(now))
    values: dict[str, Any] = {
        "id": found.job.id,
        "name": inert_text.line(found.job.unique),
        "draft": draft,
        "shown": shown,
        "priorities": PRIORITIES,
        "is_paused": found.schedule.pause is not None,
        "times": [],
        "is_changed": bool(draft.next_run) or _as_shown(draft) != shown,
        "now_ms": call.now_ms,
    }
    try:
        values["times"] = _times(found, draft, call.now_ms)
    except InvalidInput as error:
        call.refusal = call.refusal or inert_text.sentence(str(error))
    return Page("schedule_form.html", values, 422 if call.refusal else 200)


@pages.post("/ui/t/{tenant}/job/{id}/schedule", scope="manage", form=show_form)
async def change(call: PageCall) -> Go | Page:
    if "look" in call.form:
        return await show_form(call)
    found = await _found(call)
    now = _draft_of(found)
    draft, shown = _typed(call, now), _shown(call, now)
    edit = job_changes.JobEdit(
        None if draft.payload is None or _digest(draft.payload) == shown.payload else _bytes(draft.payload),
        None if draft.priority == shown.priority else NUMBERS.get(draft.priority),
        None if draft.repeat == shown.repeat else draft.repeat,
        parse_time_ms(draft.next_run, "next_run") if draft.next_run else None,
    )
    if edit != job_changes.JobEdit():
        await job_changes.update_job(call.service, call.who, found.job.id, edit)
    return Go(f"{call.home}/job/{found.job.id}", "changed")


async def _found(call: PageCall) -> JobRecord:
    found = await jobs.get_job(call.service, call.tenant, call.params["id"], max_bytes=inert_text.MAX_BYTES)
    if not isinstance(found, JobRecord) or not found.job.repeat:
        raise Conflict("this job does not repeat, or it is still on its way into the store")
    return found


def _draft_of(found: JobRecord) -> Draft:
    payload = None
    if len(found.job.data) == found.data_bytes and b"\r" not in found.job.data:
        shown = inert_text.show(found.job.data)
        payload = None if shown.is_hex or shown.notes else found.job.data.decode()
    return Draft(found.job.repeat, "", str(found.job.priority), payload)


def _typed(call: PageCall, now: Draft) -> Draft:
    form = call.form
    return Draft(
        form.get("repeat", "").strip(),
        form.get("next_run", "").strip(),
        form.get("priority", now.priority),
        form.get("payload"),
    )


def _as_shown(draft: Draft) -> Shown:
    return Shown(draft.repeat, draft.priority, "" if draft.payload is None else _digest(draft.payload))


def _shown(call: PageCall, now: Draft) -> Shown:
    form, as_it_is = call.form, _as_shown(now)
    return Shown(
        form.get("shown_repeat", as_it_is.repeat),
        form.get("shown_priority", as_it_is.priority),
        form.get("shown_payload", as_it_is.payload),
    )


def _digest(payload: str) -> str:
    return sha256(_bytes(payload)).hexdigest()


def _bytes(payload: str) -> bytes:
    return payload.encode("utf-8", "replace")


def _times(found: JobRecord, draft: Draft, now_ms: int) -> list[int]:
    """When it would run. Raises InvalidInput."""
    said_ms = max(parse_time_ms(draft.next_run, "next_run"), now_ms) if draft.next_run else None
    if not draft.repeat:
        return schedules.coming_times(found, now_ms, 1) if said_ms is None else [said_ms]
    if said_ms is not None:
        return schedules.next_times(draft.repeat, now_ms, _TIMES, said_ms)
    if draft.repeat == found.job.repeat:
        return schedules.coming_times(found, now_ms, _TIMES)
    (planned_ms,) = schedules.coming_times(found, now_ms, 1)  # another distance leaves it where it is
    return schedules.next_times(draft.repeat, now_ms, _TIMES, None if is_cron(draft.repeat) else planned_ms)
