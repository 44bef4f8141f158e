"""The same commands on MongoDB: those whose steps in the store differ from SQLite's."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.bedrock.test_commands import (  # noqa: F401 (collected here, on this module's store)
    test_a_job_with_a_unique_name_keeps_its_name,
    test_a_retry_comes_when_it_was_asked_for_with_its_data,
    test_a_retry_with_a_name_continues_the_job_under_that_name,
    test_all_jobs_or_none,
    test_cancel_only_what_does_not_run,
    test_children_run_when_their_parent_has_finished_and_it_sees_them_then,
    test_unique_gives_the_job_that_is_there_and_changes_its_data,
    test_who_lost_a_job_does_not_end_the_work_of_another,
)
from tests.bedrock.test_query import test_filters  # noqa: F401
from tests.bedrock.test_session import MOMENTS, SESSION, clock_at
from tests.support.bedrock import Bedrock, Session, open_bedrock
from tests.support.clocks import FakeClock
from tests.support.service import until
from tests.support.stores import mongo_database
from tests.support.workers import waiting

pytestmark = pytest.mark.slow


@pytest.fixture
async def bedrock(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Bedrock]:
    async with mongo_database(tmp_path) as url, open_bedrock(tmp_path, clock, store=url) as running:
        yield running


class TestSession:
    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock(clock_at(MOMENTS[0]))

    async def test_the_session_of_the_page_byte_by_byte(self, session: Session, clock: FakeClock) -> None:
        for (request, answer), moment in zip(SESSION, MOMENTS, strict=True):
            clock.advance((clock_at(moment) - clock.wall_ms) / 1000)
            session.send_bytes(request)
            assert await session.reader.readexactly(len(answer)) == answer, request


async def test_each_job_goes_to_exactly_one_of_many(bedrock: Bedrock, session: Session) -> None:
    await session.ask("CreateJob", name="x", firstRun="2035-01-01")
    async with AsyncExitStack() as stack:
        sessions = [await stack.enter_async_context(bedrock.session()) for _ in range(16)]
        for each in sessions:
            each.send("GetJob", name="x", Connection="wait", Timeout=60_000)
        await until(waiting(bedrock.shop, 16))
        for _ in range(16):
            session.send("CreateJob", name="x")
        replies = await asyncio.gather(*(each.reply() for each in sessions))
        numbers = {reply.json["jobID"] for reply in replies}
        assert len(numbers) == 16, "each to one; of MongoDB's numbers some may be left out"
        assert min(numbers) > 1
