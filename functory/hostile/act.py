"""An act of a hostile tenant: what it does, and how it went."""

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from functory.hostile.arena import Arena
from functory.hostile.watch import Seen

MAX_HEALTH_WAIT_S: Final = 1.0
MAX_VICTIM_WAIT_S: Final = 5.0
MAX_DAEMON_BYTES: Final = 300 << 20
"""By the clock of a machine that may be busy with other things, so generous; the figures are shown."""


class Through(Exception):
    """The act did what it should not have been able to do."""


Act = Callable[[Arena], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Verdict:
    act: str
    about: str
    held: bool
    detail: str
    seen: Seen


async def perform(act: Act, arena: Arena) -> Verdict:
    """Run it beside a victim. Ensures: whatever the act did, the hostile tenant is gone afterwards."""
    name, about = act.__name__, (inspect.getdoc(act) or "").partition("\n")[0]
    async with arena.hostile_tenant(), arena.watched() as watch:
        held, detail = True, ""
        try:
            detail = await act(arena)
        except Through as through:
            held, detail = False, str(through)
        await watch.look_once_more()
    seen = watch.seen
    complaint = _complaint(seen)
    return Verdict(name, about, held and not complaint, "; ".join(filter(None, (detail, complaint))), seen)


def _complaint(seen: Seen) -> str:
    """What the others noticed, beyond what they may."""
    if seen.trouble:
        return seen.trouble
    if seen.health_wait_s > MAX_HEALTH_WAIT_S:
        return f"the daemon did not answer for {seen.health_wait_s:.1f} s"
    if seen.victim_wait_s > MAX_VICTIM_WAIT_S:
        return f"a job of another tenant took {seen.victim_wait_s:.1f} s"
    if seen.daemon_bytes > MAX_DAEMON_BYTES:
        return f"the daemon grew to {seen.daemon_bytes >> 20} MB"
    return ""
