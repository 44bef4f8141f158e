"""A whole service on a free port: real store, real journal, real listener; the seams are small ones of our own."""

import asyncio
import io
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import aiohttp

from functory.execution.handler_cache import HandlerCache
from functory.execution.outbox import Outbox
from functory.execution.tenant_book import TenantBook
from functory.intake.admission import Admission
from functory.loops.shared import make_shared
from functory.operations.keys import create_key
from functory.operations.protocols import PackageShelf
from functory.operations.service import OperationSettings, Service
from functory.operations.tenants import create_tenant
from functory.tenant_limits import TenantLimits
from functory.vault.vault import KeyPlace, Vault
from functory.web.app import make_app
from functory.web.http.settings import WebSettings
from functory.web.listener import Listener
from functory.webhooks.arrivals import Arrivals
from functory.workers.claims import ClaimDefaults, Claims
from functory.workers.values import OWNER
from functory.workers.worker_queue import WorkerQueue
from journal import Journal
from scheduler import SchedulerOptions, make_policy
from scheduler.retry import RetryPolicy
from store.base import Archive, Code, Outcome, Store
from store.url import open_store
from tests.support.absent_parts import NoConsumers, NoPackages, NoStraight
from tests.support.clocks import FakeClock
from tests.support.fake_daemon import LineIntake, PaperControl, PaperTrials, StoredHandlers, ToldWaiters
from tests.support.service import until

SYSID = "a7"
T0 = 1_800_000_000_000


@dataclass
class Answer:
    status: int
    headers: Any
    body: bytes
    json: Any

    @property
    def code(self) -> str:
        code: str = self.json["error"]["code"]
        return code


