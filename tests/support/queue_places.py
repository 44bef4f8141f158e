"""A queue in this process and one over HTTP: for suites that run on both kinds."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from functory.daemon.daemon import Daemon
from functory.queue import Queue, open_queue
from functory.queue.in_process import InProcessLink
from functory.workers.presence import Seen
from functory.workers.worker_queue import WorkerQueue
from store.base import JobRecord, JobState, Store
from tests.support.served_daemon import served_daemon
from tests.support.service import until

KINDS: Final = ("in process", "remote")
Opener = Callable[..., AbstractAsyncContextManager[Queue]]


class Place:
    """Where jobs are, and how to open a queue there."""

    def __init__(self, daemon: Daemon, tenant: str, opener: Opener) -> None:
        self.store: Store = daemon.store
        self.tenant = tenant
        self.open = opener
        self.now_ms = daemon.clock.now_ms
        self.workers = daemon.workers

    async def drain(self, queue: Queue, name: str, *, drained: bool) -> None:
        """On the daemon that serves the queue: others know it later."""
        await self._workers_of(queue).drain(self.tenant, name, drained=drained)

    async def seen(self, queue: Queue, name: str) -> Seen | None:
        """A worker as the daemon that serves the queue knows it."""
        return next((it for it in await self._workers_of(queue).seen(self.tenant) if it.name == name), None)

    def _workers_of(self, queue: Queue) -> WorkerQueue:
        link = queue._link
        return link._daemon.workers if isinstance(link, InProcessLink) else self.workers

    async def record(self, job_id: str) -> JobRecord | None:
        return await self.store.get_job(self.tenant, job_id, now_ms=self.now_ms())

    async def end(self, job_id: str) -> Any:
        async def look() -> JobRecord | None:
            record = await self.record(job_id)
            return record if record is not None and record.state is JobState.ARCHIVED else None

        outcome = (await until(look)).outcome
        assert outcome
        return outcome


@asynccontextmanager
async def open_place(kind: str, folder: Path) -> AsyncIterator[Place]:
    if kind == "remote":
        async with served_daemon(folder) as served:

            @asynccontextmanager
            async def remote(**more: Any) -> AsyncIterator[Queue]:
                async with open_queue(served.url, key=served.key, tenant="acme", **more) as queue:
                    yield queue

            yield Place(served.daemon, "acme", remote)
        return
    url = f"sqlite://{folder}/jobs.db"

    @asynccontextmanager
    async def local(**more: Any) -> AsyncIterator[Queue]:
        async with open_queue(url, poll="50ms", retry_base="10ms", retry_max="20ms", **more) as queue:
            yield queue

    async with local(name="looks on") as first:
        link = first._link
        assert isinstance(link, InProcessLink)
        yield Place(link._daemon, "main", local)
