"""The command line against the service: commands about many jobs that take more than one request."""

from collections.abc import Sequence
from typing import Any

import pytest

from store.base import Code, JobState
from tests.support.terminal import Terminal
from tests.support.web import T0, Site


async def test_replaying_all_goes_on_after_jobs_whose_name_is_taken(site: Site, terminal: Terminal) -> None:
    ids = await site.add("1", "2", "3")
    await site.run(10, Code.FAILED)
    for number in range(4):
        site.clock.advance(1)
        delay_s = 1000 if number == 3 else 0
        await site.post("/acme/job/thumb/add", json={"payload": "u", "unique": "taken", "delay_s": delay_s})
        await site.run(10, Code.FAILED)
    assert "0 jobs queued again. More match: use --all" in await terminal.run("replay", "--limit", "2")
    assert await terminal.run("replay", "--limit", "2", "--all") == "3 jobs queued again.\n"
    states = await site.store.get_states("acme", ids, now_ms=site.clock.now_ms())
    assert set(states.values()) == {JobState.WAITING}


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
