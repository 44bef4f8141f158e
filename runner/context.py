"""One context: a process that belongs to one tenant, the handlers loaded into it, and the batch that it runs.

Guarantees, whatever the tenant's code does to its process or to the protocol: every job of a batch is reported once or
given back once (`runner.batch`); a job that runs out of time is asked to stop, then ended with its whole process tree;
after anything but a clean end that tree is gone and `usable` is False.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from handlers.errors import HandlerSyntaxError
from handlers.model import Handler
from runner import outcome, protocol
from runner.batch import Batch, OnStopped
from runner.errors import ContextEndedError, OutputError, ProtocolError, RefusedError
from runner.launch import Child, Exit, Launcher, LaunchSpec
from runner.limits import ContextLimits
from runner.protocol import BatchJob, Reply, ReplyRow
from runner.raw_log import RawLog
from runner.wire import Wire


class _Due(NamedTuple):
    """A reply that the context owes."""

    kinds: tuple[int, ...]
    number: int
    reply: asyncio.Future[Reply]


class ProcessContext:
    """Made by `start`. One call at a time: the pool hands it to one batch after another."""

    def __init__(self, child: Child, limits: ContextLimits, *, memory_mb: int) -> None:
        self.child = child
        self.limits = limits
        self.memory_mb = memory_mb
        self.jobs_run = 0
        self.usable = True
        self.started_at = time.monotonic()
        self._slots: dict[tuple[str, str], int] = {}
        self._batch: Batch | None = None
        self._batches = 0
        self._due: deque[_Due] = deque()  # in the order of the requests
        self._over = asyncio.Event()  # the batch under way, or the context
        self._ended = False
        self._why: Exception | None = None  # it was ended, when it did not end by itself
        self._up = self._expect(protocol.HELLO, number=protocol.VERSION)
        self._log = RawLog(keep_bytes=limits.log_bytes, line_bytes=limits.new_job_bytes, new_jobs=limits.new_jobs)
        self._parser = protocol.ReplyParser(limits.reply_bytes)
        self._wire = Wire(
            child,
            self._parser,
            self._log,
            max_log_bytes=limits.output_bytes,
            received=self._received,
            lost=self._on_end,
        )
        self._exit = asyncio.create_task(child.wait())
        self._exit.add_done_callback(self._on_exit)

    @classmethod
    async def start(
        cls, launcher: Launcher, spec: LaunchSpec, limits: ContextLimits, *, memory_mb: int
    ) -> "ProcessContext":
        """A context that need not have said hello yet: what it is asked waits in its pipe until it is up.

        Raises LaunchError, and then nothing of it is left. If it never says hello, the first request raises that.
        """
        return cls(await launcher.launch(spec), limits, memory_mb=memory_mb)

    # Handlers -----------------------------------------------------------------------------------------------------

    async def load(self, jobtype: str, handler: Handler, attachment: bytes = b"") -> None:
        """Have `handler` loaded before its first batch.

        Raises RefusedError, HandlerSyntaxError or ContextEndedError; half a handler may have run then, so the context
        is not used again. With an attachment the body is not sent: it is what the attachment was made from.
        """
        key = (jobtype, handler.version)
        if key not in self._slots:
            self._wire.send(self._load_request(jobtype, handler, attachment))
            await self._loaded(key, handler.timeout_s)

    async def check(self, jobtype: str, handler: Handler) -> bytes:
        """Parse the handler's texts and run none.

        Returns what the language made of it (wasm: machine code).
        """
        spec = self._spec(jobtype, handler, with_before=True)
        self._parser.max_body_bytes = self.limits.compiled_bytes
        try:
            self._wire.send(protocol.encode_load(protocol.CHECK, 0, spec))
            return (await self._ask(0, self.limits.check_timeout_s)).body
        finally:
            self._parser.max_body_bytes = self.limits.reply_bytes

    @property
    def slots(self) -> int:
        return len(self._slots)

    def memory_bytes(self) -> int:
        try:
            return self.child.memory_bytes()
        except OSError:  # it ended while it was being asked
            return 0

    def _spec(self, jobtype: str, handler: Handler, *, with_before: bool) -> dict[str, object]:
        return {
            "type": jobtype.partition("-")[2],
            "body": handler.body,
            "before": handler.before if with_before else "",
            "beforeEach": handler.before_each,
            "afterEach": handler.after_each,
            "limits": self.limits.for_child(handler),
        }

    def _load_request(self, jobtype: str, handler: Handler, attachment: bytes) -> bytes:
        slot = len(self._slots)
        spec = self._spec(jobtype, handler, with_before=slot == 0)
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
        answer = self._expect(protocol.LOADED, protocol.REFUSED, number=slot)
        await self._answered(self._up, self.limits.start_timeout_s)
        reply = await self._answered(answer, within_s)
        if reply.kind == protocol.REFUSED:
            field_, message, line, column = protocol.parse_refusal(reply.body)
            if reply.code == 400:
                raise HandlerSyntaxError(field_, message, line=line, column=column)
            raise RefusedError(f"{field_} failed: {message}")
        return reply

    def _expect(self, *kinds: int, number: int) -> asyncio.Future[Reply]:
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._due.append(_Due(kinds, number, reply))
        if self._ended:
            self._break_off()
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
        printed = self._log.take().log.decode("utf-8", "replace").strip()
        return f"{text.replace(' during the job', '')}{': ' + printed if printed else ''}"

    # Batches ------------------------------------------------------------------------------------------------------

    async def run(
        self,
        jobtype: str,
        handler: Handler,
        jobs: Sequence[BatchJob],
        on_stopped: OnStopped,
        attachment: bytes = b"",
    ) -> list[str]:
        """Run a batch; returns the ids of the jobs that were not started. Cancelling it ends the context.

        A handler that is new here is loaded first. Its jobs are sent along with it, so that the first of them does not
        wait for the daemon to hear that it was loaded. Raises what `load` raises, and then no job was started.
        """
        key = (jobtype, handler.version)
        slot = self._slots.get(key)
        self._batches += 1
        self._log.take()  # what was printed between batches belongs to no job
        batch = Batch(
            self._batches,
            jobs,
            handler,
            on_stopped,
            log=self._log,
            limits=self.limits,
            level=self.child.level,
            now=time.monotonic(),
        )
        if not self._ended:
            self._batch = batch
            self._over.clear()
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
            return []
        await self.close()
        return batch.give_up(*self._how_it_went(await self._exit), time.monotonic())

    async def close(self) -> None:
        """End the whole process tree. Idempotent."""
        self.usable = False
        await self.child.kill()
        await asyncio.shield(self._exit)
        self._wire.close()

    async def _until_over(self, batch: Batch) -> bool:
        """Wait, watching the clock of the running job. False when it ran out of time and was asked to stop."""
        while (left_s := batch.deadline - time.monotonic()) > 0:
            if await self._over_within(left_s):
                return True
        batch.ask()
        await self.child.terminate()
        await self._over_within(self.limits.kill_grace_s)
        return False

    async def _over_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            return False
        return True

    def _received(self, replies: list[ReplyRow]) -> None:
        """Called by the wire with every chunk. Raises ProtocolError at the first that has no business here."""
        if self._due:
            replies = self._take_answers(replies)
            if not replies:
                return
        batch = self._batch
        if batch is None or batch.over:
            raise ProtocolError("spoke without being asked")
        self._wire.drain_log()
        now = time.monotonic()
        if batch.feed(replies, now):
            self._over.set()
        elif batch.more_soon(now):
            self._wire.pause()

    def _take_answers(self, replies: list[ReplyRow]) -> list[ReplyRow]:
        """Take those that are due and judge them at once: what follows may be about the batch that waits for them."""
        answers = list(zip(map(Reply._make, replies), tuple(self._due), strict=False))
        for reply, due in answers:
            if reply.kind not in due.kinds:
                raise ProtocolError("answered out of order")
            if reply.number != due.number:
                hello = reply.kind == protocol.HELLO
                raise ProtocolError(
                    f"speaks version {reply.number} of it" if hello else "answered a request that was not made"
                )
            if due.reply.cancelled():  # nobody waits any more, and the jobs that came along are on their way back
                raise ProtocolError("answered too late")
            if reply.kind == protocol.REFUSED:
                self._batch = None  # none of its jobs can have run
            elif self._batch is not None:
                self._batch.begin(time.monotonic())
            self._due.popleft()  # not before it was judged: if it was wrong, whoever waits for it must hear of that
            due.reply.set_result(reply)
        return replies[len(answers) :]

    # The end of the process ---------------------------------------------------------------------------------------

    def _how_it_went(self, end: Exit) -> tuple[int, str]:
        if isinstance(self._why, OutputError):
            return outcome.TOO_BIG, f"{self._why}; the job was ended"
        if self._why is not None:
            return outcome.CRASHED, f"broke the runner protocol: it {self._why}"
        return outcome.describe_exit(end, memory_mb=self.memory_mb)

    def _on_exit(self, exit_task: asyncio.Task[Exit]) -> None:
        """The process is gone. A grandchild may hold the pipes open for ever, so their end is not waited for."""
        if exit_task.cancelled() or self._ended:
            return
        self._wire.drain()
        self._wire.drain_log()
        self._on_end(None)

    def _on_end(self, why: Exception | None) -> None:
        """The wire has nothing more to give: `why` is what was wrong, or None when the context just ended."""
        if self._ended:
            return
        self._ended = True
        self._why = why
        self.usable = False
        self._break_off()
        self._over.set()

    def _break_off(self) -> None:
        """Nothing that is due will come any more."""
        while self._due:
            reply = self._due.popleft().reply
            if not reply.done():
                reply.set_exception(self._why or ContextEndedError("ended"))
                reply.exception()  # seen, even if nobody waits for it
