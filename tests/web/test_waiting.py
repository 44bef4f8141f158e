"""What may come between two looks: a job that ends, the same request again, a key that ends."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from functory.execution.waiters import Waiters
from functory.operations.jobs import wait_for_job
from functory.operations.keys import create_key
from store.base import Archive, Code, Job, JobRecord, JobState, Outcome
from tests.support.pages import visitor
from tests.support.web import SYSID, Site

PATIENCE_S = 20.0


async def test_an_end_right_after_the_look_is_heard(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    waiters = Waiters(look_again_s=1000.0)  # it is told, or not at all
    service = replace(site.service, waiters=waiters)
    (job_id,) = await site.add("x")
    await site.intake.flush()
    (job,) = await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=30_000, now_ms=site.clock.now_ms())
    real = site.store.get_job

    async def look_and_then_it_ends(*args: Any, **more: Any) -> JobRecord | None:
        record = await real(*args, **more)
        monkeypatch.setattr(site.store, "get_job", real)
        await end(site, waiters, job)
        return record

    monkeypatch.setattr(site.store, "get_job", look_and_then_it_ends)
    async with asyncio.timeout(PATIENCE_S):
        found = await wait_for_job(service, "acme", job_id, 900.0)
    assert isinstance(found, JobRecord)
    assert found.state == JobState.ARCHIVED


async def end(site: Site, waiters: Waiters, job: Job) -> None:
    ended = Archive(job.id, job.token, Outcome(Code.OK, 200, 0))
    await site.store.release_jobs(SYSID, [ended], now_ms=site.clock.now_ms())
    waiters.released([(job, ended, ())])


async def test_a_repeated_child_is_one_child_of_its_parent(site: Site) -> None:
    (parent,) = await site.add("p")
    await site.intake.flush()
    await site.store.claim_jobs("acme-thumb", 1, owner=SYSID, lease_ms=30_000, now_ms=site.clock.now_ms())
    path = f"/acme/job/child/add?idempotency_key=k&parent={parent}"
    (child,) = await site.add("c", path=path)
    assert await site.add("c", path=path) == [child]
    record = await site.store.get_job("acme", parent, now_ms=site.clock.now_ms())
    assert record is not None
    assert (record.children, record.pending_children) == (1, 1)
    assert (await site.get(f"/acme/job/{child}")).json["parent"] == parent


async def test_a_session_ends_with_its_key(site: Site) -> None:
    _, site.keys["short"] = await create_key(site.service, "test", "acme", expires_s=60)
    async with visitor(site, "short") as short:
        assert (await short.get("/ui/t/acme")).status == 200
        site.clock.advance(61)
        assert (await short.get("/ui/t/acme")).status == 303, "to the sign-in"
