"""Numbers of jobs that are gone: not kept, or of a tenant that was deleted."""

import json
from collections.abc import Sequence

import pytest

from tests.support.bedrock import Bedrock, Session
from tests.support.service import register, until


async def test_jobs_that_are_gone_before_they_are_numbered_have_numbers(
    bedrock: Bedrock, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = bedrock.shop.daemon
    await register(daemon, "acme-stream", "return payload", keep="none")
    number_jobs = daemon.store.number_jobs

    async def late(tenant: str, job_ids: Sequence[str]) -> dict[str, int]:
        """Others were numbered before."""

        async def are_over() -> bool:
            return not await daemon.store.get_states(tenant, job_ids[1:], now_ms=daemon.clock.now_ms())

        await until(are_over)
        return await number_jobs(tenant, job_ids)

    monkeypatch.setattr(daemon.store, "number_jobs", late)
    jobs = [{"name": "kept"}, {"name": "stream"}, {"name": "stream"}]
    reply = await session.ask("CreateJobs", jobs=json.dumps(jobs))
    assert (reply.status, reply.json) == (200, {"jobIDs": [1, 2, 3]})
    assert (await session.ask("QueryJob", jobID=2)).status == 404
    assert (await session.ask("CreateJob", name="kept")).json == {"jobID": 4}
