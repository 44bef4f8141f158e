"""The signals that ask a service to stop, and what ties a daemon to the parent that started it among several."""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from typing import Final

from runner.sandbox.inner import kernel

_PARENT_VARIABLE: Final = "FUNCTORY_PARENT"


def when_asked_to_stop(stop: Callable[[], None]) -> None:
    """Call `stop` at each SIGTERM and SIGINT, and at a SIGHUP that comes before all of these: a terminal that is closed
    may send several, also after SIGTERM, while a second call of `stop` is a wish to hurry. `nohup` keeps SIGHUP
    away."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def ask() -> None:
        asked.set()
        stop()

    def hang_up() -> None:
        if not asked.is_set():
            ask()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, hang_up)


def as_parent() -> Mapping[str, str]:
    """Variables for the environment of a child that must not outlive this process."""
    return {_PARENT_VARIABLE: str(os.getpid())}


def stop_with_parent() -> None:
    """If a parent said so: its death is a SIGTERM for this process, also if it died before this call. A daemon that
    lived on would keep its journal and its port from the next start."""
    parent = os.environ.pop(_PARENT_VARIABLE, "")
    if parent:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGTERM)
        if str(os.getppid()) != parent:
            signal.raise_signal(signal.SIGTERM)
