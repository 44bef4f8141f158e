"""The runner as the rest of Functory sees it: give it jobs of one type and their handler, hear how each job
stopped.

Guarantees: every job given to `run_jobs` is either reported once through `on_stopped` or returned as given
back; nothing that a tenant's code does raises here. Chooses the engine, gets a context from the pool and splits
what is too big for one message. How many jobs to give it, leases, retries and the store are the caller's.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from handlers.errors import HandlerError
from handlers.languages import LANGUAGES, Language
from handlers.model import Handler
from runner import outcome
from runner.batch import OnStopped
from runner.context import ProcessContext
from runner.errors import ContextEndedError, LaunchError, RefusedError, RunnerError
from runner.http_engine import HttpEngine
from runner.launch import Launcher, LaunchSpec, Level
from runner.limits import ContextLimits
from runner.modules import CompiledModules
from runner.outcome import Stopped
from runner.pool import ContextKey, Pool, PoolSettings
from runner.protocol import BatchJob
from runner.targets import Network

_MESSAGE_JOBS: Final = 1000
_MESSAGE_BYTES: Final = 8 << 20
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """What an operator may set; the defaults suit a small machine."""

    limits: ContextLimits = field(default_factory=ContextLimits)
    pool: PoolSettings = field(default_factory=PoolSettings)
    module_cache_bytes: int = 256 << 20
    http_allowed: tuple[Network, ...] = ()  # private networks that http handlers may call


class Runner:
    """`start` and `close` are idempotent; `close` ends every context and leaves no task behind.

    Await or cancel the calls of `run_jobs` before `close`: a batch whose context is ended under it reports a crash.
    """

    def __init__(self, launcher: Launcher, settings: RunnerSettings | None = None) -> None:
        self._settings = settings or RunnerSettings()
        self._limits = self._settings.limits
        self._launcher = launcher
        self._pool: Pool[ProcessContext] = Pool(self._settings.pool)
        self._http = HttpEngine(self._limits, allowed=self._settings.http_allowed)
        self._modules = CompiledModules(self._settings.module_cache_bytes)
        self._running: dict[object, dict[str, None]] = {}
        self._jobtypes: dict[ContextKey, set[str]] = {}
        self._programs: dict[str, _Program] = {}

    @property
    def level(self) -> Level:
        return self._launcher.level

    async def start(self) -> None:
        await self._launcher.start()

    async def close(self) -> None:
        await self._pool.close()
        await self._http.close()
        await self._launcher.close()

    async def check(self, jobtype: str, handler: Handler) -> None:
        """Parse the handler's texts in a sandbox.

        Raises HandlerSyntaxError, or RunnerError when that cannot be done.
        """
        language = LANGUAGES[handler.lang]
        if not language.in_context:
            return
        code = await self._check(jobtype, handler)
        if code:
            self._modules.put((_tenant(jobtype), handler.version), code)

    async def run_jobs(
        self, jobtype: str, jobs: Sequence[BatchJob], handler: Handler, on_stopped: OnStopped
    ) -> list[str]:
        """Run `jobs` in order; `on_stopped` hears of them in chunks, as they stop. Returns the ids given
        back.

        `handler.network` is taken as it stands: whether the tenant may have the network is the caller's to
        decide.
        """
        run = _Run(self, jobtype, handler, on_stopped, jobs)
        self._running[run] = run.ids
        try:
            for batch in _messages(jobs, min(handler.max_batch or _MESSAGE_JOBS, _MESSAGE_JOBS)):
                if not await self._run_batch(run, batch):
                    break
        finally:
            del self._running[run]
        if run.error is not None:
            raise run.error
        return list(run.ids)

    def running_jobs(self) -> list[str]:
        """Ids of all jobs that were given to `run_jobs` and have not stopped: their leases need renewing."""
        return [job_id for ids in self._running.values() for job_id in ids]

    def warm_jobtypes(self) -> frozenset[str]:
        """Jobtypes that an idle context is ready for: hints for the scheduler."""
        warm = self._pool.warm()
        return frozenset(jobtype for key in warm for jobtype in self._jobtypes.get(key, ()))

    async def prewarm(self, jobtype: str, handler: Handler) -> bool:
        """Have a context with this handler loaded before its first job.

        False when there is no room, or it does not load.
        """
        language = LANGUAGES[handler.lang]
        if not language.in_context:
            return True
        key = ContextKey.of(_tenant(jobtype), handler)

        async def start() -> ProcessContext:
            context = await self._start(jobtype, handler, language)
            try:
                await context.load(jobtype, handler, await self._attachment(jobtype, handler))
            except BaseException:
                await context.close()
                raise
            return context

        try:
            made = await self._pool.prewarm(key, start)
        except (RunnerError, HandlerError):
            return False
        self._jobtypes.setdefault(key, set()).add(jobtype)
        return made

    async def retire(self, jobtype: str, handler: Handler) -> None:
        """A handler was replaced or deleted: end its idle contexts. Batches under way finish."""
        key = ContextKey.of(_tenant(jobtype), handler)
        self._jobtypes.pop(key, None)
        await self._pool.retire(lambda other: other == key)

    async def sweep(self) -> None:
        """Upkeep: end contexts that nobody uses, forget what is known of those that are gone."""
        await self._pool.sweep()
        warm = self._pool.warm()
        for key in [key for key in self._jobtypes if key not in warm]:
            del self._jobtypes[key]

    def gauges(self) -> dict[str, int]:
        return {**self._pool.gauges(), "running_jobs": sum(map(len, self._running.values()))}

    # Steps
    # ------------------------------------------------------------------------------------------------------

    async def _run_batch(self, run: "_Run", batch: Sequence[BatchJob]) -> bool:
        """One message's worth of jobs. False when the rest is to be given back."""
        language = LANGUAGES[run.handler.lang]
        if not language.in_context:
            await self._http.run(run.jobtype, run.handler, batch, run.stopped)
            return True
        try:
            key = ContextKey.of(_tenant(run.jobtype), run.handler)
            attachment = await self._attachment(run.jobtype, run.handler)
            async with self._pool.borrow(key, lambda: self._start(run.jobtype, run.handler, language)) as context:
                left = await context.run(run.jobtype, run.handler, batch, run.stopped, attachment)
                self._jobtypes.setdefault(key, set()).add(run.jobtype)
                return not left
        except (RunnerError, HandlerError) as err:
            run.stopped(self._not_started(err, batch))
            return True

    def _not_started(self, err: Exception, batch: Sequence[BatchJob]) -> list[Stopped]:
        """The handler could not be brought to run: an error of the whole batch, and no job was started."""
        exitcode = outcome.BROKEN if isinstance(err, RefusedError | HandlerError) else outcome.NOT_STARTED
        prefix = "" if isinstance(err, RefusedError | HandlerError) else "the context could not be started: "
        text = f"{prefix}{err}".encode("utf-8", "replace")
        return [
            Stopped(job.id, outcome.name_of(exitcode), exitcode, text, b"", 0.0, (), self._launcher.level)
            for job in batch
        ]

    async def _start(self, jobtype: str, handler: Handler, language: Language) -> ProcessContext:
        program = self._programs.get(language.name)
        if program is None:
            program = self._programs[language.name] = await asyncio.to_thread(_look_up, language)
        spec = LaunchSpec(
            tenant=_tenant(jobtype),
            argv=program.argv,
            env={"PATH": _PATH, "LANG": "C.UTF-8", **handler.env},
            limits=self._limits.for_launch(handler),
            network=handler.network,
            readable=program.readable,
            template=language.template,
            preload=program.preload,
        )
        return await ProcessContext.start(self._launcher, spec, self._limits, memory_mb=handler.memory_mb)

    async def _attachment(self, jobtype: str, handler: Handler) -> bytes:
        if handler.lang != "wasm":
            return b""
        key = (_tenant(jobtype), handler.version)
        return await self._modules.get(key, lambda: self._check(jobtype, handler))

    async def _check(self, jobtype: str, handler: Handler) -> bytes:
        context = await self._start(jobtype, handler, LANGUAGES[handler.lang])
        try:
            return await context.check(jobtype, handler)
        except ContextEndedError as err:
            raise ContextEndedError(f"the text of the handler could not be checked: {err}") from err
        finally:
            await context.close()


