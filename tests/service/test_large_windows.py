"""Windows as large as may be: neighbours wait neither for looks at them nor for what fails in them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from functory.consumers import led_consumer, look_pace
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from store.base import WindowMove, WindowReport
from tests.support.consumers import add, put, standing_at
from tests.support.polling import until
from tests.support.service import register, running_daemon

COUNT = 600
STEP = 20


def watch_replays(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many jobs each write of the consumers has queued again, as far as that has come."""
    sizes: list[int] = []
    replay = daemon.store.replay_jobs

    async def watched(tenant: str, job_ids: Sequence[str], **about: Any) -> tuple[str, ...]:
        sizes.append(len(job_ids))
        return await replay(tenant, job_ids, **about)

    monkeypatch.setattr(daemon.store, "replay_jobs", watched)
    return sizes


async def test_many_that_fail_are_tried_again_in_steps_and_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_daemon(tmp_path / "data", retry_base="2s", retry_max="2s") as daemon:
        monkeypatch.setattr(led_consumer, "STEP", STEP)
        flag = tmp_path / "mended"
        bad = f"import os\nif not os.path.exists({str(flag)!r}):\n    return 400, 'bad'\nreturn payload"
        sizes = watch_replays(daemon, monkeypatch)
        await register(daemon, "acme-block", bad)
        await put(service_of(daemon), max_processing=10_000, max_search_ahead=10_000)
        await add(daemon, [b"%d" % number for number in range(COUNT)])

        async def has_been_tried_again() -> bool:
            return sum(sizes) >= COUNT

        await until(has_been_tried_again)
        await asyncio.to_thread(flag.touch)
        standing = await standing_at(service_of(daemon), COUNT)
    assert standing.report.processed == COUNT
    assert max(sizes) <= STEP
    assert [record.message for record in caplog.records].count("consumer.blocked") == 1


async def test_looks_at_windows_of_a_tenant_keep_to_their_pace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_pace, "INDEXES_PER_S", 0.01)
    looks = polls = 0
    async with running_daemon(tmp_path, poll="10ms") as daemon:
        move_window, get_last_numbers = daemon.store.move_window, daemon.store.get_last_numbers

        async def counted_move(move: WindowMove, *, now_ms: int) -> WindowReport:
            nonlocal looks
            looks += move.after < move.released
            return await move_window(move, now_ms=now_ms)

        async def counted_poll(jobtypes: Sequence[str]) -> list[int]:
            nonlocal polls
            polls += bool(jobtypes)
            return await get_last_numbers(jobtypes)

        async def has_polled_often() -> bool:
            return polls >= 50

        monkeypatch.setattr(daemon.store, "move_window", counted_move)
        await register(daemon, "acme-block", "return ctx.retry(after_s=3600)")
        await put(service_of(daemon))
        await add(daemon, [b"%d" % number for number in range(10)])
        await until(lambda: in_work(daemon))
        monkeypatch.setattr(daemon.store, "get_last_numbers", counted_poll)
        await until(has_polled_often)
    assert looks <= 3, "the one that let them in, and what was looked at before the others had to wait"


async def in_work(daemon: Daemon) -> bool:
    report = await daemon.store.look_at_window("acme", "acme-block", after=0, until=0)
    return report.released == 10
