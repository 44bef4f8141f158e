"""The verbs on consumers, checked."""

from collections.abc import Sequence

from store.checked.core import CheckedCore
from store.checks import check_lease, check_new_job, check_range, check_text, check_time
from store.errors import InvalidValue
from store.names import MAX_BATCH, check_batch, check_jobtype, check_owner, check_tenant, checked_tenant_of
from store.protocol.consumers import ConsumerShelf
from store.values.consumers import (
    MAX_INDEX,
    MAX_WINDOW,
    ConsumerRecord,
    EndReport,
    HoldReport,
    WindowMove,
    WindowReport,
)
from store.values.jobs import NewJob
from vocabulary.names import is_type


class CheckedConsumers(CheckedCore, ConsumerShelf):
    async def set_consumer(self, consumer: ConsumerRecord, *, start_index: int | None = None) -> bool:
        _check_name(consumer.tenant, consumer.name)
        check_jobtype(consumer.tenant, consumer.jobtype)
        check_text("settings", consumer.settings)
        check_time("created_ms", consumer.created_ms)
        if start_index is not None:
            check_range("start_index", start_index, 1, MAX_INDEX)
        return await self._back.set_consumer(consumer, start_index=start_index)

    async def get_consumer(self, tenant: str, name: str) -> ConsumerRecord | None:
        _check_name(tenant, name)
        return await self._back.get_consumer(tenant, name)

    async def list_consumers(self, tenant: str | None = None) -> list[ConsumerRecord]:
        if tenant is not None:
            check_tenant(tenant)
        return await self._back.list_consumers(tenant)

    async def set_consumer_running(self, tenant: str, name: str, *, running: bool) -> None:
        _check_name(tenant, name)
        await self._back.set_consumer_running(tenant, name, running=running)

    async def end_consumer(
        self, tenant: str, name: str, *, now_ms: int, limit: int = 1000, only_ending: bool = False
    ) -> EndReport:
        _check_name(tenant, name)
        check_time("now_ms", now_ms)
        check_range("limit", limit, 1, MAX_BATCH)
        return await self._back.end_consumer(tenant, name, now_ms=now_ms, limit=limit, only_ending=only_ending)

    async def lead_consumers(self, owner: str, *, lease_ms: int, now_ms: int, limit: int = 100) -> list[ConsumerRecord]:
        check_owner(owner)
        check_lease(lease_ms, now_ms)
        check_range("limit", limit, 0, MAX_BATCH)
        return await self._back.lead_consumers(owner, lease_ms=lease_ms, now_ms=now_ms, limit=limit)

    async def resign_consumers(self, owner: str) -> None:
        check_owner(owner)
        await self._back.resign_consumers(owner)

    async def move_window(self, move: WindowMove, *, now_ms: int) -> WindowReport:
        _check_name(move.tenant, move.name)
        check_time("now_ms", now_ms)
        check_text("note", move.note)
        check_range("processed", move.processed, 0, MAX_INDEX)
        _check_span(move.after, move.released)
        return await self._back.move_window(move, now_ms=now_ms)

    async def append_job(self, tenant: str, name: str, token: int, seq: int, job: NewJob, *, now_ms: int) -> bool:
        _check_name(tenant, name)
        check_range("seq", seq, 1, MAX_INDEX)
        check_new_job(job)
        check_jobtype(tenant, job.jobtype)
        check_time("now_ms", now_ms)
        if job.parent or job.unique:
            raise InvalidValue("a job that is pulled has neither a parent nor a unique name")
        return await self._back.append_job(tenant, name, token, seq, job, now_ms=now_ms)

    async def look_at_window(self, tenant: str, jobtype: str, *, after: int, until: int) -> WindowReport:
        check_jobtype(tenant, jobtype)
        _check_span(after, until)
        return await self._back.look_at_window(tenant, jobtype, after=after, until=until)

    async def get_last_numbers(self, jobtypes: Sequence[str]) -> list[int]:
        check_batch("get_last_numbers", len(jobtypes))
        for jobtype in jobtypes:
            checked_tenant_of(jobtype)
        return await self._back.get_last_numbers(jobtypes)

    async def hold_jobs(
        self, tenant: str, name: str, token: int, *, after: int, now_ms: int, limit: int = 1000
    ) -> HoldReport:
        _check_name(tenant, name)
        check_range("after", after, 0, MAX_INDEX)
        check_time("now_ms", now_ms)
        check_range("limit", limit, 1, MAX_BATCH)
        return await self._back.hold_jobs(tenant, name, token, after=after, now_ms=now_ms, limit=limit)


def _check_name(tenant: str, name: str) -> None:
    check_tenant(tenant)
    if not is_type(name):
        raise InvalidValue(f"{name!r:.80} is not the name of a consumer: it reads like a type, [A-Za-z0-9_.:-]")


def _check_span(after: int, until: int) -> None:
    check_range("after", after, 0, MAX_INDEX)
    check_range("the end of the window", until, 0, MAX_INDEX)
    if until - after > MAX_WINDOW:
        raise InvalidValue(f"a window of {until - after} numbers, at most {MAX_WINDOW}")
