"""One context: a process that belongs to one tenant, the handlers loaded into it, and the batch that it runs.

Guarantees, whatever the tenant's code does to its process or to the protocol:
- every job of a batch is either reported through `on_stopped` exactly once or given back exactly once;
- a crash, a timeout or a broken protocol costs the job that was running; those before it keep their outcome,
those after it
  are given back (the child runs in order and reports each job before it starts the next, so "running" is the
  first that has not been reported);
- times are the daemon's: what the child reports only divides the elapsed time among the jobs of one chunk;
- after anything but a clean end the whole process tree is gone and `usable` is False.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from handlers.errors import HandlerSyntaxError
from handlers.model import Handler
from runner import outcome, protocol
from runner.errors import ContextEndedError, ProtocolError, RefusedError
from runner.launch import Child, Exit, Launcher, LaunchSpec
from runner.limits import ContextLimits
from runner.outcome import Stopped
from runner.protocol import BatchJob, Detail, Reply
from runner.raw_log import RawLog
from runner.wire import OutputError, Wire

_FAST_JOB_S: Final = 0.0005  # jobs quicker than this are worth reading in bigger chunks
_WORTH_A_PAUSE_S: Final = 0.002

OnStopped = Callable[[Sequence[Stopped]], None]


@dataclass(slots=True, eq=False)
class _Batch:
    """The batch under way."""

    number: int
    jobs: Sequence[BatchJob]
    handler: Handler
    on_stopped: OnStopped
    started_at: float
    progress_at: float
    begun: bool
    next: int = 0
    left: bool = False  # the child said that it starts no further job
    asked: bool = False  # it was told to stop: it ran out of time
    held: list[Stopped] = field(default_factory=list)  # outcomes that wait for afterEach
    hook_error: str = ""

    @property
    def holds(self) -> bool:
        return bool(self.handler.after_each)


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
        self._batch: _Batch | None = None
        self._batches = 0
        self._answer: asyncio.Future[Reply] | None = None
        self._done: asyncio.Future[Exception | None] | None = None
        self._lost: Exception | None = None
        self._is_lost = False
        self._log = RawLog(keep_bytes=limits.log_bytes, line_bytes=limits.new_job_bytes, new_jobs=limits.new_jobs)
        self._parser = protocol.ReplyParser(limits.reply_bytes)
        self._wire = Wire(
            child,
            self._parser,
            self._log,
            max_log_bytes=limits.output_bytes,
            received=self._received,
            lost=self._on_lost,
        )
        self._exit = asyncio.create_task(child.wait())
        self._exit.add_done_callback(self._on_exit)

    @classmethod
    async def start(
        cls, launcher: Launcher, spec: LaunchSpec, limits: ContextLimits, *, memory_mb: int
    ) -> "ProcessContext":
        """A context that has said hello.

        Raises LaunchError or ContextEndedError, and then nothing of it is left.
        """
        context = cls(await launcher.launch(spec), limits, memory_mb=memory_mb)
        try:
            hello = await context._next_answer(protocol.HELLO, within_s=limits.start_timeout_s)
            if hello.number != protocol.VERSION:
                await context._fail(ProtocolError(f"speaks version {hello.number} of it"))
        except BaseException:
            await context.close()
            raise
        return context

    # Handlers
    # ----------------------------------------------------------------------------------------------------

    async def load(self, jobtype: str, handler: Handler, attachment: bytes = b"") -> int:
        """The slot of `handler`, loading it when it is new here.

        Raises RefusedError, HandlerSyntaxError, ContextEndedError.
        """
        key = (jobtype, handler.version)
        if (slot := self._slots.get(key)) is not None:
            return slot
        slot = len(self._slots)
        spec = self._spec(jobtype, handler, with_before=slot == 0)
        await self._ask(protocol.encode_load(protocol.LOAD, slot, spec, attachment), slot, handler.timeout_s)
        self._slots[key] = slot
        return slot

    async def check(self, jobtype: str, handler: Handler) -> bytes:
        """Parse the handler's texts and run none.

        Returns what the language made of it (wasm: machine code).
        """
        spec = self._spec(jobtype, handler, with_before=True)
        frame = protocol.encode_load(protocol.CHECK, 0, spec)
        self._parser.max_body_bytes = self.limits.compiled_bytes
        try:
            return (await self._ask(frame, 0, self.limits.check_timeout_s)).body
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

    async def _ask(self, frame: bytes, slot: int, within_s: float) -> Reply:
        self._wire.send(frame)
        reply = await self._next_answer(protocol.LOADED, protocol.REFUSED, within_s=within_s)
        if reply.number != slot:
            await self._fail(ProtocolError("answered a request that was not made"))
        if reply.kind == protocol.REFUSED:
            field_, message, line, column = protocol.parse_refusal(reply.body)
            if reply.code == 400:
                raise HandlerSyntaxError(field_, message, line=line, column=column)
            raise RefusedError(f"{field_} failed: {message}")
        return reply

    async def _next_answer(self, *kinds: int, within_s: float) -> Reply:
        if self._is_lost:
            raise ContextEndedError(await self._how_it_ended())
        self._answer = asyncio.get_running_loop().create_future()
        try:
            reply = await asyncio.wait_for(self._answer, within_s)
        except TimeoutError:
            await self.close()
            raise ContextEndedError(f"did not answer within {within_s:g} s") from None
        except ProtocolError as err:
            await self.close()
            raise ContextEndedError(f"broke the runner protocol: it {err}") from err
        except ContextEndedError:
            text = await self._how_it_ended()
            raise ContextEndedError(text) from None
        finally:
            self._answer = None
        if reply.kind not in kinds:
            await self._fail(ProtocolError("answered out of order"))
        return reply

    async def _fail(self, err: ProtocolError) -> None:
        await self.close()
        raise ContextEndedError(f"broke the runner protocol: it {err}")

    async def _how_it_ended(self) -> str:
        await self.close()
        text = outcome.describe_exit(await self._exit, memory_mb=self.memory_mb)[1]
        printed = self._log.take()[0].decode("utf-8", "replace").strip()
        return f"{text.replace(' during the job', '')}{': ' + printed if printed else ''}"

    # Batches
    # -----------------------------------------------------------------------------------------------------

    async def run(self, slot: int, handler: Handler, jobs: Sequence[BatchJob], on_stopped: OnStopped) -> list[str]:
        """Run a batch; returns the ids of the jobs that were not started. Cancelling it ends the context."""
        now = time.monotonic()
        self._batches += 1
        self._log.take()  # what was printed between batches belongs to no job
        batch = _Batch(self._batches, jobs, handler, on_stopped, now, now, begun=not handler.before_each)
        self._batch = batch
        self._done = asyncio.get_running_loop().create_future()
        try:
            if self._is_lost:
                self._done.set_result(self._lost)
            else:
                self._wire.send(protocol.encode_batch(slot, batch.number, jobs))
            clean = await self._until_end(batch)
        except BaseException:
            await self.close()
            raise
        finally:
            self._batch = None
            self._done = None
        self.jobs_run += batch.next
        if clean:
            return self._settle(batch)
        await self.close()
        return await self._settle_lost(batch)

    async def close(self) -> None:
        """End the whole process tree. Idempotent."""
        self.usable = False
        await self.child.kill()
        await asyncio.shield(self._exit)
        self._wire.close()

    async def _until_end(self, batch: _Batch) -> bool:
        """Wait for the end of the batch, watching the clock of the running job.

        True when it was a clean one.
        """
        done = self._done
        assert done is not None
        while True:
            left_s = batch.progress_at + batch.handler.timeout_s - time.monotonic()
            if left_s <= 0:
                break
            if (await asyncio.wait((done,), timeout=left_s))[0]:
                return done.result() is None and not self._is_lost
        batch.asked = True
        await self.child.terminate()
        await asyncio.wait((done,), timeout=self.limits.kill_grace_s)
        return False

    def _received(self, replies: list[Reply]) -> None:
        """Called by the wire with every chunk.

        Raises ProtocolError at the first message that has no business here.
        """
        batch = self._batch
        if batch is None or self._done is None or self._done.done():
            self._received_answer(replies)
            return
        now = time.monotonic()
        start = 0  # of a run of STOPPED replies; nearly always that is all there is, and ENDED after it
        for at in [at for at, reply in enumerate(replies) if reply[0] != protocol.STOPPED]:
            if at > start:
                self._stopped(batch, replies[start:at], now)
            self._received_phase(batch, replies[at], now)
            start = at + 1
        if start < len(replies):
            self._stopped(batch, replies[start:], now)
        if not self._done.done():
            self._maybe_pause(batch, now)

    def _received_answer(self, replies: list[Reply]) -> None:
        for reply in replies:
            if self._answer is None or self._answer.done():
                raise ProtocolError("spoke without being asked")
            self._answer.set_result(reply)

    def _received_phase(self, batch: _Batch, reply: Reply, now: float) -> None:
        if reply.number != batch.number:
            raise ProtocolError("spoke of a batch that is not running")
        if reply.kind == protocol.BEGUN and not batch.begun:
            batch.begun = True
            batch.progress_at = now
        elif reply.kind == protocol.FAILED and not batch.begun:
            batch.hook_error = f"beforeEach failed: {_text(reply.body)}"
            self._finish(None)
        elif reply.kind == protocol.ENDED and batch.begun and batch.next == len(batch.jobs):
            if reply.body:
                batch.hook_error = f"afterEach failed: {_text(reply.body)}"
            self._finish(None)
        elif reply.kind == protocol.LEAVING and 0 < batch.next < len(batch.jobs):
            # Only after progress: a context that leaves before its first job has cost that job an attempt, or
            # a handler could have its jobs given back for ever.
            batch.left = True
        else:
            raise ProtocolError("spoke out of order")

    def _stopped(self, batch: _Batch, replies: list[Reply], now: float) -> None:
        """Turn STOPPED replies into outcomes; the short path is a job that left nothing but its code."""
        if not batch.begun or batch.next + len(replies) > len(batch.jobs) or batch.asked:
            if batch.asked:
                self._take_last_words(batch, replies)
                return
            raise ProtocolError("reported a job that was not running")
        elapsed_ms = (now - batch.progress_at) * 1000
        total_us = sum([reply.duration_us for reply in replies])
        per_us = elapsed_ms / total_us if total_us else 0.0
        even_ms = 0.0 if total_us else elapsed_ms / len(replies)
        stopped: list[Stopped] = []
        level, new, nothing = self.child.level, tuple.__new__, ()
        jobs, index = batch.jobs, batch.next
        try:
            for _, code, reported, us, body in replies:
                if reported != index:
                    raise ProtocolError("reported jobs out of order")
                duration_ms = us * per_us + even_ms
                if code == outcome.OK and not body:
                    stopped.append(
                        new(
                            Stopped,
                            (jobs[index].id, "ok", code, b"", b"", duration_ms, nothing, level, None),
                        )
                    )
                else:
                    stopped.append(self._outcome(jobs[index].id, code, body, duration_ms))
                index += 1
        finally:
            if stopped:
                self._wire.drain_log()
                if self._log.total_bytes:
                    stopped[-1] = self._with_raw_log(stopped[-1])
                batch.next = index
                batch.progress_at = now
                self._report(batch, stopped)

    def _outcome(self, job_id: str, code: int, body: bytes, duration_ms: float) -> Stopped:
        if not outcome.is_status(code):
            raise ProtocolError(f"reported the status {code}, which is none")
        detail = protocol.parse_detail(body, max_new_jobs=self.limits.new_jobs) if body else protocol.NO_DETAIL
        return Stopped(
            job_id,
            outcome.name_of(code),
            code,
            detail.result,
            _with_note(detail),
            duration_ms,
            detail.new_jobs,
            self.child.level,
            detail.retry_after_ms,
        )

    def _with_raw_log(self, stopped: Stopped) -> Stopped:
        text, new_jobs = self._log.take()
        if stopped.exitcode >= outcome.BROKEN:
            new_jobs = ()  # it runs again and makes them again
        return stopped._replace(
            log=(stopped.log + text)[-self.limits.log_bytes :],
            new_jobs=(stopped.new_jobs + new_jobs)[: self.limits.new_jobs],
        )

    def _report(self, batch: _Batch, stopped: list[Stopped]) -> None:
        if batch.holds:
            batch.held += stopped
        else:
            batch.on_stopped(stopped)

    def _take_last_words(self, batch: _Batch, replies: list[Reply]) -> None:
        """A job that was asked to stop may say where it was: its log and text are kept, its code is not."""
        if replies[0].number == batch.next and replies[0].body:
            detail = protocol.parse_detail(replies[0].body, max_new_jobs=self.limits.new_jobs)
            batch.hook_error = _text(detail.result)
            self._log.feed(detail.log)
        self._finish(None)

    def _maybe_pause(self, batch: _Batch, now: float) -> None:
        if batch.next:
            mean_s = (now - batch.started_at) / batch.next
            if mean_s < _FAST_JOB_S and mean_s * (len(batch.jobs) - batch.next) > _WORTH_A_PAUSE_S:
                self._wire.pause()

    def _settle(self, batch: _Batch) -> list[str]:
        """The end of a batch that kept to the protocol; afterEach decides over outcomes that waited."""
        if batch.hook_error:
            batch.on_stopped(self._errors(batch, outcome.BROKEN, batch.hook_error))
        elif batch.held:
            batch.on_stopped(batch.held)
        return []

    async def _settle_lost(self, batch: _Batch) -> list[str]:
        """The end of a batch whose context is gone."""
        exitcode, text = self._why_lost(batch, await self._exit)
        if not batch.begun:
            text = f"beforeEach failed: {text}"
            batch.on_stopped(self._errors(batch, exitcode, text))
            return []
        if batch.next == len(batch.jobs):
            if batch.holds:
                batch.on_stopped(self._errors(batch, exitcode, f"afterEach failed: {text}"))
            return []
        if batch.left and not batch.asked:
            batch.on_stopped(batch.held)
            return [job.id for job in batch.jobs[batch.next :]]
        running_ms = (time.monotonic() - batch.progress_at) * 1000
        culprit = self._error(batch.jobs[batch.next], exitcode, text, running_ms)
        batch.on_stopped([*batch.held, culprit])
        return [job.id for job in batch.jobs[batch.next + 1 :]]

    def _why_lost(self, batch: _Batch, end: Exit) -> tuple[int, str]:
        if batch.asked:
            said = f"\n{batch.hook_error}" if batch.hook_error else ""
            return outcome.TIMED_OUT, f"timed out after {batch.handler.timeout_s:g} s{said}"
        if isinstance(self._lost, OutputError):
            return outcome.TOO_BIG, f"{self._lost}; the job was ended"
        if self._lost is not None:
            return outcome.CRASHED, f"broke the runner protocol: it {self._lost}"
        return outcome.describe_exit(end, memory_mb=self.memory_mb)

    def _errors(self, batch: _Batch, exitcode: int, text: str) -> list[Stopped]:
        """An error of the whole batch; its time is divided among its jobs."""
        share_ms = (time.monotonic() - batch.started_at) * 1000 / len(batch.jobs)
        return [self._error(job, exitcode, text, share_ms) for job in batch.jobs]

    def _error(self, job: BatchJob, exitcode: int, text: str, duration_ms: float) -> Stopped:
        return Stopped(
            job.id,
            outcome.name_of(exitcode),
            exitcode,
            text.encode("utf-8", "replace"),
            self._log.take()[0],
            duration_ms,
            (),
            self.child.level,
        )

    # The end of the process
    # ----------------------------------------------------------------------------------------

    def _on_exit(self, exit_task: asyncio.Task[Exit]) -> None:
        """The process is gone.

        A grandchild may hold the pipes open for ever, so their end is not waited for.
        """
        if exit_task.cancelled() or self._is_lost:
            return
        self._wire.drain()
        self._wire.drain_log()
        self._on_lost(None)

    def _on_lost(self, why: Exception | None) -> None:
        """The wire has nothing more to give: `why` is what was wrong, or None when the context just ended."""
        if self._is_lost:
            return
        self._is_lost = True
        self._lost = why
        self.usable = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(why or ContextEndedError("ended"))
        self._finish(why)

    def _finish(self, why: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(why)


def _text(body: bytes) -> str:
    return body[-10_000:].decode("utf-8", "replace")


def _with_note(detail: Detail) -> bytes:
    if not detail.log_dropped:
        return detail.log
    return b"[%d bytes before this were dropped]\n" % detail.log_dropped + detail.log
