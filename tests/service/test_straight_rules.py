"""On the straight way, too: quotas, caps, pauses, suspension, deletion, languages, and values that cannot be stored."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sized
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import functory.execution.batches
import functory.execution.outcomes
import functory.execution.straight.showing
import functory.execution.straight.waiting_jobs
import functory.loops.courtesy
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.errors import QuotaExceeded
from functory.operations.jobs import cancel_job
from functory.operations.principal import Principal
from functory.operations.submit import submit_lines
from functory.operations.tenants import create_tenant, delete_tenant, update_tenant
from functory.tenant_limits import TenantLimits
from store.base import Code, JobRecord, JobState, NewHandler, Outcome, Release
from store.errors import InvalidValue
from store.names import MAX_RESULT_BYTES
from tests.support.served_daemon import served_daemon
from tests.support.service import ended, register, running_daemon, until
from tests.support.straight import SLOW, ready
from tests.support.straight_times import set_straight_times

FOREVER = "import time\ntime.sleep(600)"
PID = "import os\nreturn os.getpid()"


@pytest.fixture(autouse=True)
def _not_shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is, jobs are in the store only with their end."""
    if "deleted" not in request.node.name:
        monkeypatch.setattr(functory.execution.straight.showing, "_SHOW_AFTER_S", 3600.0)


async def stored(daemon: Daemon, job_id: str) -> JobRecord | None:
    return await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms())


async def must_wait(daemon: Daemon, job_id: str) -> None:
    """It is in the store, and was not started."""
    await daemon.intake.flush()
    await daemon.outbox.empty()
    record = await stored(daemon, job_id)
    assert record is not None
    assert (record.state, record.job.attempts) == (JobState.WAITING, 0)


def is_true(look: Callable[[], object]) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        return bool(look())

    return ask


async def post(daemon: Daemon, line: bytes = b"1", jobtype: str = "acme-x") -> str:
    """A job that takes the straight way."""
    await until(is_true(lambda: daemon.executor.is_clear(jobtype)))
    (job_id,) = await daemon.intake.write(jobtype, [line])
    assert daemon.straight.is_here(job_id)
    return job_id


async def end_of(daemon: Daemon, job_id: str) -> Outcome:
    """Without a look before the end, which would bring it into the store."""
    await daemon.waiters.wait(job_id, 30)
    outcome = (await ended(daemon, job_id)).outcome
    assert outcome
    return outcome


