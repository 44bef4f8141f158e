"""Failures of a tenant, grouped by kind of error, newest first."""

from typing import Final

from functory.errors import InvalidInput
from functory.operations import scoreboard
from functory.web.pages.board import Group
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Page, Pages
from store.values.scoreboard import DAY_MS, HOUR_MS, FailureGroup
from vocabulary.names import is_type, type_of

pages = Pages()

WINDOWS: Final = {"hour": HOUR_MS, "day": DAY_MS, "week": 7 * DAY_MS, "all": 60 * DAY_MS}
WINDOW_NAMES: Final = {"hour": "Last hour", "day": "Last day", "week": "Last week", "all": "All that is kept (60 days)"}
_MAX_GROUPS: Final = 100
_MAX_OF_TYPE: Final = 1000
"""As many kinds of error as are kept of a type."""


@pages.get("/ui/t/{tenant}/failures", scope="read", live="live/failures.html")
async def list_failures(call: PageCall) -> Page:
    window = call.query("window", "day")
    window = window if window in WINDOWS else "day"
    type_name = call.query("type")
    groups: list[FailureGroup] = []
    try:
        async with call.tools.web.listings.of(call.tenant):
            groups = await scoreboard.failures(
                call.service,
                call.tenant,
                named=type_name or None,
                since_ms=max(call.now_ms - WINDOWS[window], 0),
                limit=_MAX_GROUPS,
            )
    except InvalidInput as error:
        call.refusal = str(error)
    values = {
        "groups": [Group(type_of(it.jobtype), it) for it in groups],
        "is_full": len(groups) == _MAX_GROUPS,
        "window": window,
        "windows": WINDOW_NAMES,
        "type": type_name,
        "now_ms": call.now_ms,
    }
    return Page("failures.html", values, 422 if call.refusal else 200)


async def find_group(call: PageCall, type_name: str, fingerprint: str) -> Group | None:
    """A kind of error of a type, if it is still kept."""
    if not is_type(type_name) or not fingerprint:
        return None
    groups = await scoreboard.failures(call.service, call.tenant, named=type_name, since_ms=0, limit=_MAX_OF_TYPE)
    return next((Group(type_name, it) for it in groups if it.fingerprint == fingerprint), None)
