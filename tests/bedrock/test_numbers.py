"""Numbers of jobs that are gone: not kept, or of a tenant that was deleted."""

import json
from collections.abc import Sequence

import pytest

from store.base import NewJob, Tenant
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


async def recreate(bedrock: Bedrock) -> str:
    """What another daemon does: the tenant is deleted, and there is a new one of its name. Returns its job 1."""
    store, now_ms = bedrock.shop.daemon.store, bedrock.shop.daemon.clock.now_ms()
    (job_id,) = bedrock.shop.daemon.journal.take_ids(1)
    while (await store.delete_tenant("acme")).more:
        pass
    await store.create_tenant(Tenant("acme", now_ms))
    await store.add_jobs([NewJob(job_id, "acme-y", b'{"n":2}', now_ms, now_ms)], now_ms=now_ms)
    assert await store.number_jobs("acme", [job_id]) == {job_id: 1}
    return job_id


async def test_a_number_is_that_of_the_tenant_that_has_the_name_now(bedrock: Bedrock, session: Session) -> None:
    assert (await session.ask("CreateJob", name="x", data='{"n":1}')).json == {"jobID": 1}
    await recreate(bedrock)
    reply = await session.ask("QueryJob", jobID=1)
    assert (reply.status, reply.json["name"], reply.json["data"]) == (200, "y", {"n": 2})
    assert (await session.ask("CancelJob", jobID=1)).status == 200


async def test_a_job_of_a_deleted_tenant_is_nobodys_parent(bedrock: Bedrock, session: Session) -> None:
    assert (await session.ask("CreateJob", name="x")).json == {"jobID": 1}
    job_id = await recreate(bedrock)
    store, now_ms = bedrock.shop.daemon.store, bedrock.shop.daemon.clock.now_ms()
    assert await store.claim_jobs("acme-y", 1, owner="test", lease_ms=60_000, now_ms=now_ms)
    reply = await session.ask("CreateJob", name="piece", parentJobID=1)
    assert (reply.status, reply.json) == (200, {"jobID": 2})
    page = await store.list_children("acme", job_id, now_ms=now_ms)
    assert len(page.records) == 1


async def test_a_job_that_is_gone_is_not_found(session: Session) -> None:
    await session.ask("CreateJob", name="x")
    assert (await session.ask("CancelJob", jobID=1)).status == 200
    assert (await session.ask("DeleteJob", jobID=1)).status == 200
    assert (await session.ask("QueryJob", jobID=1)).status == 404
