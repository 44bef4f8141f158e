"""The command line against the service: commands about many jobs that take more than one request."""

from collections.abc import Sequence
from typing import Any

import pytest

from store.base import Code
from tests.support.terminal import Terminal
from tests.support.web import T0, Site


async def test_replaying_all_keeps_to_the_rate_and_leaves_out_what_fails_again(
    site: Site, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await site.add(*(str(number) for number in range(7)))
    await site.run(10, Code.FAILED)
    replay_jobs = site.store.replay_jobs
    due: dict[int, str] = {}

    async def replay_and_fail(tenant: str, chosen: Sequence[str], *, dt_ms: int, now_ms: int) -> Any:
        due[dt_ms] = " ".join(chosen)
        replayed = await replay_jobs(tenant, chosen, dt_ms=dt_ms, now_ms=now_ms)
        site.clock.advance(0.01)
        await site.run(10, Code.FAILED)
        return replayed

    monkeypatch.setattr(site.store, "replay_jobs", replay_and_fail)
    words = ("replay", "--limit", "3", "--all", "--rate-per-s", "1")
    assert await terminal.run(*words) == "7 jobs queued again.\n"
    assert list(due) == [T0 + 1000 * number for number in range(7)]
    assert sorted(due.values()) == sorted(ids), "each of them once"
