"""One context: a process that belongs to one tenant, the handlers loaded into it, and the batch that it runs.

Guarantees, whatever the tenant's code does to its process or to the protocol: every job of a batch is reported once or
given back once (`runner.batch`); a job that runs out of time is asked to stop, then ended with its whole process tree;
after anything but a clean end that tree is gone and `usable` is False.
"""

import asyncio
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from handlers.errors import HandlerSyntaxError
from handlers.model import Handler
from runner import outcome, protocol
from runner.batch import Batch, OnStopped
from runner.due_replies import DueReplies
from runner.errors import ContextEndedError, ProtocolError, RefusedError
from runner.flow import Flow
from runner.glimpse import Glimpse
from runner.handler_spec import spec_of
from runner.launch import Child, Exit, Launcher, LaunchSpec
from runner.limits import ContextLimits
from runner.protocol import BatchJob, Reply, ReplyRow
from runner.raw_log import RawLog
from runner.timed_event import TimedEvent
from runner.wire import Wire

_LAST_WORDS_S: Final = 0.2
"""How long a process that closed its end of the pipes may take to end by itself."""
_HELD_BACK_S: Final = 0.5
"""A job whose replies were not read meanwhile gets at least so long, again and again."""


class ProcessContext:
    """Made by `start`. One call at a time: the pool hands it to one batch after another."""

    def __init__(
        self,
        child: Child,
        limits: ContextLimits,
        *,
        tenant: str,
        flow: Flow,
        memory_mb: int,
        own_process: bool = False,
    ) -> None:
        self.child = child
        self.limits = limits
        self.memory_mb = memory_mb
        self._own_process = own_process
        self._is_frozen = False
        self._level = child.level
        self._expect_tasks(1 + own_process)
        self.jobs_run = 0
        self.usable = True
        self.started_at = time.monotonic()
        self._slots: dict[tuple[str, str], int] = {}
        self._batch: Batch | None = None
        self._batches = 0
        self._due = DueReplies(self._on_answer)
        self._over = TimedEvent()  # the batch under way, or the context
        self._ended = False
        self._why: Exception | None = None  # it was ended, when it did not end by itself
        self._up = self._due.expect(protocol.HELLO, number=protocol.VERSION)
        self.log = RawLog(limits)
        self._parser = protocol.ReplyParser(limits.reply_bytes)
        self._wire = Wire(
            child,
            self._parser,
            self.log,
            tenant=tenant,
            flow=flow,
            message_s=limits.message_s,
            received=self._received,
            lost=self._on_end,
        )
        self._exit = asyncio.create_task(self._until_exit())

    @classmethod
    async def start(
        cls,
        launcher: Launcher,
        spec: LaunchSpec,
        limits: ContextLimits,
        *,
        flow: Flow,
        memory_mb: int,
        own_process: bool = False,
    ) -> "ProcessContext":
        """A context that need not have said hello yet: what it is asked waits in its pipe until it is up.

        Raises LaunchError, and then nothing of it is left. If it never says hello, the first request raises that.
        """
        child = await launcher.launch(spec)
        return cls(child, limits, tenant=spec.tenant, flow=flow, memory_mb=memory_mb, own_process=own_process)

    # Handlers -----------------------------------------------------------------------------------------------------

    async def check(self, jobtype: str, handler: Handler) -> bytes:
        """Parse the handler's texts and run none.

        Returns what the language made of it (wasm: machine code).
        """
        spec = spec_of(jobtype, handler, self.limits, with_before=True)
        self._parser.max_code_bytes = self.limits.compiled_bytes
        try:
            self._wire.send(protocol.encode_load(protocol.CHECK, 0, spec))
            return (await self._ask(0, self.limits.check_timeout_s)).body
        finally:
            self._parser.max_code_bytes = 0

    async def hello(self) -> None:
        """Wait until the context is up. Raises ContextEndedError with what it printed."""
        await self._answered(self._up, self.limits.start_timeout_s)

    @property
    def slots(self) -> int:
        return len(self._slots)

    def _expect_tasks(self, count: int) -> None:
        """So many processes and threads it has when nothing was left behind. Where the bootstrap is alone, what it does
        beside its jobs delays its own next batch, and is paid for so."""
        self._quiet_tasks = count
        self.is_metered = count > 1 and self.child.is_metered

    def cpu_s(self) -> float:
        """Processor time that its processes have used so far."""
        return self.child.cpu_s()

    def memory_bytes(self) -> int:
        try:
            return self.child.memory_bytes()
        except OSError:  # it ended while it was being asked
            return 0

    def _load_request(self, jobtype: str, handler: Handler, attachment: bytes) -> bytes:
        slot = len(self._slots)
        spec = spec_of(jobtype, handler, self.limits, with_before=slot == 0)
        if attachment:
            spec["body"] = ""
        return protocol.encode_load(protocol.LOAD, slot, spec, attachment)

    async def _loaded(self, key: tuple[str, str], within_s: float) -> None:
        """Wait until the handler whose LOAD was just sent is ready; then it has its slot."""
        slot = len(self._slots)
        try:
            await self._ask(slot, within_s)
        except BaseException:
            self.usable = False
            raise
        self._slots[key] = slot

    async def _ask(self, slot: int, within_s: float) -> Reply:
        """The answer to the LOAD or CHECK that was just sent; its time begins when the context is up."""
        answer = self._due.expect(protocol.LOADED, protocol.REFUSED, number=slot)
        await self._answered(self._up, self.limits.start_timeout_s)
        reply = await self._answered(answer, within_s)
        if reply.kind == protocol.REFUSED:
            field_, message, line, column = protocol.parse_refusal(reply.body)
            if reply.code == 400:
                raise HandlerSyntaxError(field_, message, line=line, column=column)
            told = self.log.hide_cut(message.encode("utf-8", "replace")).decode("utf-8", "replace")
            raise RefusedError(f"{field_} failed: {told}")
        return reply

    async def _answered(self, reply: asyncio.Future[Reply], within_s: float) -> Reply:
        try:
            async with asyncio.timeout(within_s):
                return await reply
        except TimeoutError:
            await self.close()
            raise ContextEndedError(f"did not answer within {within_s:g} s") from None
        except ProtocolError as err:
            await self.close()
            raise ContextEndedError(f"broke the runner protocol: it {err}") from err
        except ContextEndedError:
            raise ContextEndedError(await self._last_report()) from None

    async def _last_report(self) -> str:
        await self.close()
        text = outcome.describe_exit(await self._exit, memory_mb=self.memory_mb)[1]
        printed = self.log.take().log.decode("utf-8", "replace").strip()
        return f"{text.replace(' during the job', '')}{': ' + printed if printed else ''}"

    # Batches ------------------------------------------------------------------------------------------------------

    async def run(
        self,
        jobtype: str,
        handler: Handler,
        jobs: Sequence[BatchJob],
        on_stopped: OnStopped,
        attachment: bytes = b"",
        cancelled: AbstractSet[str] = frozenset(),
    ) -> list[str]:
        """Run a batch; returns the ids of the jobs that were not started. Cancelling it ends the context.

        A job in `cancelled` is asked to stop when it runs, as one that runs out of time. It may grow: see `recheck`.
        A handler that is new here is loaded first. Its jobs are sent along with it, so that the first of them does not
        wait for the daemon to hear that it was loaded. Raises what `load` raises, and then no job was started.
        """
        key = (jobtype, handler.version)
        slot = self._slots.get(key)
        batch = self._begin(handler, jobs, on_stopped, cancelled)
        try:
            if slot is None:
                request = protocol.encode_batch(len(self._slots), batch.number, jobs)
                self._wire.send(self._load_request(jobtype, handler, attachment), request)
                await self._loaded(key, handler.timeout_s)
            else:
                self._wire.send(protocol.encode_batch(slot, batch.number, jobs))
            in_time = await self._until_over(batch)
        except BaseException:
            await self.close()
            raise
        finally:
            self._batch = None
        self.jobs_run += batch.reported
        if in_time and batch.over:
            batch.settle(time.monotonic())
            self.log.be_idle()
            if self.usable and self.child.tasks() > self._quiet_tasks:
                await self._quieten(keep=handler.keeps_processes)
            return []
        if self._ended and self._why is None:  # it closed its pipes by ending: let it say how, before it is killed
            await asyncio.wait([self._exit], timeout=_LAST_WORDS_S)
        await self.close()
        return batch.give_up(*outcome.describe_end(await self._exit, self._why, self.memory_mb), time.monotonic())

    def recheck(self, job_id: str) -> bool:
        """A job was cancelled. True if it is the one that runs: it is asked to stop now."""
        is_running = self._batch is not None and self._batch.is_running(job_id)
        if is_running:
            self._over.set()
        return is_running

    def peek(self, job_id: str, offset: int) -> Glimpse | None:
        """What the job has printed after `offset`, and its progress; None if it is not the one that runs."""
        if self._batch is None or not self._batch.is_running(job_id):
            return None
        return Glimpse(*self.log.since(offset), self.log.hide(self._batch.progress))

    def _begin(
        self, handler: Handler, jobs: Sequence[BatchJob], on_stopped: OnStopped, cancelled: AbstractSet[str]
    ) -> Batch:
        if self._is_frozen:
            self._is_frozen = not self.child.set_frozen(frozen=False)
        self._batches += 1
        self.log.begin(makes_jobs=handler.prints_jobs)
        batch = Batch(
            self._batches, jobs, handler, on_stopped,
            log=self.log, limits=self.limits, level=self._level, now=time.monotonic(), cancelled=cancelled,
            oom_kills=self.child.oom_kills, is_gone=lambda: self._wire.is_at_end,
        )  # fmt: skip
        if not self._ended:
            self._batch = batch
            self._over.clear()
        return batch

    async def close(self) -> None:
        """End the whole process tree. Idempotent."""
        self.usable = False
        await self.child.kill()
        await asyncio.shield(self._exit)
        self._wire.close()
        self._over.close()

    async def _quieten(self, *, keep: bool) -> None:
        """After a batch that left more tasks than there always are: nothing but the bootstrap goes on.

        Threads of the bootstrap's own process are left (node has ten), unless all of it is frozen; what they burn
        while the context is idle is the pool's business.
        """
        if keep and self.child.set_frozen(frozen=True):
            self._is_frozen = True
            return
        if await self.child.tidy(keep_children=self._own_process):
            self.usable = False  # it forks faster than it is killed: the pool ends it, and that nothing outruns
        else:
            self._expect_tasks(max(self.child.tasks(), 1 + self._own_process))

    async def _until_over(self, batch: Batch) -> bool:
        """Wait, watching the clock of the running job. False when it was asked to stop: it ran out of time, or was
        cancelled."""
        while (left_s := batch.deadline - time.monotonic()) > 0 or self._wire.is_held_back:
            if await self._over.wait(max(left_s, _HELD_BACK_S)):
                if batch.over or self._ended:
                    return True
                self._over.clear()
                if batch.is_running_a_cancelled_job:
                    break
            if self._wire.is_held_back:  # it may be over for long, and we have not read it
                batch.allow(_HELD_BACK_S, time.monotonic())
        batch.ask()
        await self.child.terminate()
        await self._over.wait(self.limits.kill_grace_s)
        return False

    def _received(self, replies: list[ReplyRow]) -> None:
        """Called by the wire with every chunk. Raises ProtocolError at the first that has no business here."""
        if self._due.pending:
            replies = self._due.take(replies)
        if replies:
            self._take_replies(replies)
        if self._parser.held_bytes and not self._due.pending and (self._batch is None or self._batch.over):
            raise ProtocolError("spoke without being asked")

    def _take_replies(self, replies: list[ReplyRow]) -> None:
        batch = self._batch
        if batch is None or batch.over:
            raise ProtocolError("spoke without being asked")
        self._wire.drain_log()
        now = time.monotonic()
        if batch.feed(replies, now) or batch.is_running_a_cancelled_job:
            self._over.set()
        elif batch.more_soon(now):
            self._wire.pause()

    def _on_answer(self, reply: Reply) -> None:
        if reply.kind == protocol.REFUSED:
            self._batch = None  # none of its jobs can have run
        elif self._batch is not None:
            self._batch.begin(time.monotonic())

    # The end of the process ---------------------------------------------------------------------------------------

    async def _until_exit(self) -> Exit:
        """The process is gone, and what it left was taken in. A grandchild may hold the pipes open for ever, so their
        end is not waited for."""
        exit_ = await self.child.wait()
        self.usable = False  # for the next batch, which may be ready before all is taken in
        if not self._ended:
            await self._wire.drain()
        self._wire.drain_log()
        self._on_end(None)
        return exit_

    def _on_end(self, why: Exception | None) -> None:
        """The wire has nothing more to give: `why` is what was wrong, or None when the context just ended."""
        if self._ended:
            return
        self._ended = True
        self._why = why
        self.usable = False
        self._due.break_off(why)
        self._over.set()
