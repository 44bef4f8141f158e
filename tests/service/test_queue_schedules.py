"""Schedules that a program adds when it starts: the same on both kinds of queue."""

import asyncio
from typing import Any

import pytest

from functory.queue import Conflict
from store.base import JobState
from tests.support.queue_places import Place
from vocabulary.zones import read_zones


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


async def test_a_schedule_may_be_said_again_while_it_runs(place: Place) -> None:
    """As a program does that is started anew in the middle of a round."""
    schedule: dict[str, Any] = {"unique": "news", "repeat": "FINISHED, +1 HOUR"}
    async with place.open() as queue:
        await queue.register("feed")
        ids = await queue.add("feed", "one", **schedule)
        job = await queue.next()
        assert await queue.add("feed", "one", **schedule) == ids
        for other in ({"repeat": "FINISHED, +2 HOUR"}, {"priority": 1000}):
            with pytest.raises(Conflict, match="is running"):
                await queue.add("feed", "one", **schedule | other)
        with pytest.raises(Conflict, match="is running"):
            await queue.add("feed", "two", **schedule)
        await job.done()
        assert await queue.add("feed", "two", **schedule) == ids


async def test_a_schedule_ends_with_its_next_round(place: Place) -> None:
    async with place.open() as queue:
        await queue.register("feed")
        (job_id,) = await queue.add("feed", "one", unique="news", repeat="FINISHED, +1 HOUR")
        assert await queue.add("feed", "one", unique="news", repeat="") == [job_id]
        await (await queue.next()).done()
        record = await place.record(job_id)
        assert record is not None
        assert record.state is JobState.ARCHIVED
