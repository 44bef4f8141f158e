"""A tenant's limits hold for what its jobs leave behind, and as soon as they are set."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import functory.intake.admission
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.errors import QuotaExceeded
from functory.intake.admission import FREE_RESULT_BYTES
from functory.intake.job_options import JobOptions
from functory.operations.idempotency import Fingerprint
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.submit import Submission, submit_jobs, submit_lines, submit_once
from functory.operations.tenants import create_tenant, update_tenant
from functory.tenant_limits import TenantLimits
from journal import DiskFull
from store.base import Code, JobRecord, JobState
from tests.support.service import ended, register, running_daemon, until


@asynccontextmanager
async def limited(tmp_path: Path, **limits: Any) -> AsyncIterator[tuple[Daemon, Service]]:
    """A daemon that looks at tenants by itself once an hour, with one tenant."""
    async with running_daemon(tmp_path, poll="1h") as daemon:
        service = service_of(daemon)
        await create_tenant(service, "test", "acme", 1, TenantLimits(**limits))
        yield daemon, service


async def run_one(daemon: Daemon, body: str) -> Any:
    await register(daemon, "acme-x", body)
    (job_id,) = await daemon.intake.write("acme-x", [b"x"])
    record = await ended(daemon, job_id)
    assert record.outcome
    return record.outcome


async def test_jobs_that_a_job_asks_for_count(tmp_path: Path) -> None:
    async with limited(tmp_path, max_jobs=10) as (daemon, _):
        outcome = await run_one(daemon, "for n in range(20): print('J: y|x')")
        assert (outcome.code, outcome.exitcode) == (Code.FAILED, 429)
        assert b"may have 10" in outcome.result
        await daemon.intake.flush()
        assert (await daemon.store.get_usage("acme")).jobs == 1
        outcome = await run_one(daemon, "for n in range(5): print('J: y|x')")
        assert outcome.code == Code.OK
        await daemon.intake.flush()
        assert (await daemon.store.get_usage("acme")).jobs == 7


async def test_a_result_counts(tmp_path: Path) -> None:
    async with limited(tmp_path, max_bytes=10_000) as (daemon, _):
        outcome = await run_one(daemon, "return 'r' * 20_000")
        assert (outcome.code, outcome.exitcode) == (Code.FAILED, 429)
        assert b"may have 10000" in outcome.result
        assert (await run_one(daemon, "return 'r' * 5_000")).code == Code.OK
        assert (await run_one(daemon, "return 'r' * 6_000")).code == Code.FAILED
        assert (await run_one(daemon, "return 'short'")).result == b'"short"'


async def test_a_result_counts_of_a_job_that_is_kept_for_the_name_that_it_gave(tmp_path: Path) -> None:
    async with limited(tmp_path, max_bytes=10_000) as (daemon, _):
        await register(daemon, "acme-x", "ctx.enqueue('y', '', unique=payload)\nreturn 'r' * 6_000", keep="none")
        codes = []
        for name in (b"a", b"b"):
            (job_id,) = await daemon.intake.write("acme-x", [name])
            record = await ended(daemon, job_id)
            assert record.outcome
            codes.append((record.outcome.code, record.outcome.exitcode))
        assert codes == [(Code.OK, 200), (Code.FAILED, 429)]
        assert (await daemon.store.get_usage("acme")).size_bytes < 10_000


async def test_a_long_trace_at_the_quota_is_no_reason_not_to_try_again(tmp_path: Path) -> None:
    async with limited(tmp_path, max_bytes=5_000) as (daemon, _):
        options = {"retry_base_ms": 3_600_000, "retry_max_ms": 3_600_000}
        await register(daemon, "acme-y", "raise ValueError('x' * 20_000 + ' the end')", options=options)
        (job_id,) = await daemon.intake.write("acme-y", [b"x"])

        async def has_run() -> JobRecord | None:
            record = await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms())
            return record if record is not None and record.outcome else None

        record = await until(has_run)
        assert record.outcome is not None
        assert (record.state, record.outcome.code) == (JobState.DEFERRED, Code.ERROR)
        kept = record.outcome.result or b""
        assert (len(kept), kept.strip().endswith(b"the end")) == (FREE_RESULT_BYTES, True)


async def test_types_with_jobs_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those without a handler, which wait for ever; and however the jobs come in."""
    limits = TenantLimits(max_types=2)
    who = Principal("key", "acme", frozenset({"submit"}), limits)
    async with limited(tmp_path, max_types=2) as (daemon, service):
        (_,), (of_b,), (_,) = [await submit_lines(service, who, name, [b"1"]) for name in ("a", "b", "a")]
        with pytest.raises(QuotaExceeded, match="3 types"):
            await submit_lines(service, who, "c", [b"1"])
        with pytest.raises(QuotaExceeded, match="3 types"):
            await submit_jobs(service, who, "c", [Submission(b"1", JobOptions(priority=0))])
        with pytest.raises(QuotaExceeded, match="3 types"):
            await submit_once(service, who, "c", [Submission(b"1")], key="k", fingerprint=Fingerprint("f"))
        await register(daemon, "acme-b", "print('J: c|x')")
        outcome = (await ended(daemon, of_b)).outcome
        assert outcome
        assert (outcome.code, outcome.exitcode) == (Code.FAILED, 429)
        monkeypatch.setattr(functory.intake.admission, "_TYPES_LIFE_MS", 0)
        await submit_lines(service, who, "c", [b"1"])  # nothing of b is left


