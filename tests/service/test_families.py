"""Children from inside, on a running daemon: a parent makes them, waits, and sees what became of them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.intake.job_options import PLAIN
from functory.operations.job_changes import retry_job
from functory.operations.jobs import get_job
from store.base import Code, JobRecord, JobState, NewJob, Tenant
from store.errors import Conflict, StoreUnavailable
from tests.support.service import ended, payloads_waiting, register, running_daemon
from tests.support.workers import ACME, Shop

ALBUM = """
if ctx.children:
    return {c["result"] or c["code"]: c["code"] for c in ctx.children}
for word in payload.split():
    ctx.enqueue("piece", word, child=True)
"""
PIECE = """
if payload == "bad":
    ctx.fail("not a picture")
if payload == "twins":
    ctx.enqueue("piece", "twin", sibling=True)
return payload.upper()
"""


async def submit(daemon: Daemon, jobtype: str, payload: str) -> str:
    (job_id,) = await daemon.intake.write(jobtype, [payload.encode()], PLAIN)
    return job_id


async def result_of(daemon: Daemon, job_id: str) -> Any:
    record = await ended(daemon, job_id)
    assert record.outcome is not None
    return json.loads(record.outcome.result or b"null")


async def children(daemon: Daemon, job_id: str) -> list[JobRecord]:
    page = await daemon.store.list_children("acme", job_id, now_ms=daemon.clock.now_ms(), max_bytes=1000)
    return list(page.records)


@pytest.mark.parametrize("straight", ["on", "off"])
async def test_a_parent_that_runs_again_sees_its_children(tmp_path: Path, straight: str) -> None:
    async with running_daemon(tmp_path, straight=straight) as daemon:
        await register(daemon, "acme-album", ALBUM)
        await register(daemon, "acme-piece", PIECE)
        parent = await submit(daemon, "acme-album", "one bad twins")
        assert await result_of(daemon, parent) == {
            '"ONE"': "ok",
            '"not a picture"': "failed",
            '"TWINS"': "ok",
            '"TWIN"': "ok",
        }
        assert len(await children(daemon, parent)) == 4


async def test_a_parent_carries_its_state_on_to_the_run_after_its_children(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        body = "if ctx.children: return [payload]\nctx.enqueue('piece', 'x', child=True); ctx.carry('seen ' + payload)"
        await register(daemon, "acme-album", body)
        await register(daemon, "acme-piece", PIECE)
        assert await result_of(daemon, await submit(daemon, "acme-album", "one")) == ["seen one"]
        await register(daemon, "acme-lone", "ctx.carry('nobody gets it'); return [payload]")
        lone = await ended(daemon, await submit(daemon, "acme-lone", "two"))
        assert lone.job.data == b"two"


async def test_children_of_a_run_that_fails_are_cancelled_and_seen_apart(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-album", "ctx.enqueue('piece', 'x', child=True); ctx.fail('no')")
        await register(daemon, "acme-piece", PIECE)
        parent = await submit(daemon, "acme-album", "x")
        await ended(daemon, parent)
        (child,) = await children(daemon, parent)
        assert child.outcome is not None
        assert (child.state, child.outcome.code) == (JobState.ARCHIVED, Code.CANCELLED)


async def test_children_of_a_run_that_asks_for_a_retry_wait_and_are_seen_by_the_next_attempt(tmp_path: Path) -> None:
    body = """
if not ctx.children:
    ctx.enqueue("piece", "x", child=True)
    ctx.retry(after_s=0)
if not ctx.children[0]["code"]:
    return "waiting for the piece"
