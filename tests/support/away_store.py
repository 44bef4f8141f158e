"""A store that is away for a while, for one of its verbs."""

import asyncio
from typing import Any

import pytest

from functory.daemon.daemon import Daemon
from store.errors import StoreUnavailable


def fail_until(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, verb: str, back: asyncio.Event) -> list[int]:
    """Make a verb of the store unavailable until the event is set; what it returns counts the failures."""
    real = getattr(daemon.store, verb)
    failures: list[int] = []

    async def call(*args: Any, **kwargs: Any) -> Any:
        if not back.is_set():
            failures.append(1)
            raise StoreUnavailable("the store is away")
        return await real(*args, **kwargs)

    monkeypatch.setattr(daemon.store, verb, call)
    return failures