async def test_quotas_of_what_comes_in_and_of_what_is_left(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        service, limits = service_of(daemon), TenantLimits(max_jobs=3, max_bytes=10_000)
        await create_tenant(service, "test", "acme", 1, limits)
        who = Principal("key", "acme", frozenset({"submit"}), limits)
        await ready(daemon, "return 'r' * int(payload)")
        outcomes = []
        for size in (5000, 6000, 10):
            await until(is_true(lambda: daemon.executor.is_clear("acme-x")))
            (job_id,) = await submit_lines(service, who, "x", [b"%d" % size])
            assert daemon.straight.is_here(job_id)
            outcomes.append(await end_of(daemon, job_id))
        assert [outcome.exitcode for outcome in outcomes] == [200, 429, 200]
        with pytest.raises(QuotaExceeded, match="would have 4 jobs"):
            await submit_lines(service, who, "x", [b"1"])


async def test_a_log_that_does_not_fit_the_quota_is_left_out(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await create_tenant(service_of(daemon), "test", "acme", 1, TenantLimits(max_bytes=10_000))
        await ready(daemon, "print('x' * int(payload)); return 'fine'")
        outcomes = [await end_of(daemon, await post(daemon, b"%d" % size)) for size in (5000, 6000, 10)]
        assert {(outcome.exitcode, outcome.result) for outcome in outcomes} == {(200, b'"fine"')}
        first, second, third = (outcome.log for outcome in outcomes)
        assert (first, third) == (b"x" * 5000 + b"\n", b"x" * 10 + b"\n")
        assert second == b"[left out: the tenant has used its max_bytes]\n"
        assert (await daemon.store.get_usage("acme")).size_bytes < 10_000


async def test_jobs_that_a_straight_job_asks_for_count(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await create_tenant(service_of(daemon), "test", "acme", 1, TenantLimits(max_jobs=10))
        await ready(daemon, "for n in range(20): print('J: y|x')")
        outcome = await end_of(daemon, await post(daemon))
        assert (outcome.code, outcome.exitcode) == (Code.FAILED, 429)
        assert (await daemon.store.get_usage("acme")).jobs == 1


async def test_a_value_that_cannot_be_stored_is_the_jobs_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if nobody before the store refused it."""
    decide = functory.execution.outcomes.releases_or_refusals

    def too_large(jobs: Any, *more: Any) -> list[Release]:
        releases: list[Any] = list(decide(jobs, *more))
        return [
            one._replace(outcome=one.outcome._replace(result=b"r" * (MAX_RESULT_BYTES + 1)))
            if job.data == b"bad"
            else one
            for job, one in zip(jobs, releases, strict=True)
        ]

    async with running_daemon(tmp_path) as daemon:
        await ready(daemon)
        monkeypatch.setattr(functory.execution.batches, "releases_or_refusals", too_large)
        ids = await daemon.intake.write("acme-x", [b"good", b"bad", b"fine"])
        assert all(map(daemon.straight.is_here, ids))
        outcomes = [await end_of(daemon, job_id) for job_id in ids]
        assert [outcome.exitcode for outcome in outcomes] == [200, 413, 200]
        assert daemon.outbox.refused == 0


async def test_an_end_that_is_refused_in_every_form_takes_the_long_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_: Any, **__: Any) -> Any:
        raise InvalidValue("never")

    monkeypatch.setattr(functory.execution.straight.waiting_jobs, "RETURN_AFTER_S", 3600.0)
    async with running_daemon(tmp_path) as daemon:
        await ready(daemon)
        monkeypatch.setattr(daemon.store, "add_ended_jobs", refuse)
        job_id = await post(daemon)
        await until(is_true(lambda: daemon.outbox.refused))
        record = await ended(daemon, job_id)
        assert (record.outcome and record.outcome.code, record.job.attempts) == (Code.OK, 1)


async def test_caps_of_a_tenant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path) as daemon:
        await create_tenant(service_of(daemon), "test", "acme", 1, TenantLimits(max_running=1))
        await register(daemon, "acme-y", SLOW)
        await ready(daemon, SLOW)
        at_once, most = 0, 0
        run_jobs = daemon._parts.runner.run_jobs

        async def watched(*given: Any, **named: Any) -> None:
            nonlocal at_once, most
            at_once, most = at_once + 1, max(most, at_once + 1)
            try:
                await run_jobs(*given, **named)
            finally:
                at_once -= 1

        monkeypatch.setattr(daemon._parts.runner, "run_jobs", watched)
        ids = [await post(daemon, jobtype=jobtype) for jobtype in ("acme-x", "acme-y")]
        for job_id in ids:
            await ended(daemon, job_id)
        assert most == 1


@pytest.mark.parametrize("how", ["daemon paused", "language", "unreadable handler", "suspended"])
async def test_what_may_not_start_waits_in_the_store(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await create_tenant(service, "test", "acme", 1, TenantLimits())
        await ready(daemon)
        if how == "daemon paused":
            daemon.pause()
        elif how == "language":
            monkeypatch.setattr(daemon.executor, "_languages", frozenset[str]())
        elif how == "suspended":
            await update_tenant(service, "test", "acme", suspended=True)
        else:
            document = json.dumps({"lang": "python", "body": "return 1", "made_up": 1}).encode()
            await daemon.store.set_handler("acme", NewHandler("acme-x", "python", document, 1))
            daemon.types_changed("acme")
            await until(is_true(lambda: daemon.executor.is_clear("acme-x")))
        for _ in range(2):
            (job_id,) = await daemon.intake.write("acme-x", [b"1"])
            await must_wait(daemon, job_id)


async def test_suspension_gives_back_what_the_store_does_not_have(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await create_tenant(service, "test", "acme", 1, TenantLimits())
        await ready(daemon, FOREVER)
        free = daemon.executor.free_slots
        job_id = await post(daemon)
        await until(is_true(lambda: daemon._parts.runner.gauges()["busy"]))
        await update_tenant(service, "test", "acme", suspended=True)
        await until(is_true(lambda: daemon.executor.free_slots == free))
        await must_wait(daemon, job_id)


async def test_a_run_that_the_store_does_not_know_is_cancelled(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        await ready(daemon, FOREVER)
        job_id = await post(daemon)
        await until(is_true(lambda: daemon._parts.runner.gauges()["running_jobs"]))
        assert await stored(daemon, job_id) is None
        await cancel_job(service_of(daemon), "acme", job_id)
        record = await ended(daemon, job_id)
        assert (record.outcome and record.outcome.code, record.job.attempts) == (Code.CANCELLED, 1)


async def test_a_deleted_tenants_job_leaves_nothing_behind_and_the_next_of_the_name_starts_anew(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:
        service = service_of(daemon)
        await create_tenant(service, "test", "acme", 1, TenantLimits())
        await register(daemon, "acme-long", FOREVER, timeout_s=600)
        await ready(daemon, PID)
        first = await end_of(daemon, await post(daemon))
        job_id = await post(daemon, jobtype="acme-long")
        await until(is_true(daemon.executor.leases.all))
        await delete_tenant(service, "test", "acme")
        await daemon.outbox.empty()
        assert (await stored(daemon, job_id), (await daemon.store.get_usage("acme")).jobs) == (None, 0)
        await asyncio.sleep(0.002)  # a tenant is told from the one before by the time at which it was made
        await create_tenant(service, "test", "acme", 1, TenantLimits())
        await ready(daemon, PID)
        again = await end_of(daemon, await post(daemon))
        assert first.result != again.result, "a context of its own"


async def test_an_answer_to_who_waits_is_not_larger_for_more_results(tmp_path: Path) -> None:
    async with served_daemon(tmp_path) as served:
        client = served.client

        def ask() -> list[dict[str, Any]]:
            assert client.register("return 'r' * 200_000").status < 300
            jobs: list[dict[str, Any]] = json.loads(client.add(b"1\n2\n3", query="?wait_s=30").body)["jobs"]
            return jobs

        jobs = await asyncio.to_thread(ask)
    assert [job["code"] for job in jobs] == ["ok"] * 3
    assert [job["result_bytes"] for job in jobs] == [200_002] * 3
    assert [len(job["result"] or "") for job in jobs] == [200_002, 0, 0], "the others are to be read one by one"


async def test_courtesy_is_only_for_jobs_that_can_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever posts jobs to a type without a handler makes nobody's steps shorter."""
    monkeypatch.setattr(functory.loops.courtesy, "_MOMENT_S", 3600.0)
    async with running_daemon(tmp_path) as daemon:
        await ready(daemon)
        courtesy = daemon._parts.shared.courtesy
        await daemon.intake.write("acme-nobody", [b"1"])
        await daemon.intake.flush()
        assert courtesy.step("busy", 1000) == 1000
        await end_of(daemon, await post(daemon))
        assert 100 <= courtesy.step("busy", 1000) < 1000, "a little shorter, and no rest"


@pytest.mark.parametrize("is_shown", [False, True])
async def test_courtesy_lasts_until_a_moment_after_the_end(
    is_shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the answer, and what its tenant posts then, do not meet long steps, however long the job took."""
    set_straight_times(monkeypatch, show_after_s=0.0 if is_shown else 3600.0)
    async with running_daemon(tmp_path) as daemon:
        await ready(daemon, SLOW if is_shown else "return payload")
        courtesy, seen = daemon._parts.shared.courtesy, list[tuple[str, int]]()
        monkeypatch.setattr(courtesy, "seen", lambda tenant, jobs: seen.append((tenant, jobs)))
        await post(daemon)
        await until(partial(has_length, seen, 2))
        assert seen == [("acme", 1), ("acme", 1)], "at its start, and at its end"


async def has_length(some: Sized, length: int) -> bool:
    return len(some) == length
