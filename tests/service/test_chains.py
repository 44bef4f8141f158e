"""Chaining by option on a running daemon."""

import json
from pathlib import Path

import pytest

from functory.daemon.daemon import Daemon
from functory.intake.job_options import PLAIN
from store.base import Code, JobFilter, JobRecord, JobState, Tenant
from tests.support.service import ended, payloads_waiting, register, running_daemon, until


async def last_of(daemon: Daemon, jobtype: str, count: int = 1) -> list[JobRecord]:
    """The ended jobs of a type, once there are so many."""

    async def look() -> list[JobRecord]:
        page = await daemon.store.list_jobs(
            "acme", JobFilter(JobState.ARCHIVED, jobtype), now_ms=daemon.clock.now_ms(), limit=1000
        )
        whole = [
            await daemon.store.get_job("acme", record.job.id, now_ms=daemon.clock.now_ms()) for record in page.records
        ]
        return [record for record in whole if record is not None] if len(whole) >= count else []

    return await until(look)


async def submit(daemon: Daemon, jobtype: str, payload: str) -> str:
    (job_id,) = await daemon.intake.write(jobtype, [payload.encode()], PLAIN)
    return job_id


async def test_a_result_becomes_the_payload_of_the_next_type(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-double", "return str(int(payload) * 2)", then="add", on_failure="alarm")
        await register(daemon, "acme-add", "return [payload]")
        await register(daemon, "acme-alarm", "return 'seen'")
        await submit(daemon, "acme-double", "20")
        (last,) = await last_of(daemon, "acme-add")
        assert last.job.data == b'"40"'
        assert last.outcome is not None
        assert last.outcome.result == b'["\\"40\\""]'
        await register(daemon, "acme-double", "ctx.fail('no number')", then="add", on_failure="alarm")
        await submit(daemon, "acme-double", "x")
        (alarm,) = await last_of(daemon, "acme-alarm")
        assert alarm.job.data == b'"no number"'


async def test_a_parent_passes_its_last_result_on(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        body = "if not ctx.children: ctx.enqueue('piece', payload, child=True)\nreturn [len(ctx.children)]"
        await register(daemon, "acme-album", body, then="done")
        await register(daemon, "acme-piece", "return 'x'")
        await register(daemon, "acme-done", "return payload")
        await submit(daemon, "acme-album", "x")
        (done,) = await last_of(daemon, "acme-done")
        assert done.job.data == b"[1]", "once, and after its children"


async def test_types_that_lead_back_to_each_other_come_to_an_end(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-ping", "pass", then="pong", on_failure="alarm")
        await register(daemon, "acme-pong", "pass", then="ping")
        await submit(daemon, "acme-ping", "x")
        pings = await last_of(daemon, "acme-ping", 51)
        assert [record.outcome.code for record in pings if record.outcome].count(Code.FAILED) == 1
        (stopped,) = [record for record in pings if record.outcome and record.outcome.code is Code.FAILED]
        assert stopped.outcome is not None
        assert b"100 times in a row" in (stopped.outcome.result or b"")
        assert json.loads(stopped.job.options)["chain"] == 100
        assert await payloads_waiting(daemon, "acme-alarm") == [], "it would be one link more"


async def test_a_result_that_is_too_long_for_a_payload_is_the_end_of_the_job(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await register(daemon, "acme-long", "print('begun')\nreturn 'x' * (1 << 21)", then="next", on_failure="alarm")
        record = await ended(daemon, await submit(daemon, "acme-long", "x"))
        assert record.outcome is not None
        assert (record.outcome.code, record.outcome.exitcode) == (Code.FAILED, 413)
        assert record.outcome.log == b"begun\n"
        assert await payloads_waiting(daemon, "acme-next") == []
        assert await payloads_waiting(daemon, "acme-alarm") == [record.outcome.result]


@pytest.mark.parametrize(("ending", "code"), [("ctx.fail('no')", Code.FAILED), ("ctx.retry()", Code.ABANDONED)])
async def test_what_made_children_and_did_not_end_well_goes_to_on_failure(
    tmp_path: Path, ending: str, code: Code
) -> None:
    async with running_daemon(tmp_path) as daemon:
        body = f"ctx.enqueue('piece', 'x', child=True)\n{ending}"
        once = {"max_attempts": 1}
        await register(daemon, "acme-album", body, then="next", on_failure="alarm", options=once)
        record = await ended(daemon, await submit(daemon, "acme-album", "x"))
        assert record.outcome is not None
        assert record.outcome.code is code
        assert await payloads_waiting(daemon, "acme-alarm") == [record.outcome.result or b""]


async def test_a_refusal_goes_to_on_failure_only_within_the_quota(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        limits = json.dumps({"max_jobs": 1})
        await daemon.store.create_tenant(Tenant("acme", daemon.clock.now_ms(), limits=limits))
        await daemon.executor.refresh_tenants()
        await register(daemon, "acme-a", "print('begun')", then="next", on_failure="alarm")
        record = await ended(daemon, await submit(daemon, "acme-a", "x"))
        assert record.outcome is not None
        assert (record.outcome.exitcode, record.outcome.log) == (429, b"begun\n")
        assert await payloads_waiting(daemon, "acme-alarm") == []
