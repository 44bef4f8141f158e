"""Requests that are repeated with their idempotency key add nothing, also where ended jobs are gone by then."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.operations import submit
from functory.operations.create import create_jobs
from functory.operations.idempotency import Fingerprint
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.submit import Submission, submit_once
from functory.tenant_limits import TenantLimits
from store.errors import StoreUnavailable
from tests.support.half_bound import crash_after_the_key
from tests.support.service import register, running_daemon, until

WHO = Principal("test", "acme", frozenset({"manage", "read", "submit"}), TenantLimits())
JOB = Submission(b"5 EUR")
Request = Callable[[Service], Awaitable[list[str]]]


async def submitted(service: Service) -> list[str]:
    done = await submit_once(service, WHO, "pay", [JOB, JOB], key="order-17", fingerprint=Fingerprint("f"))
    return done.ids


async def created(service: Service) -> list[str]:
    return await create_jobs(service, WHO, [("pay", JOB), ("pay", JOB)], key="order-17", content="f")


REQUESTS = pytest.mark.parametrize("request_once", [submitted, created])


@pytest.fixture(autouse=True, params=[1000, 1], ids=["at once", "in steps"])
def added_at_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many jobs are added in one step with their key."""
    monkeypatch.setattr(submit, "_ADDED_AT_ONCE", request.param)
    return int(request.param)


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    async with running_daemon(tmp_path) as running:
        yield running


async def runs(daemon: Daemon, at_least: int) -> int:
    """How many jobs have run, when at least so many have and none is left."""

    async def look() -> int | None:
        (row,) = await daemon.store.get_counters("acme", now_ms=daemon.clock.now_ms())
        return row.ok if row.ok >= at_least and not row.waiting + row.running else None

    return await until(look)


@REQUESTS
async def test_jobs_that_were_not_kept_do_not_run_again(daemon: Daemon, request_once: Request) -> None:
    await register(daemon, "acme-pay", "return payload", keep="none")
    service = service_of(daemon)
    first = await request_once(service)
    assert await runs(daemon, 2) == 2
    assert await request_once(service) == first
    assert await runs(daemon, 2) == 2


@REQUESTS
async def test_jobs_that_were_deleted_do_not_run_again(daemon: Daemon, request_once: Request) -> None:
    await register(daemon, "acme-pay", "return payload")
    service = service_of(daemon)
    first = await request_once(service)
    await runs(daemon, 2)
    assert await daemon.store.delete_jobs("acme", first, now_ms=daemon.clock.now_ms()) == 2
    assert await request_once(service) == first
    assert await runs(daemon, 2) == 2
    assert (await daemon.store.get_usage("acme")).jobs == 0


@REQUESTS
async def test_what_a_crash_left_out_is_added_by_the_repeat(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, request_once: Request
) -> None:
    async def crash(*_: object, **__: object) -> None:
        raise RuntimeError("the daemon ends here")

    await register(daemon, "acme-pay", "return payload", keep="none")
    service = service_of(daemon)
    with monkeypatch.context() as patch:
        patch.setattr(daemon.store, "add_jobs", crash)
        patch.setattr(daemon.store, "add_jobs_once", crash_after_the_key(daemon.store))
        patch.setattr(daemon.store, "create_jobs", crash)
        with pytest.raises(RuntimeError):
            await request_once(service)
    ids = await request_once(service)
    assert await runs(daemon, 2) == 2
    assert await request_once(service) == ids
    assert await runs(daemon, 2) == 2


@REQUESTS
async def test_a_request_whose_jobs_are_in_the_store_does_not_fail(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch, request_once: Request
) -> None:
    """An error would have it repeated."""
    put_once = daemon.store.put_once

    async def away_after_the_first(tenant: str, key: str, value: bytes, *, expires_ms: int, now_ms: int) -> bytes:
        if key.startswith("added:"):
            raise StoreUnavailable("away")
        return await put_once(tenant, key, value, expires_ms=expires_ms, now_ms=now_ms)

    monkeypatch.setattr(daemon.store, "put_once", away_after_the_first)
    ids = await request_once(service_of(daemon))
    assert len(await daemon.store.get_states("acme", ids, now_ms=daemon.clock.now_ms())) == 2
