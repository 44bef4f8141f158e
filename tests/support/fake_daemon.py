"""Small implementations of what operations ask of a daemon, for tests of the layers above them.

`LineIntake` really moves lines from a journal to a store; the others remember what they were asked.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from functory.execution.handler_document import decode_handler
from functory.intake.job_options import PLAIN, JobOptions, to_attributes, to_new_jobs
from functory.operations.protocols import Health
from handlers.errors import HandlerSyntaxError
from handlers.model import Handler
from journal import Journal, Settled
from runner.glimpse import Glimpse
from runner.launch import Level
from runner.outcome import Stopped
from store.base import Store
from store.errors import StoreUnavailable
from vocabulary.names import tenant_of
from vocabulary.new_job import NewJob


class LineIntake:
    """Ingest on demand: nothing reaches the store before `flush`."""

    def __init__(self, journal: Journal, store: Store, now_ms: Callable[[], int]) -> None:
        self._journal = journal
        self._store = store
        self._now_ms = now_ms
        self._moving = asyncio.Lock()
        self.is_down = False
        self.flushes = 0
        self.gate: asyncio.Event | None = None

    async def write(
        self, jobtype: str, lines: list[bytes], options: JobOptions = PLAIN, notes: Sequence[str] = ()
    ) -> list[str]:
        return await self._journal.write(jobtype, lines, to_attributes(options), notes)

    def begin(self, jobtype: str, lines: list[bytes], told: Settled) -> list[str]:
        return list(self._journal.begin_write(jobtype, lines, {}, (), told))

    async def flush(self, tenant: str = "") -> None:
        self.flushes += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.is_down:
            raise StoreUnavailable("the store is away: /secret/path")
        await self._journal.wsync()
        async with self._moving:  # lines that another flush holds are not in the store yet
            while reservation := await self._journal.read_reserve(10_000, 60):
                records = await self._journal.read(reservation)
                await self._store.add_jobs(to_new_jobs(records, self._now_ms()), now_ms=self._now_ms())
                await self._journal.rsync(reservation)


class ToldWaiters:
    """Jobs end when the test says so."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}
        self.waiting = asyncio.Event()
        self.max_wait_s = 60.0

    async def wait(self, job_id: str, timeout_s: float) -> bool:
        event = self._events.setdefault(job_id, asyncio.Event())
        self.waiting.set()
        try:
            async with asyncio.timeout(min(timeout_s, self.max_wait_s)):
                await event.wait()
        except TimeoutError:
            return False
        event.clear()
        return True

    def has_ended_elsewhere(self, job_id: str) -> bool:
        return False

    def tell(self, job_id: str) -> None:
        self._events.setdefault(job_id, asyncio.Event()).set()


class StoredHandlers:
    """Reads the handler in force each time."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, jobtype: str) -> Handler | None:
        stored = await self._store.get_handler(tenant_of(jobtype), jobtype)
        return None if stored is None else decode_handler(stored.data)


class PaperTrials:
    """Runs nothing: a body that says `syntax error` has one, and a run echoes its payload."""

    def __init__(self) -> None:
        self.retired: list[tuple[str, Handler]] = []
        self.refusal: Exception | None = None
        self.is_stuck = False
        self.log_dropped = 0
        self.carried: bytes | None = None
        self.started = asyncio.Event()
        self.cancelled = asyncio.Event()

    async def check(self, jobtype: str, handler: Handler) -> None:
        if self.refusal is not None:
            raise self.refusal
        if "syntax error" in handler.body:
            raise HandlerSyntaxError("body", "invalid syntax", line=3, column=7)

    async def invoke(self, jobtype: str, handler: Handler, payload: bytes, *, check: bool = False) -> Stopped:
        if check:
            await self.check(jobtype, handler)
        self.started.set()
        if self.is_stuck:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled.set()
        new_jobs = (NewJob("mail", b"\xff", "unique=daily"),)
        stopped = Stopped("", "ok", 200, b"echo " + payload, b"printed\n", 1.5, new_jobs, Level.L2)
        return stopped._replace(log_dropped=self.log_dropped, carried=self.carried)

    async def retire(self, jobtype: str, handler: Handler) -> None:
        self.retired.append((jobtype, handler))


class PaperControl:
    """A daemon that does nothing and remembers what it was told."""

    def __init__(self, sysid: str = "a7") -> None:
        self.sysid = sysid
        self.is_paused = False
        self.has_quit = False
        self.meet: Callable[[str, int], Awaitable[None]] | None = None
        """Told of tenants, for what is real of this daemon."""
        self.wakes = 0
        self.cancels: list[str] = []
        self.told: list[str] = []
        """What the other daemons would have been told of."""
        self.problems: dict[str, str] = {}
        self.runs = frozenset({"python", "sh"})
        self.unable: dict[str, str] = {}
        self.held_by = "turn"
        self.unreadable_handlers: dict[str, str] = {}
        self.isolation = "L2"
        self.glimpses: dict[tuple[str, str], tuple[bytes, bytes]] = {}
        self.attempts: dict[tuple[str, str], int] = {}
        """Of those, if it is not the first."""
        """What jobs that run have printed, and their progress."""

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False

    def quit(self) -> None:
        self.has_quit = True

    def health(self) -> Health:
        return Health(is_live=True, is_ready=not self.problems, isolation=self.isolation, problems=self.problems)

    def gauges(self) -> dict[str, float]:
        return {"contexts_warm": 3, "loop_lag_seconds": 0.25}

    def egress_by_tenant(self) -> dict[str, dict[str, float]]:
        return {"acme": {"connections": 2, "sent_bytes_total": 1234}}

    def languages(self) -> frozenset[str]:
        return self.runs

    def language_trouble(self, lang: str) -> str:
        return self.unable.get(lang, "")

    def hold(self, jobtype: str) -> str:
        return self.held_by

    def unreadable(self, jobtype: str) -> str:
        return self.unreadable_handlers.get(jobtype, "")

    def cancel_run(self, tenant: str, job_id: str) -> bool:
        return False

    def glimpse(self, tenant: str, job_id: str, offset: int = 0) -> Glimpse | None:
        if (tenant, job_id) not in self.glimpses:
            return None
        text, progress = self.glimpses[tenant, job_id]
        return Glimpse(text[offset:], len(text), progress, self.attempts.get((tenant, job_id), 1))

    async def meet_tenant(self, name: str, created_ms: int) -> None:
        if self.meet is not None:
            await self.meet(name, created_ms)

    async def tenants_changed(self) -> None:
        pass

    def types_changed(self, tenant: str) -> None:
        self.wakes += 1

    def wake(self) -> None:
        self.wakes += 1

    def cancelled(self, job_id: str) -> None:
        self.cancels.append(job_id)

    async def worker_left(self, tenant: str, name: str) -> None:
        self.told.append(f"{name} of {tenant}")

    def consumers_changed(self) -> None:
        self.told.append("consumers")

    def daemons_changed(self) -> None:
        self.told.append("daemons")

    def keys_changed(self) -> None:
        self.told.append("keys")
