"""What all back ends agree on when they claim jobs, and when those end."""

from collections.abc import Collection
from typing import Final

WINDOW: Final = 16
"""Lanes with a rate domain that a claim compares at a time, or beyond the jobs that it wants."""
NEXT_LANES: Final = 20
"""Lanes of a priority among which a claim looks for one that waits for a token."""
MOST_WOKEN: Final = 1000
"""Turns of keys whose time has come that one claim opens."""
TURN_WAIT_MS: Final = 1000
"""After this long a turn that is full is looked at again: the cap may have been changed, or a process died before it
opened the turn."""
OF_CLAIMS: Final = "\x01"
"""Before the name of a rate domain whose token turns wait for because claims named it, and no job: no domain begins so.
When claims name another, these turns do not wait any longer."""
OF_CLAIMS_END: Final = "\x02"
"""All such names are less."""
MAX_CHILDREN: Final = 1000
"""Whose state the end of a parent changes itself, because others wait for it: some 25 ms in a file. expire_locks does
the rest."""


def next_look_ms(lanes: Collection[tuple[int, int]], turns_ms: int | None, now_ms: int) -> int | None:
    """When to look again after a claim that took all that it saw. lanes: of those with a rate domain that come first,
    when each may run, and until when it waits for a token, or 0. turns_ms: when the first turn of a key opens that
    waits for one. None if nothing is known to wait for a token: then time alone may not help."""
    times_ms = [ready_ms for ready_ms, _ in lanes] + ([] if turns_ms is None else [turns_ms])
    soonest_ms = min(times_ms, default=None)
    if soonest_ms is None or soonest_ms <= now_ms:  # lanes or turns are left that this claim did not come to
        return None if soonest_ms is None else now_ms
    has_waits = turns_ms is not None or any(until_ms > now_ms for _, until_ms in lanes)
    return soonest_ms if has_waits else None