return [child["code"] for child in ctx.children]
"""
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-album", body)
        await register(daemon, "acme-piece", PIECE)
        assert await result_of(daemon, await submit(daemon, "acme-album", "x")) == ["ok"]


async def test_new_jobs_with_options_go_through_the_journal(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-album", "ctx.enqueue('piece', 'x', delay_s=3600, priority=1000, domain='slow')")
        await ended(daemon, await submit(daemon, "acme-album", "x"))
        await daemon.intake.flush()
        (row,) = [
            row
            for row in await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
            if row.jobtype == "acme-piece"
        ]
        assert row.deferred == 1
        (job,) = await daemon.store.claim_jobs(
            "acme-piece", 1, owner="zz", lease_ms=1, now_ms=daemon.clock.now_ms() + 3_700_000
        )
        assert (job.data, job.priority, job.domain) == (b"x", 1000, "slow")


@pytest.mark.parametrize(
    ("body", "exitcode", "words"),
    [
        ("print('J: piece?colour=red|x')", 400, b"colour of a new job is not an option"),
        ("ctx.enqueue('piece', 'x', sibling=True)", 400, b"this job has no parent"),
        ("ctx.enqueue('piece', 'x', unique='a\\nb')", 400, b"unique name"),
        ("ctx.enqueue('piece', 'x', domain='a\\x01b')", 400, b"rate domain"),
        ("print('J: piece?key=%01|x')", 400, b"key"),
        ("[ctx.enqueue('piece', 'x', unique='u', child=child) for child in (True, False)]", 400, b"different parents"),
        ("ctx.enqueue('piece', 'x', unique='held')", 409, b"held"),
        ("[ctx.enqueue('piece', 'x', child=True) for _ in range(3)]", 429, b"jobs stored"),
    ],
)
async def test_what_cannot_be_made_is_the_end_of_that_job_and_none_of_its_jobs_is_made(
    tmp_path: Path, body: str, exitcode: int, words: bytes
) -> None:
    async with running_daemon(tmp_path) as daemon:
        now_ms = daemon.clock.now_ms()
        if exitcode == 429:
            limits = json.dumps({"max_jobs": 2})
            await daemon.store.create_tenant(Tenant("acme", now_ms, limits=limits))
            await daemon.executor.refresh_tenants()
        if exitcode == 409:
            await daemon.store.create_job(
                NewJob("holder", "acme-piece", b"", now_ms, now_ms, unique="held"), now_ms=now_ms
            )
            await daemon.store.claim_jobs("acme-piece", 1, owner="zz", lease_ms=60_000, now_ms=now_ms)
        body = f"print('begun')\nctx.enqueue('other', 'y', child=True)\n{body}"
        await register(daemon, "acme-album", body, on_failure="alarm")
        record = await ended(daemon, await submit(daemon, "acme-album", "x"))
        assert record.outcome is not None
        assert (record.outcome.log, record.outcome.handler_version, record.outcome.isolation) == (b"begun\n", 1, "L0")
        assert (record.outcome.code, record.outcome.exitcode) == (Code.FAILED, exitcode)
        assert words in (record.outcome.result or b"")
        rows = {row.jobtype: row for row in await daemon.store.get_counters("acme", now_ms=now_ms)}
        assert "acme-other" not in rows
        assert daemon.outbox.refused == 0
        assert await payloads_waiting(daemon, "acme-alarm") == [record.outcome.result]


async def test_new_jobs_are_not_doubled_when_the_end_is_written_again(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        store, calls = daemon.store, 0
        real = store.release_with_jobs

        async def written_but_not_answered(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            report = await real(*args, **kwargs)
            if calls == 1:
                raise StoreUnavailable("the answer was lost")
            return report

        object.__setattr__(store, "release_with_jobs", written_but_not_answered)
        await register(daemon, "acme-album", ALBUM)
        await register(daemon, "acme-piece", PIECE)
        parent = await submit(daemon, "acme-album", "one two")
        async with asyncio.timeout(20):
            assert await result_of(daemon, parent) == {'"ONE"': "ok", '"TWO"': "ok"}
        assert calls == 2
        assert len(await children(daemon, parent)) == 2


async def test_a_parent_with_very_many_and_large_results_is_told_in_bounds(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(
            daemon,
            "acme-album",
            ALBUM.replace(
                '{c["result"]', '{len(c["result"]): c["result_bytes"] for c in ctx.children}\n    return {c["result"]'
            ),
        )
        await register(daemon, "acme-piece", "return 'x' * 300_000")
        parent = await submit(daemon, "acme-album", "one two three")
        assert await result_of(daemon, parent) == {"65536": 300_002}


async def test_who_retries_a_parent_whose_children_are_still_being_cancelled_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.sqlite.queue.families.MAX_CHILDREN", 1)
    async with running_daemon(tmp_path, poll="1h") as daemon:
        shop = Shop(daemon)
        await shop.serve("album", "piece", body="")
        (parent,) = await shop.post("x", type_name="album")
        (job,) = await shop.take("album", wait_s=30)
        now_ms = daemon.clock.now_ms()
        for child in daemon.journal.take_ids(3):
            await daemon.store.create_job(
                NewJob(child, "acme-piece", b"x", now_ms, now_ms, parent=parent), now_ms=now_ms
            )
        await shop.report(job, 400)
        with pytest.raises(Conflict, match="its children are still being cancelled: try again in a moment"):
            await retry_job(service_of(daemon), ACME, parent)
        await daemon.store.expire_locks(now_ms=now_ms)
        await retry_job(service_of(daemon), ACME, parent)
        found = await get_job(service_of(daemon), "acme", parent)
        assert isinstance(found, JobRecord)
        assert found.state is JobState.WAITING
