"""A program with several connections: it takes jobs over one and ends them over another."""

from collections.abc import AsyncIterator

import pytest

from tests.support.bedrock import Bedrock, Session
from tests.support.clocks import FakeClock


@pytest.fixture
async def other(bedrock: Bedrock) -> AsyncIterator[Session]:
    async with bedrock.session() as opened:
        yield opened


@pytest.mark.parametrize("over_the_same", [True, False])
async def test_a_job_that_was_retried_is_ended_over_any_connection(
    session: Session, other: Session, over_the_same: bool
) -> None:
    await session.ask("CreateJob", name="x")
    await session.ask("GetJob", name="x")
    assert (await (session if over_the_same else other).ask("RetryJob", jobID=1, name="x")).status == 200
    assert (await other.ask("GetJob", name="x")).status == 200
    assert (await session.ask("UpdateJob", jobID=1, data="{}")).status == 200
    assert (await session.ask("FinishJob", jobID=1)).status == 200


@pytest.mark.parametrize("over_the_same", [True, False])
async def test_a_job_of_another_type_now_is_not_ended_over_the_connection_that_took_it_before(
    session: Session, other: Session, over_the_same: bool
) -> None:
    await session.ask("CreateJob", name="x")
    await session.ask("GetJob", name="x")
    assert (await (session if over_the_same else other).ask("RetryJob", jobID=1, name="y")).status == 200
    assert (await other.ask("GetJob", name="y")).status == 200
    for command in ("UpdateJob", "FinishJob", "FailJob", "RetryJob"):
        assert (await session.ask(command, jobID=1, data="{}")).status == 405, "it is another worker's now"
    assert (await other.ask("FinishJob", jobID=1)).status == 200


async def test_a_parent_that_runs_again_is_ended_over_any_connection(session: Session, other: Session) -> None:
    await session.ask("CreateJob", name="x")
    await session.ask("GetJob", name="x")
    await other.ask("CreateJob", name="child", parentJobID=1)
    assert (await other.ask("FinishJob", jobID=1)).status == 200
    await session.ask("GetJob", name="child")
    assert (await other.ask("FinishJob", jobID=2)).status == 200
    assert (await other.ask("GetJob", name="x")).status == 200
    assert (await session.ask("FinishJob", jobID=1)).status == 200


async def test_the_next_round_is_ended_over_any_connection(session: Session, other: Session, clock: FakeClock) -> None:
    await session.ask("CreateJob", name="x", repeat="finished, +1 second")
    await session.ask("GetJob", name="x")
    assert (await other.ask("FinishJob", jobID=1)).status == 200
    clock.advance(2)
    assert (await other.ask("GetJob", name="x")).status == 200
    assert (await session.ask("FinishJob", jobID=1)).status == 200


async def test_a_worker_that_lost_its_job_does_not_end_the_work_of_another(
    session: Session, other: Session, clock: FakeClock
) -> None:
    await session.ask("CreateJob", name="x", retryAfter="+1 second")
    await session.ask("GetJob", name="x")
    clock.advance(2)
    assert (await other.ask("GetJob", name="x", connection="wait", timeout=60_000)).status == 200
    assert (await session.ask("FinishJob", jobID=1)).status == 405
    assert (await session.ask("FinishJob", jobID=1)).status == 405
    assert (await other.ask("FinishJob", jobID=1)).status == 200