@pytest.mark.parametrize("is_new", [True, False], ids=["new tenant", "changed tenant"])
async def test_a_cap_holds_from_the_next_job_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool) -> None:
    async with limited(tmp_path, **({"max_running": 1} if is_new else {})) as (daemon, service):
        if not is_new:
            await update_tenant(service, "test", "acme", limits=TenantLimits(max_running=1))
        at_once, most, go_on = 0, 0, asyncio.Event()
        runner = daemon._parts.runner
        run_jobs = runner.run_jobs

        async def watched(*given: Any, **named: Any) -> None:
            nonlocal at_once, most
            at_once += 1
            most = max(most, at_once)
            await go_on.wait()
            await run_jobs(*given, **named)
            at_once -= 1

        monkeypatch.setattr(runner, "run_jobs", watched)
        ids = []
        for number in range(5):
            await register(daemon, f"acme-x{number}", "return None")
            ids += await daemon.intake.write(f"acme-x{number}", [b"x"])
        await daemon.intake.flush()
        daemon.wake()

        async def has_begun() -> bool:
            return bool(at_once)

        await until(has_begun)
        go_on.set()
        for job_id in ids:
            await ended(daemon, job_id)
    assert most == 1


@pytest.mark.parametrize("limits", [TenantLimits(max_jobs=8), TenantLimits(max_types=2)])
async def test_requests_that_come_at_once_share_a_quota(tmp_path: Path, limits: TenantLimits) -> None:
    who = Principal("key", "acme", frozenset({"submit"}), limits)
    async with limited(tmp_path) as (daemon, service):
        answers = await asyncio.gather(
            *(submit_lines(service, who, f"t{number}", [b"1"] * 4) for number in range(8)), return_exceptions=True
        )
        assert [isinstance(answer, QuotaExceeded) for answer in answers].count(False) == 2
        await daemon.intake.flush()
        assert (await daemon.store.get_usage("acme")).jobs == 8


async def test_bytes_in_the_journal_count_whatever_else_comes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that never pass the journal, and lines that it refuses."""
    who = Principal("key", "acme", frozenset({"submit"}), TenantLimits(max_bytes=10_000))
    async with limited(tmp_path) as (daemon, service):
        go_on, add_jobs = asyncio.Event(), daemon.store.add_jobs

        async def read_later(jobs: Any, **named: Any) -> Any:
            if "position" in named:
                await go_on.wait()
            return await add_jobs(jobs, **named)

        def full(*_given: Any) -> Any:
            raise DiskFull("full")

        monkeypatch.setattr(daemon.store, "add_jobs", read_later)
        monkeypatch.setattr(service.admission, "_usage_life_ms", 0)
        await submit_lines(service, who, "x", [b"5" * 1000] * 5)
        await submit_once(service, who, "x", [Submission(b"1")] * 5, key="once", fingerprint=Fingerprint("five"))
        with pytest.raises(QuotaExceeded):
            await submit_lines(service, who, "x", [b"6" * 1000] * 6)
        with monkeypatch.context() as patched:
            patched.setattr(daemon.journal, "begin_write", full)
            with pytest.raises(DiskFull):
                await submit_lines(service, who, "x", [b"4" * 4000])
        await submit_lines(service, who, "x", [b"4" * 1000] * 4)
        go_on.set()
        await daemon.intake.flush()
        assert (await daemon.store.get_usage("acme")).jobs == 14


@pytest.mark.parametrize("has_handler", [False, True], ids=["in the journal", "running"])
@pytest.mark.parametrize("limits", [TenantLimits(max_jobs=12), TenantLimits(max_bytes=1290)], ids=["jobs", "bytes"])
async def test_what_the_store_does_not_have_yet_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: TenantLimits, *, has_handler: bool
) -> None:
    """However often the store is asked meanwhile."""
    who = Principal("key", "acme", frozenset({"submit"}), limits)
    async with limited(tmp_path) as (daemon, service):
        go_on, add_jobs, run_jobs = asyncio.Event(), daemon.store.add_jobs, daemon._parts.runner.run_jobs

        async def add_later(jobs: Any, **named: Any) -> Any:
            await go_on.wait()
            return await add_jobs(jobs, **named)

        async def run_later(*given: Any, **named: Any) -> None:
            await go_on.wait()
            await run_jobs(*given, **named)

        if has_handler:
            await register(daemon, "acme-x", "return None")
        monkeypatch.setattr(daemon.store, "add_jobs", add_later)
        monkeypatch.setattr(daemon._parts.runner, "run_jobs", run_later)
        monkeypatch.setattr(service.admission, "_usage_life_ms", 0)
        await submit_lines(service, who, "x", [b"5" * 100] * 5)
        await submit_lines(service, who, "x", [b"1" * 100] * 5)
        with pytest.raises(QuotaExceeded):
            await submit_lines(service, who, "x", [b"3" * 100] * 3)
        await submit_lines(service, who, "x", [b"2" * 100] * 2)
        go_on.set()
        await daemon.intake.flush()
        assert (await daemon.store.get_usage("acme")).jobs == 12
        with pytest.raises(QuotaExceeded):
            await submit_lines(service, who, "x", [b"1" * 100])
