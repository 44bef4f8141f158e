"""A daemon inside the test's own event loop with one tenant, acme, and the verbs of a worker."""

from asyncio import Task
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.operations import workers as operations
from functory.operations.handlers import put_handler
from functory.operations.principal import Principal
from functory.operations.submit import submit_lines
from functory.operations.tenants import create_tenant
from functory.tenant_limits import TenantLimits
from functory.wire.scopes import TENANT_SCOPES
from functory.workers.values import Answer, Delivery, Order, Report, Taken
from store.base import JobRecord, Outcome
from tests.support.service import ended, running_daemon
from vocabulary.clock import Clock

ACME: Final = Principal("key", "acme", frozenset(TENANT_SCOPES), TenantLimits())


class Shop:
    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.service = service_of(daemon)

    async def serve(self, *types: str, **fields: Any) -> None:
        """Register types that workers serve."""
        for name in types:
            await put_handler(self.service, ACME, name, {"lang": "worker", **fields})

    async def post(self, *payloads: str, type_name: str = "resize") -> list[str]:
        """Jobs that are in the store."""
        ids = await submit_lines(self.service, ACME, type_name, [text.encode() for text in payloads])
        await self.daemon.intake.flush()
        return ids

    async def take(self, *patterns: str, **fields: Any) -> list[Taken]:
        return await operations.take(self.service, ACME, Order("", patterns or ("resize",), **fields))

    async def report(self, job: Taken, exitcode: int | None = 200, **fields: Any) -> Answer:
        (verdict,) = await operations.report(self.service, ACME, [Report(held(job), exitcode, **fields)])
        return verdict.answer

    async def renew(self, *jobs: Taken, **fields: Any) -> list[Answer]:
        verdicts = await operations.renew(self.service, ACME, [held(job) for job in jobs], **fields)
        return [verdict.answer for verdict in verdicts]

    async def record(self, job_id: str) -> JobRecord:
        found = await self.daemon.store.get_job("acme", job_id, now_ms=self.daemon.clock.now_ms())
        assert found
        return found

    async def end(self, job_id: str) -> Outcome:
        outcome = (await ended(self.daemon, job_id)).outcome
        assert outcome
        return outcome

    def gauge(self, name: str) -> float:
        return self.daemon.workers.gauges()[name]


@asynccontextmanager
async def open_shop(
    folder: Path, clock: Clock | None = None, *, is_new: bool = True, **more: str
) -> AsyncIterator[Shop]:
    async with running_daemon(folder, clock, **more) as daemon:
        shop = Shop(daemon)
        if is_new:
            await create_tenant(shop.service, "test", "acme", 1, TenantLimits())
        yield shop


def held(job: Taken) -> Delivery:
    return Delivery(job.job.id, job.job.token)


def payloads(jobs: Sequence[Taken]) -> list[str]:
    return [job.job.data.decode() for job in jobs]


def waiting(shop: Shop, count: int) -> Callable[[], Awaitable[bool]]:
    """For `until`: whether so many workers wait."""

    async def look() -> bool:
        return shop.gauge("workers_waiting") == count

    return look


def finished(tasks: Sequence[Task[list[Taken]]], count: int) -> Callable[[], Awaitable[list[Task[list[Taken]]] | None]]:
    """For `until`: those that are done, once so many are."""

    async def look() -> list[Task[list[Taken]]] | None:
        done = [task for task in tasks if task.done()]
        return done if len(done) >= count else None

    return look