class _Program(NamedTuple):
    """What a language needs of this machine. Looked up once: it costs more than starting a context."""

    argv: tuple[str, ...]
    readable: tuple[Path, ...]
    preload: tuple[Path, ...]


def _look_up(language: Language) -> _Program:
    try:
        return _Program(language.argv(), language.readable(), language.preload())
    except FileNotFoundError as err:
        raise LaunchError(f"{err} is not installed on this machine, {language.name} needs it") from err


class _Run:
    """One call of `run_jobs`: which of its jobs have not stopped, and whether the caller's ear failed."""

    __slots__ = ("error", "handler", "ids", "jobtype", "on_stopped", "runner")

    def __init__(
        self,
        runner: Runner,
        jobtype: str,
        handler: Handler,
        on_stopped: OnStopped,
        jobs: Sequence[BatchJob],
    ) -> None:
        self.runner = runner
        self.jobtype = jobtype
        self.handler = handler
        self.on_stopped = on_stopped
        self.ids: dict[str, None] = dict.fromkeys([job.id for job in jobs])
        self.error: Exception | None = None

    def stopped(self, stopped: Sequence[Stopped]) -> None:
        pop = self.ids.pop
        for one in stopped:
            pop(one.id, None)
        try:
            self.on_stopped(stopped)
        except Exception as err:  # noqa: BLE001  the caller's error is the caller's: raised from run_jobs, at its end
            self.error = self.error or err


def _tenant(jobtype: str) -> str:
    return jobtype.partition("-")[0]


def _messages(jobs: Sequence[BatchJob], max_jobs: int) -> Iterator[Sequence[BatchJob]]:
    """Batches that fit one message: bounded in number and, unless a single job is bigger, in bytes."""
    if len(jobs) <= max_jobs and sum([len(job.data) for job in jobs]) <= _MESSAGE_BYTES:
        if jobs:
            yield jobs
        return
    start = size_bytes = 0
    for at, job in enumerate(jobs):
        size_bytes += len(job.data)
        if at > start and (at - start >= max_jobs or size_bytes > _MESSAGE_BYTES):
            yield jobs[start:at]
            start, size_bytes = at, len(job.data)
    if start < len(jobs):
        yield jobs[start:]
