"""Schedules that a program adds when it starts: the same on both kinds of queue."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.queue_places import KINDS, Place, open_place
from vocabulary.zones import read_zones


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    async with open_place(request.param, tmp_path) as opened:
        yield opened


async def test_a_schedule_that_is_added_again_is_changed(place: Place) -> None:
    await asyncio.to_thread(read_zones)  # as a daemon does a little after its start
    async with place.open() as queue:
        await queue.register("feed")
        (job_id,) = await queue.add("feed", "one", unique="news", repeat="0 9 * * MON-FRI")
        record = await place.record(job_id)
        assert record is not None
        assert record.job.dt_ms > place.now_ms()
        assert await queue.add("feed", "one", unique="news", repeat="FINISHED, +1 HOUR", delay_s=0) == [job_id]
        record = await place.record(job_id)
        assert record is not None
        assert record.job.repeat == "FINISHED, +1 HOUR"
        assert (await queue.next()).id == job_id
