"""The runner as the rest of Functory sees it: give it jobs of one type and their handler, hear how each job
stopped.

Guarantees: every job given to `run_jobs` is either reported once through `on_stopped` or returned as given
back; nothing that a tenant's code does raises here. Chooses the engine, gets a context from the pool and splits
what is too big for one message. How many jobs to give it, leases, retries and the store are the caller's.
"""

import asyncio
from collections.abc import Callable, Container, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from handlers.errors import HandlerError
from handlers.hosts import ANY_HOST, HostPattern
from handlers.languages import LANGUAGES, Language
from handlers.model import Handler
from runner import outcome
from runner.batch import OnStopped
from runner.context import ProcessContext
from runner.egress import LOWEST_LEVEL, Egress, NoEgress, environment, let_out
from runner.errors import (
    ContextEndedError,
    LaunchError,
    RefusedError,
    RunnerError,
    SecretMissingError,
    SecretsLockedError,
)
from runner.flow import Flow, FlowLimits
from runner.glimpse import Glimpse
from runner.http_engine import HttpEngine, posted_together
from runner.launch import Launcher, LaunchSpec, Level
from runner.limits import ContextLimits
from runner.live_masker import LiveMasker
from runner.masking import MaskedReports, SearchTurns
from runner.messages import MOST_JOBS, messages
from runner.modules import CompiledModules
from runner.network_hint import with_hints
from runner.outcome import Stopped
from runner.packages.source import NoPackageSource, PackageSource
from runner.pool import ContextKey, Pool, PoolSettings
from runner.programs import Programs, with_packages
from runner.protocol import BatchJob
from runner.resolver import Resolver
from runner.run import Run
from runner.secrets import NO_SECRETS, GivenSecrets, NoSecretSource, SecretSource
from runner.targets import Network, Targets
from runner.trees import NoTreeSource, TreeSource
from runner.warm_types import WarmTypes
from vocabulary.names import tenant_of
from vocabulary.sizes import MIB

_BASE_ENVIRONMENT: Final[dict[str, str]] = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """What an operator may set; the defaults suit a small machine."""

    limits: ContextLimits = field(default_factory=ContextLimits)
    pool: PoolSettings = field(default_factory=PoolSettings)
    flow: FlowLimits = field(default_factory=FlowLimits)
    module_cache_bytes: int = 64 << 20
    http_allowed: tuple[Network, ...] = ()  # private networks that http handlers may call
    hosts_allowed: tuple[HostPattern, ...] = (ANY_HOST,)  # and hosts by name


