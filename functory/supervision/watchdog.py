"""The watchdog: tells the service manager that the daemon is alive while its loops make progress, and only then.

A daemon whose event loop runs while its work is stuck is not alive: it sends no ping, and the manager restarts it. A
store or disk that is away is no reason for that: the loops go on trying, and a restart would not help.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from functory.supervision.notifier import Notifier

log = logging.getLogger("functory.watchdog")

_STATUS_EVERY_S: Final = 5.0


async def keep_watch(
    notifier: Notifier, stalled: Callable[[float], list[str]], problems: Callable[[], Mapping[str, str]]
) -> None:
    """Run until cancelled. `stalled(s)` names the loops that have been in one step for longer than `s` seconds.

    A step may take half of the manager's interval, so a loop that is stuck is noticed after one and a half intervals.
    """
    watchdog_s = notifier.watchdog_s
    pause_s = _STATUS_EVERY_S if watchdog_s is None else min(_STATUS_EVERY_S, watchdog_s / 4)
    patience_s = None if watchdog_s is None else watchdog_s / 2
    was_stalled: list[str] = []
    while True:
        stuck = stalled(patience_s) if patience_s is not None else []
        if patience_s is not None and not stuck:
            notifier.alive()
        if stuck and stuck != was_stalled:
            log.error("watchdog.stalled", extra={"loops": ",".join(stuck), "longer_than_s": patience_s})
        was_stalled = stuck
        notifier.status(_status(stuck, problems()))
        await asyncio.sleep(pause_s)


def _status(stuck: list[str], problems: Mapping[str, str]) -> str:
    if "stopping" in problems:
        return "stopping"
    if stuck:
        return f"stalled: {', '.join(stuck)}"
    return f"running, with problems: {', '.join(sorted(problems))}" if problems else "running"
