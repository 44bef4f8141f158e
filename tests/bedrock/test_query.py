"""Query over the jobs of a tenant: filters, order, limits, and what is too much."""

import json

import pytest

from functory.bedrock import looking
from functory.loops.slices import Slices
from functory.operations.tenants import create_tenant
from functory.tenant_limits import TenantLimits
from store.base import NewJob
from tests.support.bedrock import Bedrock, Session, on_every_store


async def rows(session: Session, statement: str) -> object:
    reply = await session.ask("Query", query=statement)
    assert reply.status == 200, reply
    return reply.json


async def some(session: Session) -> None:
    """1 runs, 2 finished, 3 failed, 4 cancelled, 5 and 6 queued."""
    jobs = [{"name": name} for name in ("a", "b", "b", "b", "c", "a")]
    await session.ask("CreateJobs", jobs=json.dumps(jobs))
    await session.ask("GetJob", name="a")
    for command in ("FinishJob", "FailJob"):
        number = (await session.ask("GetJob", name="b")).json["jobID"]
        await session.ask(command, jobID=number)
    await session.ask("CancelJob", jobID=4)


FILTERS = {
    "": [1, 2, 3, 4, 5, 6],
    "where state = 'QUEUED'": [5, 6],
    "where state in ('FINISHED', 'FAILED')": [2, 3],
    "where state = 'CANCELLED'": [4],
    "where state != 'QUEUED' and name = 'b'": [2, 3, 4],
    "where state = 'RUNNING'": [1],
    "where state = 'RUNQUEUED'": [],
    "where state = 'queued'": [],
    "where name glob '[ac]' order by name desc": [5, 6, 1],
    "where jobID in (3, 5, 99, 0)": [3, 5],
    "where jobID > 2 limit 2": [3, 4],
    "where name = 'a b'": [],
    "order by jobID desc limit 3": [6, 5, 4],
    "limit 0": [],
}


@on_every_store
async def test_filters(session: Session) -> None:
    await some(session)
    for where, found in FILTERS.items():
        statement = "select jobID from jobs WHERE;".replace("WHERE", where)
        assert await rows(session, statement) == [[number] for number in found], where
        if "limit" not in where:
            assert await rows(session, statement.replace("jobID", "count(*)", 1)) == [[len(found)]], where


async def test_a_tenant_sees_its_own_jobs_only(bedrock: Bedrock, session: Session) -> None:
    await create_tenant(bedrock.shop.service, "test", "other", 1, TenantLimits())
    now_ms = bedrock.shop.daemon.clock.now_ms()
    foreign = NewJob("20270115T080000000Z-a1-000001", "other-x", b"{}", now_ms, now_ms)
    await bedrock.shop.daemon.store.create_job(foreign, now_ms=now_ms)
    assert await rows(session, "select * from jobs") == []


async def test_rows_are_compared_in_slices_that_count_the_patterns(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent: list[int] = []

    class Counted(Slices):
        async def spend(self, work: int) -> None:
            spent.append(work)
            await super().spend(work)

    monkeypatch.setattr(looking, "Slices", Counted)
    await some(session)
    pattern = "*b" * 100
    where = " and ".join([f"name glob '{pattern}'"] * 3)
    assert await rows(session, "select jobID from jobs where X".replace("X", where)) == []
    assert len(spent) == 6
    assert min(spent) > 3 * len(pattern)
    reply = await session.ask("Query", query="select jobID from jobs where name glob 'P'".replace("P", "*" * 3900))
    assert (reply.status, "at most 255 characters" in reply.reason) == (402, True)


async def test_too_much_is_refused_and_not_cut(
    bedrock: Bedrock, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bedrock.shop.serve("x")
    await bedrock.shop.post(*["{}"] * 30, type_name="x")
    monkeypatch.setattr(looking, "MOST_ROWS", 10)
    reply = await session.ask("Query", query="select * from jobs")
    assert (reply.status, "30 jobs match; add `limit`" in reply.reason) == (402, True)
    assert len((await session.ask("Query", query="select * from jobs limit 10")).json) == 10
    monkeypatch.setattr(looking, "MOST_BYTES", 10)
    reply = await session.ask("Query", query="select * from jobs limit 10")
    assert (reply.status, "longer than 10 bytes" in reply.reason) == (402, True)
    assert len((await session.ask("Query", query="select jobID from jobs limit 10")).json) == 10
    monkeypatch.setattr(looking, "MOST_LOOKED_AT", 20)
    reply = await session.ask("Query", query="select * from jobs limit 1")
    assert (reply.status, "more than 20 jobs to look at" in reply.reason) == (402, True)
