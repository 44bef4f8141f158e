"""Which of several saves of a handler wins, and how many versions are kept: rules that all stores share."""

from typing import Final

from store.errors import Conflict
from store.values.records import Handler

VERSIONS_KEPT: Final = 50
"""Of a jobtype: the newest, and the one in force."""


def check_still_wanted(current: Handler | None, after: int, asked_ms: int, *, exactly: bool) -> None:
    """Whether a save that was asked for at asked_ms, when version `after` was in force (0: none), may replace what is
    in force now. Raises Conflict if somebody wanted something else later: a save takes as long as its packages.
    exactly: it was made from that version, and replaces no other."""
    if current is None and after:
        raise Conflict("the handler was deleted while this one was being saved: save it again if it is still wanted")
    if current is None or current.version == after:
        return
    if exactly:
        raise Conflict(f"the handler was changed meanwhile: version {current.version} is in force")
    if current.created_ms > asked_ms:
        raise Conflict(
            f"version {current.version}, which was asked for after this one, was put in force while this one was being"
            " saved: save it again if it should replace that"
        )
