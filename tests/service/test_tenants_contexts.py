"""The contexts of a tenant end with it, and what it runs outside the queue counts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from functory.daemon.daemon import Daemon
from functory.errors import Forbidden, QuotaExceeded
from handlers.model import Handler
from store.base import Code, JobState, NewJob, Secret, Tenant
from tests.support.service import ended, register, running_daemon, until

PID = "import os\nreturn str(os.getpid())"
FOREVER = "import time\ntime.sleep(600)"


@asynccontextmanager
async def daemon_with_tenant(data_dir: Path, limits: str = "", **settings: str) -> AsyncIterator[Daemon]:
    async with running_daemon(data_dir, None, **settings) as daemon:
        await create(daemon, limits)
        yield daemon


async def create(daemon: Daemon, limits: str = "", created_ms: int = 1) -> None:
    await daemon.store.create_tenant(Tenant("acme", created_ms, 1, limits))
    await daemon.tenants_changed()


def contexts(daemon: Daemon) -> int:
    return daemon._parts.runner.gauges()["contexts"]


def when(true: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return true()

    return look


async def result_of(daemon: Daemon, jobtype: str = "acme-x") -> str:
    record = await ended(daemon, (await daemon.intake.write(jobtype, [b"1"]))[0])
    assert record.outcome is not None
    return (record.outcome.result or b"").decode()


async def test_a_deleted_tenants_warm_contexts_do_not_serve_the_next_of_that_name(tmp_path: Path) -> None:
    async with daemon_with_tenant(tmp_path) as daemon:
        await register(daemon, "acme-x", PID, eid="shared")
        first = await result_of(daemon)
        await until(when(lambda: daemon._parts.runner.gauges()["idle"] == 1))
        assert await result_of(daemon) == first, "it is warm"
        while (await daemon.store.delete_tenant("acme", limit=1000)).more:
            pass
        await create(daemon, created_ms=2)  # and nobody was told in between
        await register(daemon, "acme-x", PID, eid="shared")
        assert await result_of(daemon) != first


async def test_a_new_tenant_of_the_name_does_not_get_the_old_ones_handler(tmp_path: Path) -> None:
    async with daemon_with_tenant(tmp_path) as daemon:
        await register(daemon, "acme-x", "return 'old'")
        assert await result_of(daemon) == '"old"'
        while (await daemon.store.delete_tenant("acme", limit=1000)).more:
            pass
        await create(daemon, created_ms=2)
        await register(daemon, "acme-x", "return 'new'")
        assert await result_of(daemon) == '"new"'


async def told_secret(daemon: Daemon, value: str, now_ms: int) -> str:
    """What a job of a handler tells that was given the secret: itself, and backwards."""
    await daemon.vault.put(Secret("acme", "API_KEY", 1, now_ms, "key1", "", b""), value)
    body = "return ctx.secrets['API_KEY'] + ' ' + ctx.secrets['API_KEY'][::-1]"
    await register(daemon, "acme-x", body, secrets=["API_KEY"])
    return await result_of(daemon)


async def test_a_new_tenant_of_the_name_is_not_given_the_old_ones_secret(tmp_path: Path) -> None:
    async with daemon_with_tenant(tmp_path) as daemon:
        assert await told_secret(daemon, "value of the first", 1) == '"*** tsrif eht fo eulav"'
        while (await daemon.store.delete_tenant("acme", limit=1000)).more:
            pass
        await daemon.store.create_tenant(Tenant("acme", 2))
        assert await told_secret(daemon, "value of the second", 2) == '"*** dnoces eht fo eulav"'


async def test_a_try_that_waits_for_a_seat_is_not_given_the_next_ones_secret(tmp_path: Path) -> None:
    async with daemon_with_tenant(tmp_path) as daemon:
        await daemon.vault.put(Secret("acme", "API_KEY", 1, 1, "key1", "", b""), "value of the first")
        seats = daemon.trial_runs._seats
        taken = 0
        while not seats.locked():
            await seats.acquire()
            taken += 1
        handler = Handler("python", "return ctx.secrets['API_KEY'][::-1]", secrets=("API_KEY",))
        trying = asyncio.create_task(daemon.trial_runs.invoke("acme-try", handler, b""))
        await until(when(lambda: bool(seats._waiters)))
        while (await daemon.store.delete_tenant("acme", limit=1000)).more:
            pass
        await create(daemon, created_ms=2)
        await daemon.vault.put(Secret("acme", "API_KEY", 1, 2, "key1", "", b""), "value of the second")
        for _ in range(taken):
            seats.release()
        with pytest.raises(Forbidden, match="the tenant is gone"):
            await trying


async def test_suspension_ends_what_runs_and_what_is_warm_at_once(tmp_path: Path) -> None:
    async with daemon_with_tenant(tmp_path) as daemon:
        await register(daemon, "acme-warm", "return 'fine'")
        await result_of(daemon, "acme-warm")
        await register(daemon, "acme-long", FOREVER, timeout_s=600)
        ids = await daemon.intake.write("acme-long", [b"1"])
        await until(when(lambda: daemon._parts.runner.gauges()["busy"] == 1))
        invoked = asyncio.create_task(daemon.trial_runs.invoke("acme-try", Handler("python", FOREVER), b""))
        await until(when(lambda: daemon._parts.runner.gauges()["busy"] == 2))
        await daemon.store.update_tenant("acme", suspended=True)
        await daemon.tenants_changed()
        assert (await invoked).exitcode in {502, 503}
        await until(when(lambda: contexts(daemon) == 0))
        await daemon.outbox.empty()
        record = await daemon.store.get_job("acme", ids[0], now_ms=daemon.clock.now_ms())
        assert record is not None
        assert record.job.attempts == 0, "given back: it did nothing wrong"


async def test_invocations_count_as_running_of_their_tenant(tmp_path: Path) -> None:
    async with daemon_with_tenant(tmp_path, '{"max_running": 1}') as daemon:
        await register(daemon, "acme-x", "return 'fine'")
        first = asyncio.create_task(daemon.trial_runs.invoke("acme-try", Handler("python", FOREVER), b""))
        await until(when(lambda: contexts(daemon) == 1))
        with pytest.raises(QuotaExceeded, match="may have no more"):
            await daemon.trial_runs.invoke("acme-try", Handler("python", "return 1"), b"")
        ids = await daemon.intake.write("acme-x", [b"1"])
        await daemon.intake.flush()
        assert daemon.hold("acme-x") in {"tenant_cap", "not_waiting"}
        assert contexts(daemon) == 1
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        daemon.wake()
        assert (await ended(daemon, ids[0])).outcome is not None


async def test_invocations_have_a_cap_of_their_own_and_leave_seats_to_the_slots(tmp_path: Path) -> None:
    """Sixty-six at once, as of a client that closes each connection: two run, the others are refused."""
    async with daemon_with_tenant(tmp_path, max_contexts="6", slots="4") as daemon:
        invoke = daemon.trial_runs.invoke
        many = [asyncio.create_task(invoke("acme-try", Handler("python", FOREVER), b"")) for _ in range(66)]
        await until(when(lambda: sum(task.done() for task in many) == 64))
        others = [asyncio.create_task(invoke(f"{name}-try", Handler("python", FOREVER), b"")) for name in "bcd"]
        await register(daemon, "acme-x", "return 'fine'")
        assert await result_of(daemon) == '"fine"'
        assert contexts(daemon) <= 6
        for task in many + others:
            task.cancel()
        results = await asyncio.gather(*many, *others, return_exceptions=True)
        assert sum(isinstance(result, QuotaExceeded) for result in results) == 64
        await until(when(lambda: daemon._parts.runner.gauges()["busy"] == 0))


async def test_a_check_does_not_wait_for_the_memory_that_long_jobs_of_the_tenant_hold(tmp_path: Path) -> None:
    async with daemon_with_tenant(tmp_path, max_contexts_memory="512MiB") as daemon:
        invoke = daemon.trial_runs.invoke
        running = [asyncio.create_task(invoke("acme-try", Handler("python", FOREVER), b"")) for _ in range(2)]
        await until(when(lambda: daemon._parts.runner.gauges()["busy"] == 2))
        async with asyncio.timeout(20):
            await daemon.trial_runs.check("acme-x", Handler("python", "return 1"))
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_a_job_that_was_about_to_start_when_its_tenant_was_suspended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its slot is free again, and it waits for better times."""
    async with daemon_with_tenant(tmp_path, poll="1h") as daemon:
        await register(daemon, "acme-x", "return payload")
        await until(when(lambda: daemon.executor.is_clear("acme-x")))
        free, kept_back = daemon.executor.free_slots, list[NewJob]()
        take, refresh = daemon.straight.take, daemon.executor._tenants.refresh
        monkeypatch.setattr(daemon.straight, "take", kept_back.extend)
        (job_id,) = await daemon.intake.write("acme-x", [b"1"])
        assert kept_back

        async def in_that_moment() -> Any:
            terms = await refresh()
            take(kept_back)
            return terms

        monkeypatch.setattr(daemon.executor._tenants, "refresh", in_that_moment)
        await daemon.store.update_tenant("acme", suspended=True)
        await daemon.tenants_changed()
        await until(when(lambda: daemon.executor.free_slots == free))
        monkeypatch.undo()
        await daemon.store.update_tenant("acme", suspended=False)
        await daemon.tenants_changed()
        assert (await ended(daemon, job_id)).job.attempts == 1


async def test_a_claim_that_is_under_way_when_its_tenant_is_suspended_costs_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with daemon_with_tenant(tmp_path, straight="off") as daemon:
        await register(daemon, "acme-x", "return payload", options={"max_attempts": 1})
        claim, claimed, go = daemon.store.claim_jobs, asyncio.Event(), asyncio.Event()

        async def slow(*given: Any, **named: Any) -> Any:
            jobs = await claim(*given, **named)
            claimed.set()
            await go.wait()
            return jobs

        monkeypatch.setattr(daemon.store, "claim_jobs", slow)
        (job_id,) = await daemon.intake.write("acme-x", [b"1"])
        await claimed.wait()
        await daemon.store.update_tenant("acme", suspended=True)
        await daemon.tenants_changed()
        go.set()

        async def waits() -> bool:
            record = await daemon.store.get_job("acme", job_id, now_ms=daemon.clock.now_ms())
            return record is not None and (record.state, record.job.attempts) == (JobState.WAITING, 0)

        await until(waits)
        await daemon.store.update_tenant("acme", suspended=False)
        await daemon.tenants_changed()
        outcome = (await ended(daemon, job_id)).outcome
        assert outcome
        assert outcome.code is Code.OK