class Runner:
    """`start` and `close` are idempotent; `close` ends every context and leaves no task behind.

    Await or cancel the calls of `run_jobs` before `close`: a batch whose context is ended under it reports a crash.
    """

    def __init__(
        self,
        launcher: Launcher,
        settings: RunnerSettings | None = None,
        secrets: SecretSource | None = None,
        packages: PackageSource | None = None,
        egress: Egress | None = None,
        trees: TreeSource | None = None,
    ) -> None:
        self._settings = settings or RunnerSettings()
        self._limits = self._settings.limits
        self._launcher = launcher
        self._secrets = secrets or NoSecretSource()
        self._packages = packages or NoPackageSource()
        self._egress = egress or NoEgress()
        self._trees = trees or NoTreeSource()
        self._pool: Pool[ProcessContext] = Pool(self._settings.pool)
        self._most_memory_mb = max(self._pool.max_context_bytes // MIB, 1)
        self.flow = Flow(self._settings.flow)
        self._search_turns = SearchTurns()
        targets = Targets(self._settings.hosts_allowed, self._settings.http_allowed)
        self._http = HttpEngine(self._limits, flow=self.flow, resolver=Resolver(targets))
        self._modules = CompiledModules(self._settings.module_cache_bytes)
        self._running: dict[Run, dict[str, int]] = {}
        self._warm = WarmTypes(self._pool.idle_keys)
        self._programs = Programs()

    @property
    def level(self) -> Level:
        return self._launcher.level

    async def start(self) -> None:
        await self._launcher.start()

    async def close(self) -> None:
        await self._pool.close()
        await self._http.close()
        await self._launcher.close()

    async def try_language(self, name: str) -> str:
        """Start a context of the language. Returns "" when it came up, otherwise the reason why none does."""
        language = LANGUAGES[name]
        if not language.in_context:
            return ""
        try:
            context = await self._start("-", Handler(lang=name, body=""), language)
        except LaunchError as err:
            return str(err)
        try:
            await context.hello()
        except ContextEndedError as err:
            return f"its context {err}"
        finally:
            await context.close()
        return ""

    def can_run(self, jobtype: str, handler: Handler, languages: Container[str]) -> bool:
        """Whether it is in one of the languages, and has here what it needs: secrets opened, hosts to call, packages.
        If those are not there, they are got: whoever owns them tells when they are."""
        if handler.lang not in languages or (handler.secrets and self.why_locked(jobtype, handler)):
            return False
        if handler.hosts and self.level < LOWEST_LEVEL:
            return False
        return handler.lock is None or self._packages.is_ready(tenant_of(jobtype), handler.lock)

    def why_locked(self, jobtype: str, handler: Handler) -> str:
        """Why the secrets that the handler names cannot be opened here; "" if they can, as far as is known."""
        return self._secrets.why_locked(tenant_of(jobtype), handler.secrets) if handler.secrets else ""

    def hold_memory(self, size_bytes: int) -> AbstractAsyncContextManager[None]:
        """Keep so much of the memory of contexts free for something else."""
        return self._pool.hold_memory(size_bytes)

    async def check(self, jobtype: str, handler: Handler, *, incarnation: int = 0) -> None:
        """Parse the handler's texts in a sandbox. `incarnation` tells the tenant from others that had its name.

        Raises HandlerSyntaxError, or RunnerError when that cannot be done.
        """
        language = LANGUAGES[handler.lang]
        if not language.in_context:
            return
        code = await self._check(jobtype, handler, incarnation)
        if code:
            self._modules.put((tenant_of(jobtype), handler.version, incarnation), code)

    async def run_jobs(
        self,
        jobtype: str,
        jobs: Sequence[BatchJob],
        handler: Handler,
        on_stopped: OnStopped,
        may_start: Callable[[], bool] = lambda: True,
        *,
        incarnation: int = 0,
    ) -> list[str]:
        """Run `jobs` in order; `on_stopped` hears of them in chunks, as they stop. Returns the ids given
        back.

        `may_start` is asked each time before some of the jobs are started. At False they and the rest are given
        back. `handler.network` is taken as it stands: whether the tenant may have the network is the caller's to
        decide. `incarnation` tells the tenant from others that had its name.
        """
        run = Run(jobtype, handler, on_stopped, may_start, jobs, incarnation)
        self._running[run] = run.ids
        try:
            for batch in messages(jobs, min(handler.max_batch or MOST_JOBS, MOST_JOBS)):
                if not await self._run_batch(run, batch):
                    break
        finally:
            del self._running[run]
        if run.error is not None:
            raise run.error
        return list(run.ids)

    def cancel(self, tenant: str, job_id: str) -> bool:
        """Have a job end that was given to `run_jobs`: it is reported as cancelled, whatever it does. True if it is
        running and was asked to stop now. One that has not begun is stopped when its turn comes."""
        asked = [run.cancel(job_id) for run in self._running if run.tenant == tenant and job_id in run.ids]
        return any(asked)

    def glimpse(self, tenant: str, job_id: str, offset: int) -> Glimpse | None:
        """A look at a job of the tenant while it runs; None if it was not given to `run_jobs`, or has stopped."""
        for run in self._running:
            if run.tenant == tenant and job_id in run.ids:
                return run.glimpse(job_id, offset)
        return None

    def running_tenant(self, job_id: str) -> str:
        """Whose job that is, of those that were given to `run_jobs` and have not stopped; "" for any other."""
        return next((run.tenant for run in self._running if job_id in run.ids), "")

    def warm_jobtypes(self) -> AbstractSet[str]:
        """Jobtypes that an idle context is ready for: hints for the scheduler. Changes with the contexts."""
        return self._warm

    async def retire(self, jobtype: str, handler: Handler) -> None:
        """A handler was replaced or deleted: end its contexts. Batches under way finish."""
        key = ContextKey.of(tenant_of(jobtype), handler)
        self._warm.forget(lambda other: other[:2] == key[:2])
        await self._pool.retire(lambda other: other[:2] == key[:2])

    async def end_tenant(self, tenant: str, spared: int | None = None) -> None:
        """A tenant was suspended or deleted: end its contexts, those in use too. spared: the incarnation that has its
        name now, and keeps its own."""

        def is_over(key: ContextKey) -> bool:
            return key.tenant == tenant and key.incarnation != spared

        self._modules.forget(tenant)
        self._egress.end_tenant(tenant, is_back=spared is not None)
        self._warm.forget(is_over)
        await self._pool.end(is_over)

    async def sweep(self) -> None:
        """Upkeep: end contexts that nobody uses, forget what is known of those that are gone."""
        await self._pool.sweep()
        self._warm.forget(lambda key: key not in self._pool.idle_keys)

    def when_burnt(self, listener: Callable[[str, float], None]) -> None:
        """The listener is told of processor time that idle contexts of a tenant have used."""
        self._pool.when_burnt(listener)

    def gauges(self) -> dict[str, int]:
        return {**self._pool.gauges(), "running_jobs": sum(map(len, self._running.values()))}

    # Steps
    # ------------------------------------------------------------------------------------------------------

    async def _run_batch(self, run: Run, batch: Sequence[BatchJob]) -> bool:
        """One message's worth of jobs. False when the rest is to be given back."""
        language = LANGUAGES[run.handler.lang]
        if not language.in_context:
            return await self._sign_and_post(run, batch)
        deliver = with_hints(run.handler, run.stopped)
        reports: MaskedReports | None = None
        try:
            given = NO_SECRETS
            if run.handler.secrets:
                given = await self._secrets.read(run.tenant, run.handler.secrets)
                reports = self._masked(run, given, deliver)
                deliver = reports.put
            return await self._run_in_context(run, batch, language, given, deliver)
        except SecretsLockedError:  # no fault of the jobs: a daemon that has the key may run them
            return False
        except (RunnerError, HandlerError) as err:
            deliver(self._not_started(err, [job for job in batch if job.id in run.ids]))
            return True
        finally:
            run.stop = run.peek = None
            if reports is not None:
                await reports.finish()

    def _masked(self, run: Run, given: GivenSecrets, deliver: OnStopped) -> MaskedReports:
        reports = MaskedReports(deliver, self._limits.reply_bytes, self._search_turns, self.flow, run.tenant)
        reports.masker = given.masker
        return reports

    async def _run_in_context(
        self, run: Run, batch: Sequence[BatchJob], language: Language, given: GivenSecrets, deliver: OnStopped
    ) -> bool:
        handler = run.handler
        key = ContextKey.of(run.tenant, handler, run.incarnation, given.stamp)
        if given.stamp:
            await self._pool.retire(lambda other: other.is_outdated_by(key))
        attachment = await self._attachment(run.jobtype, handler, run.incarnation) if language.is_binary else b""
        start = partial(self._start, run.jobtype, handler, language, given)
        seat = await self._pool.take(key, start, self._memory_mb(handler) * MIB)
        try:
            if not run.may_start():  # to get a context may have taken long
                return False
            if run.cancelled:
                batch = run.without_cancelled(batch, self._launcher.level)
            if not batch:
                return True
            context = seat.context
            run.stop, run.peek = context.recheck, context.peek
            left = await context.run(run.jobtype, handler, batch, deliver, attachment, run.cancelled)
            self._warm.loaded(run.jobtype, key)
            return not left
        finally:
            self._pool.give_back(seat)

    async def _sign_and_post(self, run: Run, batch: Sequence[BatchJob]) -> bool:
        try:
            names = run.handler.secrets
            given = await self._secrets.read(run.tenant, names) if names else NO_SECRETS
        except SecretsLockedError:
            return False
        except SecretMissingError as err:
            run.stopped(self._not_started(err, [job for job in batch if job.id in run.ids]))
            return True
        keys = [value.strip() or value for value in given.values.values()]  # they come from files with line ends
        for some in posted_together(batch):
            if not run.may_start():
                return False
            if jobs := run.without_cancelled(some, Level.L3):
                await self._post(run, jobs, keys)
        return True

    async def _post(self, run: Run, batch: Sequence[BatchJob], secrets: Sequence[str]) -> None:
        """The jobs share one request, so it is broken off only when all of them are cancelled."""
        post = asyncio.ensure_future(self._http.run(run.jobtype, run.handler, batch, run.stopped, secrets))
        run.stop = lambda _: run.is_all_cancelled(batch) and post.cancel()
        try:
            await post
        except asyncio.CancelledError:
            me = asyncio.current_task()
            if me is not None and me.cancelling():
                raise
            run.without_cancelled(batch, Level.L3)
        finally:
            run.stop = None

    def _not_started(self, err: Exception, batch: Sequence[BatchJob]) -> list[Stopped]:
        """The handler could not be brought to run: an error of the whole batch, and no job was started."""
        own_fault = isinstance(err, RefusedError | SecretMissingError | HandlerError)
        exitcode = outcome.BROKEN if own_fault else outcome.NOT_STARTED
        prefix = "" if own_fault else "the context could not be started: "
        text = f"{prefix}{err}".encode("utf-8", "replace")
        return [
            Stopped(job.id, outcome.name_of(exitcode), exitcode, text, b"", 0.0, (), self._launcher.level)
            for job in batch
        ]

    async def _start(
        self, jobtype: str, handler: Handler, language: Language, given: GivenSecrets = NO_SECRETS
    ) -> ProcessContext:
        program = await self._programs.get(language)
        tree = None if handler.lock is None else await self._packages.have(jobtype, handler.lock)
        spec = LaunchSpec(
            tenant=tenant_of(jobtype),
            argv=program.argv if tree is None else with_packages(program, handler, tree),
            env={**_BASE_ENVIRONMENT, **handler.env, **given.values, **environment(handler)},
            limits=self._limits.for_launch(self._memory_mb(handler), language.reserved_mb),
            network=handler.network,
            egress=bool(handler.hosts),
            readable=program.preload,
            template=language.template,
            preload=program.preload,
            packages=None if tree is None else tree.site,
            tree=await self._trees.have(tenant_of(jobtype), handler.tree) if handler.tree else None,
        )
        context = await ProcessContext.start(
            self._launcher,
            spec,
            self._limits,
            flow=self.flow,
            memory_mb=self._memory_mb(handler),
            own_process=language.own_process,
        )
        if given.masker is not None:
            context.log.masker = LiveMasker(given.masker, self.flow.searches, spec.tenant)
        let_out(context.child, context.log, self._egress, spec.tenant, handler)
        return context

    def _memory_mb(self, handler: Handler) -> int:
        """What its contexts get: as it says, but not more than one tenant may have of the whole."""
        return min(handler.memory_mb, self._most_memory_mb)

    async def _attachment(self, jobtype: str, handler: Handler, incarnation: int) -> bytes:
        """What LOAD brings along where the body is binary."""
        key = (tenant_of(jobtype), handler.version, incarnation)
        return await self._modules.get(key, lambda: self._check(jobtype, handler, incarnation))

    async def _check(self, jobtype: str, handler: Handler, incarnation: int) -> bytes:
        """In a context of its own, which takes a seat like any other."""
        bare = replace(handler, lock=None, hosts=())  # nothing is imported, and nothing called
        start = partial(self._start, jobtype, bare, LANGUAGES[handler.lang])
        key = ContextKey(tenant_of(jobtype), "check", incarnation)
        async with self._pool.borrow(key, start, self._memory_mb(handler) * MIB, once=True) as context:
            try:
                return await context.check(jobtype, handler)
            except ContextEndedError as err:
                raise ContextEndedError(f"the text of the handler could not be checked: {err}") from err
