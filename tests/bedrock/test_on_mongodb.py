"""Where MongoDB differs: of its numbers some may be left out."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.support.bedrock import Bedrock, Session
from tests.support.service import until
from tests.support.workers import waiting

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("bedrock", ["mongodb"], indirect=True)]


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