class Site:
    """The running service, its parts, and a caller with three keys: acme's, other's and the operator's."""

    def __init__(self, service: Service, listener: Listener, session: aiohttp.ClientSession, clock: FakeClock) -> None:
        self.service = service
        self.listener = listener
        self.session = session
        self.clock = clock
        self.keys: dict[str, str] = {}

    @property
    def store(self) -> Store:
        return self.service.store

    @property
    def control(self) -> PaperControl:
        assert isinstance(self.service.control, PaperControl)
        return self.service.control

    @property
    def intake(self) -> LineIntake:
        assert isinstance(self.service.intake, LineIntake)
        return self.service.intake

    @property
    def waiters(self) -> ToldWaiters:
        assert isinstance(self.service.waiters, ToldWaiters)
        return self.service.waiters

    @property
    def trial_runs(self) -> PaperTrials:
        assert isinstance(self.service.trial_runs, PaperTrials)
        return self.service.trial_runs

    @property
    def workers(self) -> WorkerQueue:
        assert isinstance(self.service.workers, WorkerQueue)
        return self.service.workers

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.port}"

    async def call(self, method: str, path: str, *, key: str | None = "acme", **more: Any) -> Answer:
        """One request; `key` is the name of one of ours, a whole key, or None."""
        headers = dict(more.pop("headers", {}))
        if isinstance(more.get("data"), bytes):
            more["data"] = io.BytesIO(more["data"])  # large bytes at once would be a warning
        if key is not None:
            headers["Authorization"] = f"Bearer {self.keys.get(key, key)}"
        async with self.session.request(method, self.url + path, headers=headers, **more) as response:
            body = await response.read()
            is_json = response.content_type == "application/json"
            return Answer(response.status, response.headers, body, await response.json() if is_json else None)

    async def get(self, path: str, **more: Any) -> Answer:
        return await self.call("GET", path, **more)

    async def post(self, path: str, **more: Any) -> Answer:
        return await self.call("POST", path, **more)

    async def add(self, *payloads: str, path: str = "/acme/job/thumb/add", **more: Any) -> list[str]:
        answer = await self.post(path, data="\n".join(payloads).encode(), **more)
        assert answer.status == 200, answer.body
        ids: list[str] = answer.json["ids"]
        return ids

    async def run(self, count: int = 100, code: Code = Code.OK, jobtype: str = "acme-thumb", **more: Any) -> list[str]:
        """Do what daemons do: claim and archive; the ids that ended."""
        await self.intake.flush()
        now_ms = self.clock.now_ms()
        jobs = await self.store.claim_jobs(jobtype, count, owner=SYSID, lease_ms=30_000, now_ms=now_ms)
        exitcode = 200 if code is Code.OK else 400
        outcome = Outcome(code, exitcode, now_ms, 1500, b"done", b"a log line\n", 1, "L2")._replace(**more)
        await self.store.release_jobs(SYSID, [Archive(it.id, it.token, outcome) for it in jobs], now_ms=now_ms)
        return [job.id for job in jobs]

    async def send(self, head: str, body: str = "") -> asyncio.StreamWriter:
        """A request whose answer nobody reads; `head` is its first line and its own headers."""
        _, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        key = f"Host: x\r\nAuthorization: Bearer {self.keys['acme']}\r\nContent-Length: {len(body)}"
        writer.write(f"{head}\r\n{key}\r\n\r\n{body}".encode())
        return writer

    async def leave(self, writer: asyncio.StreamWriter) -> None:
        """Close the connection, and wait until the service knows it."""

        async def has_gone() -> bool:
            runner = self.listener._runner
            assert runner is not None
            assert runner.server is not None
            return all(connection.transport is None for connection in runner.server.connections)

        writer.transport.abort()
        await until(has_gone)

    async def raw(self, data: bytes, *, read: int = 65536) -> bytes:
        """Bytes to the port and all that comes back until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.listener.port)
        try:
            writer.write(data)
            await writer.drain()
            return await reader.read(read)
        finally:
            writer.close()


@asynccontextmanager
async def _workers(
    store: Store, journal: Journal, intake: LineIntake, clock: FakeClock, control: PaperControl
) -> AsyncIterator[WorkerQueue]:
    """A real one. Nobody tells it of jobs that arrive: tests wake it."""
    shared = make_shared(store, journal, clock, SYSID)
    tenants = TenantBook(store)

    async def meet(name: str, created_ms: int) -> None:
        if tenants.incarnation_of(name) != created_ms:
            await tenants.refresh()

    control.meet = meet
    admission = Admission(store, journal, clock.now_ms)
    outbox = Outbox(replace(shared, owner=OWNER), cast("Any", intake), admission, tenants.limits_of)
    policy = make_policy("deficit", SchedulerOptions(slots=1), lambda: 0.5)
    defaults = ClaimDefaults(RetryPolicy(), 30_000)
    claims = Claims(shared, outbox, tenants, policy, HandlerCache(store, tenants.incarnation_of), defaults)
    since_ms = 0  # of all tenants: the clock stands still, and a drain must be later than that
    workers = WorkerQueue(shared, outbox, claims, 1.0, lambda _: since_ms)
    running = asyncio.create_task(workers.run())
    try:
        yield workers
    finally:
        workers.stop()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def open_site(
    folder: Path,
    *,
    settings: WebSettings | None = None,
    operations: OperationSettings | None = None,
    clock: FakeClock | None = None,
    tenants: Sequence[str] = ("acme", "other"),
    store_url: str = "",
    packages: PackageShelf | None = None,
) -> AsyncIterator[Site]:
    """`tenants` are made; none for a folder that was a site before. The store is a file in it, unless it is named."""
    clock = clock or FakeClock(T0)
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(open_store(store_url or f"sqlite://{folder}/store.db"))
        journal = await stack.enter_async_context(Journal(folder / "journal", SYSID, clock=clock))
        intake, control = LineIntake(journal, store, clock.now_ms), PaperControl(SYSID)
        service = Service(
            store=store,
            journal=journal,
            intake=intake,
            admission=Admission(store, journal, clock.now_ms),
            waiters=ToldWaiters(),
            handlers=StoredHandlers(store),
            trial_runs=PaperTrials(),
            control=control,
            straight=NoStraight(),
            consumers=NoConsumers(),
            workers=await stack.enter_async_context(_workers(store, journal, intake, clock, control)),
            vault=Vault(store, KeyPlace(folder / "secrets.key", may_make=True)),
            packages=packages or NoPackages(),
            arrivals=Arrivals(clock.now_ms()),
            now_ms=clock.now_ms,
            settings=operations or OperationSettings(),
        )
        web_settings = settings or WebSettings(port=0, shutdown_s=1.0, follow_s=0.5)
        listener = Listener(make_app(service, web_settings))
        await listener.start()
        stack.push_async_callback(listener.stop)
        session = await stack.enter_async_context(aiohttp.ClientSession())
        site = Site(service, listener, session, clock)
        for tenant in tenants:
            await create_tenant(service, "test", tenant, 1, TenantLimits())
            _, site.keys[tenant] = await create_key(service, "test", tenant)
        _, site.keys["operator"] = await create_key(service, "test", "")
        yield site
