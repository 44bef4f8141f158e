"""The data that a job is ended or retried with, over a limit: the command is refused, and nothing is lost."""

import json

import pytest

from functory.operations.tenants import update_tenant
from functory.tenant_limits import TenantLimits
from tests.support.bedrock import Bedrock, Session
from tests.support.clocks import FakeClock


async def state_of(session: Session, number: int) -> str:
    return str((await session.ask("QueryJob", jobID=number)).json["state"])


@pytest.mark.parametrize("repeat", ["", "finished, +1 second"])
@pytest.mark.parametrize("command", ["RetryJob", "FinishJob", "FailJob"])
async def test_data_that_is_too_long_is_refused_and_the_job_runs_on(
    session: Session, clock: FakeClock, command: str, repeat: str
) -> None:
    await session.ask("CreateJob", name="x", repeat=repeat, data='{"n":1}')
    await session.ask("GetJob", name="x")
    reply = await session.ask(command, jobID=1, data=json.dumps({"n": "a" * (1 << 20)}))
    assert (reply.status, "bytes" in reply.reason) == (402, True)
    assert await state_of(session, 1) == "RUNNING"
    assert (await session.ask("RetryJob", jobID=1, data='{"n":2}')).status == 200
    clock.advance(2)
    assert (await session.ask("GetJob", name="x")).json["data"] == {"n": 2}


@pytest.mark.parametrize("repeat", ["", "finished, +1 second"])
@pytest.mark.parametrize("command", ["RetryJob", "FinishJob", "FailJob"])
async def test_data_over_a_quota_is_refused_and_the_job_runs_on(
    bedrock: Bedrock, session: Session, clock: FakeClock, command: str, repeat: str
) -> None:
    await update_tenant(bedrock.shop.service, "test", "acme", limits=TenantLimits(max_bytes=50_000))
    await session.ask("CreateJob", name="x", repeat=repeat, data='{"n":1}')
    await session.ask("GetJob", name="x")
    for size in (60_000, 30_000 if command != "RetryJob" else 60_000):  # the data, and with it the result
        reply = await session.ask(command, jobID=1, data=json.dumps({"n": "a" * size}))
        assert reply.status == 429
        assert await state_of(session, 1) == "RUNNING"
    fits = json.dumps({"n": "a" * 30_000})
    assert (await session.ask("RetryJob", jobID=1, data=fits)).status == 200, "it is counted once"
    clock.advance(2)
    assert json.dumps((await session.ask("GetJob", name="x")).json["data"]) == fits
