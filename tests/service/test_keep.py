"""A type that keeps no ended jobs: its jobs run and are counted, who waits gets the result, and nothing is left."""

import asyncio
from pathlib import Path

import pytest

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.errors import Missing
from functory.intake.job_options import PLAIN, JobOptions
from functory.operations.jobs import get_job, wait_for_job
from functory.workers.values import Answer
from store.base import JobRecord, NewJob, TypeCounters
from tests.support.service import register, running_daemon, until
from tests.support.workers import Shop


async def counted(daemon: Daemon, jobtype: str) -> TypeCounters | None:
    await daemon.intake.flush()
    rows = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
    return next((row for row in rows if row.jobtype == jobtype and row.ok + row.failed == 3), None)


@pytest.mark.parametrize("straight", ["on", "off"])
@pytest.mark.parametrize(("keep", "kept"), [("none", 0), ("failed", 1), ("all", 3)])
async def test_what_a_type_keeps(tmp_path: Path, straight: str, keep: str, kept: int) -> None:
    async with running_daemon(tmp_path, straight=straight) as daemon:
        await register(daemon, "acme-stream", "if payload == 'bad': ctx.fail('no')\nreturn 'x'", keep=keep)
        await daemon.intake.write("acme-stream", [b"a", b"bad", b"c"], PLAIN)

        async def look() -> TypeCounters | None:
            return await counted(daemon, "acme-stream")

        row = await until(look)
        assert (row.ok, row.failed, row.waiting, row.running) == (2, 1, 0, 0)
        assert (await daemon.store.get_usage("acme")).jobs == kept


@pytest.mark.parametrize("options", [PLAIN, JobOptions(priority=1000)], ids=["straight", "the long way"])
async def test_who_waits_for_a_job_that_is_not_kept_gets_its_result(tmp_path: Path, options: JobOptions) -> None:
    async with running_daemon(tmp_path) as daemon:
        gate = tmp_path / "gate"
        body = "import os, time\nwhile not os.path.exists(payload): time.sleep(0.01)\nreturn 'x'"
        await register(daemon, "acme-stream", body, keep="none")
        (job_id,) = await daemon.intake.write("acme-stream", [str(gate).encode()], options)
        waiting = asyncio.create_task(wait_for_job(service_of(daemon), "acme", job_id, 20.0))
        await asyncio.to_thread(gate.touch)
        found = await waiting
        assert isinstance(found, JobRecord)
        assert found.outcome is not None
        assert found.outcome.result == b'"x"'
        with pytest.raises(Missing):
            await get_job(service_of(daemon), "acme", job_id)


async def test_who_waits_for_a_job_of_a_worker_that_is_not_kept_gets_its_result(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        shop = Shop(daemon)
        await shop.serve("resize", body="", keep="none")
        (job_id,) = await shop.post("1")
        (job,) = await shop.take("resize", wait_s=30)
        waiting = asyncio.create_task(wait_for_job(shop.service, "acme", job_id, 20.0))
        assert await shop.report(job, result=b"x") is Answer.OK
        found = await waiting
        assert isinstance(found, JobRecord)
        assert found.outcome is not None
        assert found.outcome.result == b"x"
        with pytest.raises(Missing):
            await get_job(shop.service, "acme", job_id)


@pytest.mark.parametrize("lang", ["python", "worker"])
async def test_jobs_that_are_given_up_are_not_kept_either(tmp_path: Path, lang: str) -> None:
    """Their attempts were used up by a daemon, or a worker, that vanished."""
    async with running_daemon(tmp_path) as daemon:
        shop, now_ms = Shop(daemon), daemon.clock.now_ms()
        (id_,) = daemon.journal.take_ids(1)
        await daemon.store.add_jobs([NewJob(id_, "acme-stream", b"", now_ms, now_ms)], now_ms=now_ms)
        await daemon.store.claim_jobs("acme-stream", 1, owner="zz", lease_ms=1, now_ms=now_ms)
        await daemon.store.expire_locks(now_ms=now_ms + 1)
        await register(daemon, "acme-stream", "return 'x'", lang, keep="none", options={"max_attempts": 1})
        if lang == "worker":
            assert await shop.take("stream") == []

        async def is_gone() -> bool:
            return (await daemon.store.get_usage("acme")).jobs == 0

        await until(is_gone)
        (row,) = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
        assert (row.abandoned, row.ok) == (1, 0)


async def test_children_are_kept_for_their_parent(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        body = "if not ctx.children: ctx.enqueue('stream', 'x', child=True)\nreturn [c['result'] for c in ctx.children]"
        await register(daemon, "acme-album", body)
        await register(daemon, "acme-stream", "return 'x'", keep="none")
        (job_id,) = await daemon.intake.write("acme-album", [b"a"], PLAIN)
        found = await wait_for_job(service_of(daemon), "acme", job_id, 20.0, max_bytes=1000)
        assert isinstance(found, JobRecord)
        assert found.outcome is not None
        assert found.outcome.result == b'["\\"x\\""]'


@pytest.mark.parametrize("keep", ["none", "failed"])
async def test_what_a_parent_carries_on_is_its_payload_after_its_children(tmp_path: Path, keep: str) -> None:
    async with running_daemon(tmp_path) as daemon:
        body = "if ctx.children: return [payload]\nctx.enqueue('piece', 'x', child=True); ctx.carry('seen ' + payload)"
        await register(daemon, "acme-album", body, keep=keep)
        await register(daemon, "acme-piece", "return 'x'")
        (job_id,) = await daemon.intake.write("acme-album", [b"one"], PLAIN)
        found = await wait_for_job(service_of(daemon), "acme", job_id, 20.0, max_bytes=1000)
        assert isinstance(found, JobRecord)
        assert found.outcome is not None
        assert found.outcome.result == b'["seen one"]'
