"""A tenant that is deleted, and another that gets its name: the new one has nothing of the old."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from functory.daemon.service import service_of
from functory.errors import QuotaExceeded
from functory.operations.principal import Principal
from functory.operations.submit import submit_lines
from functory.operations.tenants import delete_tenant
from functory.tenant_limits import TenantLimits
from store.base import Tenant
from store.errors import Conflict, StoreUnavailable
from tests.support.clocks import LeapingClock
from tests.support.service import ended, register, running_daemon, until
from tests.support.stores import BACK_ENDS, back_end_params
from tests.support.straight_times import LONG_S, set_straight_times
from tests.support.tenants import AwayAtTimes, count_jobs, create, delete


@pytest.fixture(params=back_end_params())
async def url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    async with BACK_ENDS[request.param](tmp_path) as store:
        yield store


async def test_what_came_after_the_deletion_goes_before_the_name_is_given_again(tmp_path: Path, url: str) -> None:
    async with running_daemon(tmp_path, store=url) as daemon:
        await create(daemon)
        await delete(daemon)
        await daemon.intake.write("acme-x", [b"of a request that was under way"])
        assert await count_jobs(daemon) == 1
        await create(daemon)
        assert await count_jobs(daemon) == 0


async def test_a_name_that_is_taken_keeps_what_it_has(tmp_path: Path, url: str) -> None:
    async with running_daemon(tmp_path, store=url) as daemon:
        await create(daemon)
        await daemon.intake.write("acme-x", [b"1"])
        assert await count_jobs(daemon) == 1
        with pytest.raises(Conflict, match="already taken"):
            await create(daemon)
        assert await count_jobs(daemon) == 1


async def test_quotas_begin_anew(tmp_path: Path, url: str) -> None:
    """What the old one had neither counts for the new one, nor is it let in without counting."""
    limits = TenantLimits(max_types=2, max_jobs=2)
    who = Principal("key", "acme", frozenset({"submit"}), limits)
    async with running_daemon(tmp_path, store=url, poll="1h") as daemon:
        service = service_of(daemon)
        service.admission._usage_life_ms = 3_600_000
        for names, third in ((("a", "b"), "c"), (("c", "a"), "b")):
            await create(daemon, limits)
            for name in names:
                await submit_lines(service, who, name, [b"1"])
            with pytest.raises(QuotaExceeded, match="3 types"):
                await submit_lines(service, who, third, [b"1"])
            with pytest.raises(QuotaExceeded, match="3 jobs"):
                await submit_lines(service, who, "a", [b"1"])
            await delete(daemon)


@pytest.mark.parametrize("verb", ["get_counters", "get_usage"])
async def test_a_look_at_the_old_one_that_ends_late_does_not_count(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    limits = TenantLimits(max_types=1) if verb == "get_counters" else TenantLimits(max_jobs=1)
    who = Principal("key", "acme", frozenset({"submit"}), limits)
    async with running_daemon(tmp_path, store=url, poll="1h") as daemon:
        service, look = service_of(daemon), getattr(daemon.store, verb)
        has_looked, go_on = asyncio.Event(), asyncio.Event()

        async def look_late(*given: Any, **named: Any) -> Any:
            monkeypatch.setattr(daemon.store, verb, look)
            found = await look(*given, **named)
            has_looked.set()
            await go_on.wait()
            return found

        async def new_is_in() -> bool:
            return new.done()

        async def nobody_looks() -> bool:
            return not service.admission._looks.under_way and not service.admission._looks_at_types.under_way

        await create(daemon)
        await daemon.intake.write("acme-a", [b"1"])
        await daemon.intake.flush()
        monkeypatch.setattr(daemon.store, verb, look_late)
        old = asyncio.create_task(submit_lines(service, who, "a", [b"1"]))
        await has_looked.wait()
        old.cancel()  # the look goes on
        await delete(daemon)
        await create(daemon, limits)
        new = asyncio.create_task(submit_lines(service, who, "b", [b"1"]))
        await until(new_is_in)
        go_on.set()
        await until(nobody_looks)
        await new
        with pytest.raises(QuotaExceeded, match="2 types" if verb == "get_counters" else "2 jobs"):
            await submit_lines(service, who, "a" if verb == "get_counters" else "b", [b"1"])


async def test_a_deletion_that_another_has_done_leaves_the_next_tenant_alone(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_daemon(tmp_path, store=url) as daemon:
        flush = daemon.intake.flush

        async def flush_late(tenant: str) -> None:
            monkeypatch.setattr(daemon.intake, "flush", flush)
            await delete(daemon)  # as on another daemon
            await create(daemon)
            await flush(tenant)

        await create(daemon)
        await daemon.intake.write("acme-x", [b"1"])
        assert await count_jobs(daemon) == 1
        monkeypatch.setattr(daemon.intake, "flush", flush_late)
        assert not (await delete_tenant(service_of(daemon), "test", "acme")).more
        found = await daemon.store.get_tenant("acme")
        assert found is not None
        assert not found.deleting


async def test_lines_that_waited_in_a_journal_meanwhile_are_not_the_new_ones(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_given: Any, **_named: Any) -> Any:
        raise StoreUnavailable("away")

    clock = LeapingClock()
    async with running_daemon(tmp_path, clock, store=url) as daemon:
        await create(daemon)
        monkeypatch.setattr(daemon.store, "add_jobs", away)
        (old,) = await daemon.intake.write("acme-x", [b"a secret of the old one"])
        (other,) = await daemon.intake.write("other-x", [b"1"])
        while (await daemon.store.delete_tenant("acme", limit=1000)).more:
            pass
        clock.ahead_ms = 120_000  # it is restarted some minutes later
        await daemon.store.create_tenant(Tenant("acme", clock.now_ms()))
    async with running_daemon(tmp_path, clock, store=url) as daemon:
        await register(daemon, "other-x", "return payload")
        await ended(daemon, other, "other")
        assert await count_jobs(daemon) == 0
        assert await daemon.store.get_job("acme", old, now_ms=daemon.clock.now_ms()) is None
        assert daemon.journal.read_point == daemon.journal.write_point
        await daemon.intake.write("acme-x", [b"of the new one"])
        assert await count_jobs(daemon) == 1


@pytest.mark.parametrize("straight", ["on", "off"])
async def test_jobs_that_a_job_asked_for_meanwhile_are_not_the_new_ones(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, straight: str
) -> None:
    set_straight_times(monkeypatch)
    clock = LeapingClock()
    async with running_daemon(tmp_path, clock, store=url, straight=straight) as daemon:

        async def is_clear() -> bool:
            return daemon.executor.is_clear("acme-x")

        async def have_stopped() -> int:
            return sum(map(len, daemon.outbox._lanes.values()))

        async def both_have_stopped() -> bool:
            return await have_stopped() == 2

        at_times = AwayAtTimes(daemon, monkeypatch, "add_ended_jobs", "release_jobs")
        await create(daemon)
        await register(daemon, "acme-x", "if payload == '2': print('J: y|a secret of the old one')\nreturn payload")
        await until(is_clear)
        at_times.is_away = True
        await daemon.intake.write("acme-x", [b"1"])
        await until(have_stopped)  # its end is tried again and again, and the next ones wait behind it
        await daemon.intake.write("acme-x", [b"2"])
        await until(both_have_stopped)
        while (await daemon.store.delete_tenant("acme", limit=1000)).more:  # on another daemon
            pass
        clock.ahead_ms = 120_000
        await daemon.store.create_tenant(Tenant("acme", clock.now_ms()))
        at_times.is_away = False
        await daemon.outbox.empty()
        assert await count_jobs(daemon) == 0
        await register(daemon, "acme-x", "print('J: y|of the new one')")
        (new,) = await daemon.intake.write("acme-x", [b"1"])
        await ended(daemon, new)
        assert await count_jobs(daemon) == 2


@pytest.mark.parametrize("way", ["with its end", "as running"])
async def test_a_job_that_ran_while_the_store_was_away_is_not_the_new_ones(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    set_straight_times(monkeypatch, show_after_s=LONG_S if way == "with its end" else 0.0)
    clock = LeapingClock()
    async with running_daemon(tmp_path, clock, store=url) as daemon:

        async def is_clear() -> bool:
            return daemon.executor.is_clear("acme-x")

        async def has_stopped() -> bool:
            return bool(daemon.outbox._lanes)

        at_times = AwayAtTimes(daemon, monkeypatch, "add_running_jobs", "add_ended_jobs", "release_jobs", "add_jobs")
        await create(daemon)
        await register(daemon, "acme-x", "return payload")
        await until(is_clear)
        at_times.is_away = True
        (old,) = await daemon.intake.write("acme-x", [b"a secret of the old one"])
        assert daemon.straight.is_here(old)
        await until(has_stopped)
        while (await daemon.store.delete_tenant("acme", limit=1000)).more:  # on another daemon
            pass
        clock.ahead_ms = 120_000
        await daemon.store.create_tenant(Tenant("acme", clock.now_ms()))
        at_times.is_away = False
        await daemon.outbox.empty()
        assert await count_jobs(daemon) == 0
        assert await daemon.store.get_job("acme", old, now_ms=clock.now_ms()) is None
        assert daemon.journal.read_point == daemon.journal.write_point
        await register(daemon, "acme-x", "return payload")
        (new,) = await daemon.intake.write("acme-x", [b"of the new one"])
        assert (await ended(daemon, new)).outcome is not None
