"""The parts of one daemon: opened in order, wired together, and closed by the stack.

The store comes first, then a sysid in it (joining.py), then the journal (which locks and recovers its directory), then
the sandbox's self-test and the runner. Parts tell each other directly what happened: `wire_parts` connects them.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

from functory.config import Settings
from functory.consumers.leaders import ConsumerLeaders
from functory.consumers.pull import asker
from functory.daemon.isolation import Isolation, choose_isolation
from functory.daemon.joining import Joining
from functory.daemon.journals import journal_identity, make_journal
from functory.daemon.languages import Languages, find_languages
from functory.daemon.packages import open_packages
from functory.daemon.part_settings import egress_limits, executor_settings, leader_settings, policy_of, retry_policy
from functory.egress.proxy import EgressProxy
from functory.execution.due_alarm import DueAlarm
from functory.execution.endings import Ending, Recorded, is_plain_end
from functory.execution.executor import Executor
from functory.execution.handlers_in_force import HandlersInForce
from functory.execution.outbox import Outbox
from functory.execution.straight.type_gates import TypeGates
from functory.execution.straight.way import StraightWay
from functory.execution.tenant_book import TenantBook
from functory.execution.trial_runs import TrialRuns
from functory.execution.waiters import Waiters
from functory.folders.collecting import FolderCollector
from functory.folders.unpacked import UnpackedTrees
from functory.intake.admission import Admission
from functory.intake.intake import Intake
from functory.loops.job_log import JobLog
from functory.loops.late_writes import LateWrites
from functory.loops.shared import Shared, make_shared
from functory.peers.announcer import Announcer
from functory.peers.peers import Peers
from functory.transfer.backup_layout import require_whole
from functory.vault.place import key_place
from functory.vault.vault import Vault
from functory.workers.claims import ClaimDefaults, Claims
from functory.workers.values import OWNER
from functory.workers.worker_queue import WorkerQueue
from journal.durable import make_folder
from runner.flow import Flow
from runner.packages.provider import Packages
from runner.pool import PoolSettings
from runner.resolver import Resolver
from runner.runner import Runner, RunnerSettings
from runner.targets import Targets
from scheduler import Policy
from store.base import Discard, ReleaseReport
from store.errors import StoreUnavailable
from store.url import open_store
from vocabulary.clock import Clock
from vocabulary.names import tenant_of

_MOST_TRIALS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    shared: Shared
    isolation: Isolation
    languages: Languages
    runner: Runner
    egress: EgressProxy
    vault: Vault
    packages: Packages
    tenants: TenantBook
    folders: FolderCollector
    intake: Intake
    admission: Admission
    outbox: Outbox
    reported: Outbox
    """The ends that workers report."""
    executor: Executor
    alarm: DueAlarm
    straight: StraightWay
    waiters: Waiters
    workers: WorkerQueue
    handlers: HandlersInForce
    trial_runs: TrialRuns
    consumers: ConsumerLeaders
    peers: Peers
    announcer: Announcer
    joining: Joining


class Sources(NamedTuple):
    """Where the runner has from what contexts need."""

    vault: Vault
    packages: Packages
    egress: EgressProxy
    trees: UnpackedTrees


class Engine(NamedTuple):
    """What runs handlers."""

    isolation: Isolation
    languages: Languages
    runner: Runner
    egress: EgressProxy
    vault: Vault
    packages: Packages
    tenants: TenantBook
    folders: FolderCollector


async def open_parts(settings: Settings, clock: Clock, stack: AsyncExitStack, *, is_shared: bool = False) -> Parts:
    """Open all parts. The stack closes those that were opened, also when a later step fails. is_shared: daemons of
    other stores may have used the data directory; then raises NotEmpty if its journal belongs to one."""
    await asyncio.to_thread(make_folder, settings.data_dir)
    await asyncio.to_thread(require_whole, settings.data_dir)
    store = open_store(settings.store_url)
    stack.push_async_callback(store.close)
    joining = Joining(settings, clock, store)
    await joining.begin()
    stack.push_async_callback(joining.release)
    reader = await asyncio.to_thread(journal_identity, settings.journal_dir)
    position = await joining.position(reader)
    journal = make_journal(settings, settings.journal_dir, clock, joining.sysid, position)
    await stack.enter_async_context(journal)
    if is_shared:
        await joining.require_own(reader)
    await joining.take_over(journal, reader)
    shared = make_shared(store, journal, clock, joining.sysid, _job_log(settings, stack))
    rejects = settings.data_dir / "rejected.jsonl"
    intake = Intake(shared, reader=reader, earlier=lambda: joining.sources, rejects=rejects)
    isolation = await choose_isolation(settings)
    vault = Vault(store, key_place(settings))
    with suppress(StoreUnavailable):  # only whether there are secrets that it could not open is not known then
        await vault.open()
    tenants = TenantBook(store)
    tenants.when_gone(vault.forget)
    packages = await _open_packages(settings, isolation, tenants)
    egress = _make_egress(settings, stack)
    trees = UnpackedTrees(store, await asyncio.to_thread((settings.data_dir / "trees").absolute))
    runner = await _start_runner(settings, isolation, Sources(vault, packages, egress, trees), stack)
    languages = await _find_languages(settings, isolation, runner)
    folders = FolderCollector(store, trees)
    engine = Engine(isolation, languages, runner, egress, vault, packages, tenants, folders)
    return wire_parts(settings, shared, intake, engine, joining)


def _reported(executor: Executor, tenants: TenantBook, endings: Sequence[Ending]) -> None:
    """Workers elsewhere have ended these jobs of one tenant. Most leave nothing to look for, and there are many: the
    executor is woken if a job may have become runnable, or a cap may have room."""
    if tenants.of(endings[0][0].jobtype).max_running is not None or not all(map(is_plain_end, endings)):
        executor.wake()


def _discarded(straight: StraightWay, endings: Sequence[Recorded], report: ReleaseReport) -> None:
    """Who waits for a job that a worker has ended and that is not kept has it from here, without its payload: only the
    worker has that."""
    gone = [(job._replace(data=b""), release, ()) for job, release, _ in endings if isinstance(release, Discard)]
    straight.released(gone, report.stale)


def _hear_handlers(outbox: Outbox, executor: Executor, workers: WorkerQueue) -> None:
    outbox.when_released(executor.released)
    outbox.when_released(workers.released)


def _hear_workers(reported: Outbox, executor: Executor, tenants: TenantBook, straight: StraightWay) -> None:
    reported.when_released(partial(_reported, executor, tenants))
    reported.when_recorded(partial(_discarded, straight))


def _tell_all(
    outboxes: Sequence[Outbox],
    listeners: Sequence[Callable[[Sequence[Ending]], None]],
    consumers: ConsumerLeaders,
    executor: Executor,
    workers: WorkerQueue,
) -> None:
    """Whichever outbox records an end, these hear of it."""
    for outbox in outboxes:
        for listener in listeners:
            outbox.when_released(listener)
        outbox.when_recorded(consumers.recorded)
        outbox.when_paused(executor.wake)
        outbox.when_paused(workers.wake)


def _due_alarm(
    settings: Settings, shared: Shared, intake: Intake, executor: Executor, workers: WorkerQueue
) -> DueAlarm:
    def ring() -> None:
        executor.wake()
        workers.wake()

    alarm = DueAlarm(shared.store, shared.clock, settings.poll_s, ring)
    intake.when_deferred(alarm.ask)
    return alarm


def _admission(shared: Shared, intake: Intake, tenants: TenantBook) -> Admission:
    admission = Admission(shared.store, shared.journal, shared.clock.now_ms, intake.unstored)
    tenants.when_gone(admission.forget)
    return admission


def _worker_outbox(shared: Shared, intake: Intake, admission: Admission, tenants: TenantBook, flow: Flow) -> Outbox:
    """What workers report. The take that comes with a report needs two turns until it is at the store, and is in its
    commit because that waits for one."""
    return Outbox(replace(shared, owner=OWNER), intake, admission, tenants.limits_of, flow, waits_a_turn=True)


def wire_parts(settings: Settings, shared: Shared, intake: Intake, engine: Engine, joining: Joining) -> Parts:
    isolation, languages, runner, egress, vault, packages, tenants, folders = engine
    waiters, policy, peers = Waiters(settings.poll_s), policy_of(settings), Peers(shared)
    admission = _admission(shared, intake, tenants)
    outbox = Outbox(shared, intake, admission, tenants.limits_of, runner.flow)
    executor = Executor(shared, runner, policy, outbox, tenants, executor_settings(settings, languages))
    runner.when_burnt(policy.charge)
    packages.when_changed(executor.changed)
    gates = TypeGates(shared.store, shared.clock, settings.poll_s, partial(executor.handlers.may_start, languages.able))
    straight = _straight_way(settings, shared, intake, executor, outbox, gates, lambda: peers.is_alone)
    reported = _worker_outbox(shared, intake, admission, tenants, runner.flow)
    workers = _worker_queue(settings, shared, reported, tenants, policy, executor)
    trial_runs = _trial_runs(settings, runner, tenants, policy, isolation, partial(_left, executor, workers))
    announcer = _announcer(settings, isolation, peers, executor, workers)
    handlers, admit = HandlersInForce(shared.store, gates, executor.handlers), partial(_admit, admission, tenants)
    told, ask = [executor.added, workers.added, announcer.added], asker(handlers, trial_runs)
    consumers = ConsumerLeaders(shared, leader_settings(settings), ask, admit, told, executor.refresh_tenants)
    for added in (executor.added, workers.added, consumers.added, announcer.added):
        intake.when_added(added)
    alarm = _due_alarm(settings, shared, intake, executor, workers)
    _hear_handlers(outbox, executor, workers)
    _hear_workers(reported, executor, tenants, straight)
    listeners = (waiters.released, announcer.released, alarm.released, consumers.released)
    _tell_all((outbox, reported), listeners, consumers, executor, workers)
    return Parts(
        shared=shared,
        isolation=isolation,
        languages=languages,
        runner=runner,
        egress=egress,
        vault=vault,
        packages=packages,
        tenants=tenants,
        folders=folders,
        intake=intake,
        admission=admission,
        outbox=outbox,
        reported=reported,
        executor=executor,
        alarm=alarm,
        straight=straight,
        waiters=waiters,
        workers=workers,
        consumers=consumers,
        handlers=handlers,
        trial_runs=trial_runs,
        peers=announcer.peers,
        announcer=announcer,
        joining=joining,
    )


def _announcer(
    settings: Settings, isolation: Isolation, peers: Peers, executor: Executor, workers: WorkerQueue
) -> Announcer:
    is_running = settings.role != "api" and not isolation.refusal
    announcer = Announcer(peers, lambda: is_running and executor.may_start(), executor.is_clear)
    workers.when_ended_for_others(announcer.freed)
    return announcer


def _worker_queue(
    settings: Settings, shared: Shared, outbox: Outbox, tenants: TenantBook, policy: Policy, executor: Executor
) -> WorkerQueue:
    defaults = ClaimDefaults(retry_policy(settings), round(settings.lease_s * 1000), settings.poll_s)
    claims = Claims(shared, outbox, tenants, policy, executor.handlers, defaults)
    workers = WorkerQueue(shared, outbox, claims, settings.poll_s, tenants.incarnation_of)
    tenants.when_gone(workers.end_tenant)
    return workers


def _straight_way(
    settings: Settings,
    shared: Shared,
    intake: Intake,
    executor: Executor,
    outbox: Outbox,
    gates: TypeGates,
    is_alone: Callable[[], bool],
) -> StraightWay:
    straight = StraightWay(
        shared,
        intake,
        gates,
        executor.leases,
        lease_ms=round(settings.lease_s * 1000),
        is_clear=executor.is_clear,
        ahead=executor.ahead,
        offer=executor.offer,
        is_alone=is_alone,
        mode=settings.straight,
    )
    for part in (intake, executor, outbox):
        part.use(straight)
    return straight


async def _open_packages(settings: Settings, isolation: Isolation, tenants: TenantBook) -> Packages:
    def quota_of(tenant: str) -> int:
        limit = tenants.limits_of(tenant).max_package_bytes
        return settings.packages_quota_bytes if limit is None else limit

    return await open_packages(settings, isolation, settings.data_dir / "packages", quota_of)


def _make_egress(settings: Settings, stack: AsyncExitStack) -> EgressProxy:
    """Opened before the runner, and so closed after its contexts."""
    egress = EgressProxy(Resolver(Targets(settings.hosts_allowed, settings.http_allowed)), egress_limits(settings))
    stack.push_async_callback(egress.close)
    return egress


async def _start_runner(settings: Settings, isolation: Isolation, sources: Sources, stack: AsyncExitStack) -> Runner:
    pool = PoolSettings(max_contexts=settings.max_contexts, max_memory_bytes=settings.max_contexts_memory_bytes)
    chosen = RunnerSettings(pool=pool, http_allowed=settings.http_allowed, hosts_allowed=settings.hosts_allowed)
    runner = Runner(isolation.launcher, chosen, *sources)
    sources.packages.use_memory(runner.hold_memory)
    await runner.start()
    stack.push_async_callback(runner.close)
    stack.push_async_callback(sources.packages.close)
    return runner


async def _find_languages(settings: Settings, isolation: Isolation, runner: Runner) -> Languages:
    if settings.role == "api":
        return Languages()
    return await find_languages(None if isolation.refusal else runner.try_language)


def _trial_runs(
    settings: Settings,
    runner: Runner,
    tenants: TenantBook,
    policy: Policy,
    isolation: Isolation,
    on_left: Callable[[str], None],
) -> TrialRuns:
    seats = min(settings.max_contexts - settings.slot_count, _MOST_TRIALS)
    trial_runs = TrialRuns(runner, tenants.of, policy, refusal=isolation.refusal, seats=seats)
    trial_runs.questions.on_left = on_left
    return trial_runs


def _left(executor: Executor, workers: WorkerQueue, tenant: str) -> None:
    """A question has left its place, to a job of either."""
    executor.place_left()
    workers.has_room(tenant)


async def _admit(admission: Admission, tenants: TenantBook, jobtype: str, payload: bytes) -> None:
    """A job that is pulled counts as one that is posted. Raises InvalidWrite, QuotaExceeded."""
    tenant = tenant_of(jobtype)
    limits = tenants.limits_of(tenant)
    admission.check(jobtype, [payload])
    await admission.take_type(tenant, limits, jobtype)
    await admission.take(tenant, limits, jobs=1, size_bytes=len(payload))


def _job_log(settings: Settings, stack: AsyncExitStack) -> JobLog | None:
    if not settings.log_jobs or sys.__stderr__ is None:
        return None
    writes = LateWrites(sys.__stderr__.fileno())
    stack.callback(writes.close)
    return JobLog(writes.write, settings.log_style)
