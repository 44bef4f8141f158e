"""The other side in this process: a store, and a daemon of its own that serves nobody else and runs no handlers.

The daemon brings what a queue needs: lines that are durable before `add` returns, lapsed leases that are found,
retries, quotas. Its journal lies beside the file of the store, in a folder for each process that has the store open; a
folder whose process is gone is used again, with the lines that are in it. Lines in folders that nobody uses again are
moved into the store by whichever process has it open. Queues of several stores may share a folder: none uses or reads
the journal of another store.

Ensures: a daemon that fails ends what its queue asks, with its reason: nobody would start it again.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from functory.config import load_config
from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.errors import ClientError, DaemonFailed, InvalidInput, NotEmpty
from functory.operations import workers as operations
from functory.operations.handlers import find_handler, list_handlers, merge_handler
from functory.operations.job_settings import to_options, unsaid
from functory.operations.principal import Principal
from functory.operations.submit import Submission, submit_jobs
from functory.operations.tenants import create_tenant
from functory.operations.worker_families import Relative, own_memory, with_children
from functory.queue.link import Batch, Given, Wish
from functory.queue.refusals import refusals
from functory.statuses import code_of, retry_after_s_of, status_of
from functory.tenant_limits import TenantLimits
from functory.wire.add_options import AddOptions
from functory.wire.jobs import JobSettings
from functory.wire.scopes import TENANT_SCOPES
from functory.workers.values import Delivery, Order, Report, Verdict
from journal.errors import JournalLocked
from store.errors import Conflict
from store.url import open_store
from vocabulary.names import WORKER, type_of
from vocabulary.origin import origin_of

_MOST_PROCESSES: Final = 1000


class InProcessLink:
    def __init__(self, daemon: Daemon, tenant: str) -> None:
        self._daemon = daemon
        self._who = Principal("in process", tenant, frozenset(TENANT_SCOPES), TenantLimits())
        self._is_ending = asyncio.Event()
        self._running = asyncio.create_task(daemon.run(when_stopping=self._is_ending.set), name="queue")
        self._is_told = False
        self._service = service_of(daemon)

    @classmethod
    async def open(cls, url: str, tenant: str, folder: Path | None, settings: Mapping[str, str]) -> "InProcessLink":
        """folder: where its journal lies; beside the store, if that is a file. Raises UnsupportedStore for a URL that
        is none of a store, InvalidInput for a name that no tenant can have."""
        await asyncio.to_thread(open_store, url)  # nothing is opened yet: only the URL is read
        daemon = await _open_daemon(url, folder or _beside(url), settings)
        link = cls(daemon, tenant)
        try:
            with refusals(_answer_to), suppress(Conflict):  # it is there already
                await create_tenant(link._service, "in process", tenant, 1, TenantLimits())
        except BaseException:
            await link.close()
            raise
        return link

    async def take(self, wish: Wish) -> Batch:
        lease_ms = None if wish.lease_s is None else round(wish.lease_s * 1000)
        order = Order(self._who.tenant, wish.types, wish.limit, wish.wait_s, lease_ms, wish.worker)
        await self._check()
        with refusals(_answer_to):
            taken = await operations.take(self._service, self._who, order)
        if not taken:
            await self._check()  # it answers whoever waits when it ends
        told = await with_children(self._service, self._who, taken, own_memory)
        now_ms = self._service.now_ms()
        jobs = [_given(one, now_ms) for one in told]
        return Batch(jobs, operations.is_draining(self._service, self._who, wish.worker.name))

    async def renew(self, deliveries: Sequence[Delivery], lease_s: float | None) -> list[Verdict]:
        await self._check()
        lease_ms = None if lease_s is None else round(lease_s * 1000)
        return await operations.renew(self._service, self._who, deliveries, lease_ms)

    async def report(self, reports: Sequence[Report]) -> list[Verdict]:
        await self._check()
        return await operations.report(self._service, self._who, reports)

    async def give_back(self, deliveries: Sequence[Delivery], goodbye: str) -> list[Verdict]:
        await self._check()
        return await operations.give_back(self._service, self._who, deliveries, goodbye=goodbye)

    async def add(self, job_type: str, payloads: Sequence[bytes], options: AddOptions) -> list[str]:
        await self._check()
        names = (options.unique or "", options.parent or "")
        with refusals(_answer_to):
            fields: dict[str, Any] = options.said()
            settings = JobSettings(**fields)
            said, keeps = to_options(settings, self._service.now_ms()), unsaid(settings)
            jobs = [Submission(payload, said, *names, keeps) for payload in payloads]
            return await submit_jobs(self._service, self._who, job_type, jobs)

    async def register(self, job_type: str, fields: Mapping[str, object]) -> None:
        await self._check()
        with refusals(_answer_to):
            await merge_handler(self._service, self._who, job_type, {"lang": WORKER, **fields})

    async def language(self, job_type: str) -> str | None:
        stored = await find_handler(self._service, self._who.tenant, job_type)
        return None if stored is None else stored.lang

    async def worker_types(self) -> list[str] | None:
        rows = await list_handlers(self._service, self._who.tenant)
        return [type_of(row.jobtype) for row in rows if row.lang == WORKER]

    async def close(self) -> None:
        self._daemon.quit()
        await asyncio.wait([self._running])
        if not self._is_told:
            await self._check()

    async def _check(self) -> None:
        """Raises DaemonFailed if the daemon has failed. One that is about to end has ended then."""
        if not self._is_ending.is_set():
            return
        await asyncio.wait([self._running])
        if not self._running.cancelled() and (error := self._running.exception()) is not None:
            self._is_told = True
            raise DaemonFailed(f"the queue has ended: {error}") from error


async def _open_daemon(url: str, folder: Path, settings: Mapping[str, str]) -> Daemon:
    """In the first folder that no other process uses, and that has no lines of another store."""
    chosen = {"role": "api", "min_isolation": "L0", "all_tenants_trusted": "true", "log_jobs": "false", **settings}
    for number in range(_MOST_PROCESSES):
        config = load_config({**chosen, "store": url, "data_dir": str(folder / str(number))}, {})
        daemon = Daemon(config.settings, beside=folder)
        try:
            await daemon.open()
        except (JournalLocked, NotEmpty):
            continue
        return daemon
    raise InvalidInput(f"{folder} has {_MOST_PROCESSES} folders, all in use or with jobs of other stores")


def _answer_to(error: Exception) -> ClientError:
    status = status_of(error)
    detail = getattr(error, "detail", {})
    return ClientError(status, code_of(error), str(error), detail, retry_after_s_of(error, status))


def _beside(url: str) -> Path:
    if not url.startswith("sqlite:"):
        raise InvalidInput("give folder=, a place for the journal of this process: the store is not a file")
    path = Path(unquote(urlsplit(url).path))
    return path.with_name(path.name + ".queues")


def _given(one: Relative, now_ms: int) -> Given:
    taken = one.taken
    job = taken.job
    origin = origin_of(job.options)
    return Given(
        job.id,
        job.token,
        type_of(job.jobtype),
        job.data,
        job.attempts,
        max(job.dt_ms - now_ms, 0) / 1000,
        None if taken.timeout_ms is None else taken.timeout_ms / 1000,
        is_renewable=job.retry_after_ms is None,
        children=json.loads(one.children) if one.children else [],
        follows=None if origin is None else origin._asdict(),
    )
