"""Jobs of one type on the straight way: a daemon that is ready for them, and what it asks of the store meanwhile."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from functory.daemon.daemon import Daemon
from tests.support.service import register, until

SLOW = "import time; time.sleep(0.5); return payload"


class Calls:
    """Counts the store's verbs."""

    def __init__(self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, *verbs: str) -> None:
        self.of: Counter[str] = Counter()
        for verb in verbs:
            self._count(daemon, monkeypatch, verb)

    def _count(self, daemon: Daemon, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
        work = getattr(daemon.store, verb)

        async def call(*args: Any, **more: Any) -> Any:
            if verb != "add_jobs" or args[0]:
                self.of[verb] += 1
            return await work(*args, **more)

        monkeypatch.setattr(daemon.store, verb, call)


async def ready(daemon: Daemon, body: str = "return payload") -> None:
    """With a handler, and a look that saw that nothing waits."""
    await register(daemon, "acme-x", body)
    await until(lambda: looked(daemon))


def until_there_is(gate: Path) -> str:
    """A handler's body: it runs until that file is there."""
    return f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.01)"


async def looked(daemon: Daemon) -> bool:
    return daemon.executor.is_clear("acme-x")


async def added(calls: Calls) -> int:
    return calls.of["add_jobs"]


async def has_left(daemon: Daemon, job_id: str) -> bool:
    return not daemon.straight.is_here(job_id)
