"""One batch under way: what the child's replies mean for its jobs. No I/O, no clock of its own, knows no process.

Ensures, whatever is fed to it: every job is reported through `on_stopped` once, or returned by `give_up` once, never
both. The child runs in order and reports each job before it starts the next, so the job that is running is the first
that has not been reported; `give_up` charges that one and gives back those after it.

Times are the daemon's: what the child says only divides the elapsed time among the jobs of one chunk. The time of the
batch's hooks is divided evenly among its jobs.
"""

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from itertools import repeat
from typing import Final

from handlers.model import Handler
from runner import outcome, protocol
from runner.errors import ProtocolError
from runner.launch import Level
from runner.limits import ContextLimits
from runner.log_note import end_of
from runner.new_jobs import NewJobs, detail_within
from runner.outcome import Stopped
from runner.progress import progress_of
from runner.protocol import BatchJob, Reply, ReplyRow
from runner.raw_log import Printed, RawLog

_FAST_JOB_S: Final = 0.0005  # jobs quicker than this are worth reading in bigger chunks
_WORTH_A_PAUSE_S: Final = 0.002
_PRINTS_THROUGH_US: Final = 20_000
"""A job that runs for longer prints past its reply, at once (handlers/bootstraps). Of several whose replies are read
together, what was read is one such job's. By its own clock: ours divides the time of a whole chunk."""
_TEXT_BYTES: Final = 10_000

PROGRESS_FREE: Final = 100
PROGRESS_PER_S: Final = 20
PROGRESS_SAVED: Final = 4000
"""How often a running job may tell its progress: so many times at once, and so often from then on. Bootstraps leave out
what is more than ten times, and ten a second. What is not used is saved, up to what a pipe holds: a daemon that did not
read for a while finds in one moment what was told in that time."""

OnStopped = Callable[[Sequence[Stopped]], None]


class Batch:
    """`over` is True when the child has said its last word on it; then comes `settle`, or `give_up` if it is gone."""

    def __init__(
        self,
        number: int,
        jobs: Sequence[BatchJob],
        handler: Handler,
        on_stopped: OnStopped,
        *,
        log: RawLog,
        limits: ContextLimits,
        level: Level,
        now: float,
        cancelled: AbstractSet[str] = frozenset(),
        oom_kills: Callable[[], int] = lambda: 0,
        is_gone: Callable[[], bool] = lambda: False,
    ) -> None:
        """cancelled has the ids of jobs that are not to run on; it may grow. oom_kills tells how many processes of the
        context were ended for memory so far, is_gone whether no reply will come any more."""
        self.number = number
        self.jobs = jobs
        self.handler = handler
        self.reported = 0
        self.over = False
        self.progress = b""
        """What the running job last said of its progress, as JSON."""
        self.progress_at = now
        self._allowed_until = 0.0
        self._told = 0.0  # how often the running job has told its progress lately; below 0 is what was saved
        self._told_at = now
        self._started_at = now
        self._unheard_ms = 0.0  # before the daemon heard that its handler is ready: jobs may have run by then
        self._on_stopped = on_stopped
        self._log = log
        self._limits = limits
        self._level = level
        self._cancelled = cancelled
        self._oom_kills = oom_kills
        self._oom_kills_seen = oom_kills()
        self._is_gone = is_gone
        self._begun = not handler.before_each
        self._is_leaving = self._left = False  # the child says, or has said, that it starts no further job
        self._stop_later = 0  # how many jobs stop later in the chunk that is read
        self._asked = False  # it was told to stop: a job ran out of time, or was cancelled
        self._is_cancelled = False  # that was the reason
        self._last_words = ""  # of a job that was asked to stop
        self._last_dropped = 0  # of the log that came with them
        self._hook_error = ""
        self._before_ms = 0.0  # each job's share of beforeEach
        self._after_ms = 0.0  # and of afterEach
        self._held: list[Stopped] = []  # outcomes that wait for afterEach
        self._held_bytes = 0

    def begin(self, now: float) -> None:
        """Its handler is ready only now: the time before this is no job's, but for what the first of them claim."""
        self._unheard_ms = (now - self._started_at) * 1000
        self.progress_at = self._started_at = now

    def allow(self, seconds: float, now: float) -> None:
        """The running job has at least so long from now on. How long it takes is counted as before."""
        self._allowed_until = now + seconds

    @property
    def deadline(self) -> float:
        """When the job that is running has used up its time."""
        return max(self.progress_at + self.handler.timeout_s, self._allowed_until)

    def is_running(self, job_id: str) -> bool:
        """Whether it is that job's turn."""
        has_one = self._begun and not self.over and self.reported < len(self.jobs)
        return has_one and self.jobs[self.reported].id == job_id

    @property
    def is_running_a_cancelled_job(self) -> bool:
        """It is to be told to stop."""
        if not self._cancelled or self.over or not self._begun or self.reported == len(self.jobs):
            return False
        return self.jobs[self.reported].id in self._cancelled

    def feed(self, replies: Sequence[ReplyRow], now: float) -> bool:
        """Take a chunk of replies; True when it is over. Raises ProtocolError at the first that does not belong."""
        start = 0  # of a run of STOPPED replies; nearly always that is all there is, with ENDED after it
        phases = {at: reply[0] for at, reply in enumerate(replies) if reply[0] != protocol.STOPPED}
        self._is_leaving = protocol.LEAVING in phases.values()
        for index, (at, kind) in enumerate(phases.items()):
            self._stop_later = len(replies) - at - (len(phases) - index)
            if at > start:
                self._take_stopped(replies[start:at], now)
            start = at + 1
            if kind == protocol.PROGRESS:
                self._count_progress(now)
                if phases.get(start) == protocol.PROGRESS:
                    continue  # only the last word counts
            self._take_phase(replies[at], now)
        self._stop_later = 0
        if start < len(replies):
            self._take_stopped(replies[start:], now)
        return self.over

    def ask(self) -> None:
        """The running job was told to stop. It may still say where it was; its outcome is decided."""
        self._asked = True
        self._is_cancelled = self.is_running_a_cancelled_job

    def more_soon(self, now: float) -> bool:
        """Whether so many quick jobs are left that their replies are better read together, a moment later."""
        if not self.reported:
            return False
        mean_s = (now - self._started_at) / self.reported
        return mean_s < _FAST_JOB_S and mean_s * (len(self.jobs) - self.reported) > _WORTH_A_PAUSE_S

    def settle(self, now: float) -> None:
        """The end of a batch that kept to the protocol; afterEach decides over the outcomes that waited for it."""
        if self._hook_error:
            self._on_stopped(self._errors(outcome.BROKEN, self._hook_error, now))
        elif self._held:
            self._on_stopped([one._replace(duration_ms=one.duration_ms + self._after_ms) for one in self._held])

    def give_up(self, exitcode: int, why: str, now: float) -> list[str]:
        """The context is gone. Reports the job that was running and returns the ids of those that had not started."""
        if self._is_cancelled:
            exitcode, why = outcome.CANCELLED, f"cancelled while it was running\n{self._last_words}".strip()
        elif self._asked:
            exitcode, why = outcome.TIMED_OUT, f"{self._last_words}\n{self._timed_out}".strip()
        if not self._begun:
            self._on_stopped(self._errors(exitcode, f"beforeEach failed: {why}", now))
            return []
        all_reported = self.reported == len(self.jobs)
        if self._left and (all_reported or not self._asked):  # afterEach has not been tried, so it has not failed
            if self._held:
                self._on_stopped(self._held)
            return [job.id for job in self.jobs[self.reported :]]
        if all_reported:
            if self.handler.after_each:
                self._on_stopped(self._errors(exitcode, f"afterEach failed: {why}", now))
            return []
        culprit = self._error(
            self.jobs[self.reported], exitcode, why, self._before_ms + (now - self.progress_at) * 1000
        )
        if self._is_cancelled:
            culprit = outcome.cancelled(culprit, culprit.result)
        self._on_stopped([*self._held, culprit])
        return [job.id for job in self.jobs[self.reported + 1 :]]

    # Replies ------------------------------------------------------------------------------------------------------

    def _take_phase(self, reply: ReplyRow, now: float) -> None:
        kind, _, number, _, body = reply
        if number != self.number or self.over:
            raise ProtocolError("spoke of a batch that is not running")
        if kind == protocol.PROGRESS and self._begun and not self._left:
            self.progress = progress_of(body)
        elif kind == protocol.BEGUN and not self._begun:
            self._begun = True
            self._before_ms = self._share_ms(now)
            self.progress_at = now
        elif kind == protocol.FAILED and not self._begun:
            self._hook_error = f"beforeEach failed: {self._text(body)}"
            self.over = True
        elif kind == protocol.ENDED and self._begun and self.reported == len(self.jobs) and not self._left:
            if body and not self.handler.after_each:  # its jobs have their outcome already
                raise ProtocolError("told of a hook that it does not have")
            if self._held:
                self._after_ms = self._share_ms(now)
            if body:
                self._hook_error = f"afterEach failed: {self._text(body)}"
            self.over = True
        elif kind == protocol.LEAVING and self.reported and not self._left:
            # Only after progress: a context that leaves before its first job has cost that job an attempt, or a
            # handler could have its jobs given back for ever.
            self._left = True
        else:
            raise ProtocolError("spoke out of order")

    def _count_progress(self, now: float) -> None:
        """To send such a reply is cheaper than to take it: a job could keep everybody busy."""
        forgotten, self._told_at = PROGRESS_PER_S * (now - self._told_at), now
        self._told = max(self._told - forgotten, -PROGRESS_SAVED) + 1
        if self._told > PROGRESS_FREE:
            raise ProtocolError("told its progress far too often")

    def _take_stopped(self, replies: Sequence[ReplyRow], now: float) -> None:
        """Turn STOPPED replies into outcomes; the short path is jobs that left nothing but a result."""
        if self._asked:
            self._take_last_words(Reply(*replies[0]))
            return
        end = self.reported + len(replies)
        if not self._begun or self.over or end > len(self.jobs):
            raise ProtocolError("reported a job that was not running")
        _, codes, numbers, shares_us, bodies = zip(*replies, strict=True)
        ids = [job.id for job in self.jobs[self.reported : end]]
        durations_ms = self._durations_ms(shares_us, now)
        stopped: list[Stopped] = []
        are_ok = set(codes) == {outcome.OK}
        killed: int | None = None
        if not are_ok or end < len(self.jobs):  # the next batch counts anew
            killed = self._killed_for_memory(codes, durations_ms)
        try:
            if are_ok and numbers == tuple(range(self.reported, end)):
                nothing = repeat(b"", len(bodies))
                results = protocol.bare_results(bodies, self._limits.result_bytes) if any(bodies) else nothing
                if results is not None:
                    stopped = outcome.ended_well(ids, results, durations_ms, self._level)
                    return
            for index, number in enumerate(numbers):
                if number != self.reported + index:
                    raise ProtocolError("reported jobs out of order")
                one = self._outcome(ids[index], codes[index], bodies[index], durations_ms[index], index == killed)
                stopped.append(one)
        finally:  # those before a reply that is wrong keep their outcome
            if stopped:
                self.reported += len(stopped)
                self.progress = b""
                self._told = min(self._told, 0.0)
                self.progress_at, self._allowed_until = now, 0.0
                self._report(stopped, shares_us)

    def _durations_ms(self, shares_us: Sequence[int], now: float) -> list[float]:
        elapsed_ms = (now - self.progress_at) * 1000
        total_us = sum(shares_us)
        if self._unheard_ms:
            elapsed_ms += min(max(total_us / 1000 - elapsed_ms, 0.0), self._unheard_ms)
            self._unheard_ms = 0.0
        if not total_us:
            return [self._before_ms + elapsed_ms / len(shares_us)] * len(shares_us)
        per_us = elapsed_ms / total_us
        return [self._before_ms + share_us * per_us for share_us in shares_us]

    def _share_ms(self, now: float) -> float:
        """Of one job in the time of a hook that has just ended."""
        return (now - self.progress_at) * 1000 / len(self.jobs)

    def _outcome(self, job_id: str, code: int, body: bytes, duration_ms: float, was_killed: bool) -> Stopped:
        if not outcome.is_status(code):
            raise ProtocolError(f"reported {code}, an invalid status code")
        detail = detail_within(body, self._limits)
        if was_killed:
            told = (outcome.OOM_KILLED + self._end_of(detail.result))[: self._limits.result_bytes]
            code, detail = outcome.NO_MEMORY, detail._replace(result=told)
        log, dropped = self._end_of_log(detail.log, detail.log_dropped)
        leaves_nothing = outcome.leaves_nothing(code)
        return Stopped(
            job_id,
            outcome.name_of(code),
            code,
            detail.result,
            log,
            duration_ms,
            () if leaves_nothing else detail.new_jobs,
            self._level,
            detail.retry_after_ms,
            None if leaves_nothing else detail.carried,
            dropped,
        )

    def _killed_for_memory(self, codes: Sequence[int], durations_ms: Sequence[float]) -> int | None:
        """The job of this chunk that lost a program to the kernel, which may leave the rest of the context alone.

        Of several that failed it is the one that ran longest: memory takes time to fill. A job that ended well, or in
        words of its own, has got over it, and no later job is charged with it.
        """
        before, self._oom_kills_seen = self._oom_kills_seen, self._oom_kills()
        failed = [index for index, code in enumerate(codes) if code == outcome.BROKEN]
        if self._oom_kills_seen <= before or not failed:
            return None
        return max(failed, key=durations_ms.__getitem__)

    def _end_of_log(self, log: bytes, dropped: int) -> tuple[bytes, int]:
        return end_of(log, dropped, self._limits.log_bytes)

    def _take_last_words(self, reply: Reply) -> None:
        """A job that was asked to stop may say where it was: its log and text are kept, its code is not."""
        if reply.number == self.reported < len(self.jobs) and reply.body:
            detail = detail_within(reply.body, self._limits)
            self._last_words = self._text(detail.result).removesuffix(self._timed_out).strip()
            self._log.feed(detail.log)
            self._last_dropped = detail.log_dropped
        self.over = True

    @property
    def _timed_out(self) -> str:
        return f"timed out after {self.handler.timeout_s:g} s"

    # Outcomes -----------------------------------------------------------------------------------------------------

    def _report(self, stopped: list[Stopped], claimed_us: Sequence[int]) -> None:
        if self._log.total_bytes:
            slow = [index for index, us in enumerate(claimed_us[: len(stopped)]) if us >= _PRINTS_THROUGH_US]
            if slow or not self._stop_later:
                whose = slow[-1] if slow else -1
                stopped[whose] = self._with_raw_log(stopped[whose], is_sure=bool(slow))
        if self.handler.after_each:
            self._held += map(self._bounded, stopped)
        else:
            self._on_stopped(stopped)

    def _bounded(self, stopped: Stopped) -> Stopped:
        """What waits for afterEach is held here, so all of it together may be as big as what one job may leave."""
        self._held_bytes += outcome.size_bytes(stopped)
        if self._held_bytes <= self._limits.reply_bytes:
            return stopped
        self._held_bytes -= outcome.size_bytes(stopped)
        limit = f"{self._limits.reply_bytes >> 20} MB"
        return outcome.too_big(
            stopped, f"the jobs of a batch with afterEach left more than {limit} together: lower max_batch"
        )._replace(log=b"", log_dropped=0)

    def _with_raw_log(self, stopped: Stopped, *, is_sure: bool) -> Stopped:
        """With what was printed past the replies. If the context ended in the next job, that one's are the last words:
        only new jobs are taken for this one's, because a job that fails makes none."""
        printed = self._take_printed()
        if not is_sure and self.reported < len(self.jobs) and not self._is_leaving and self._is_gone():
            self._log.feed(printed.log)
            self._last_dropped = printed.dropped
            printed = printed._replace(log=b"", dropped=0)
        log, dropped = self._end_of_log(stopped.log + printed.log, stopped.log_dropped + printed.dropped)
        stopped = stopped._replace(log=log, log_dropped=dropped)
        if outcome.leaves_nothing(stopped.exitcode):
            return stopped
        new_jobs = NewJobs(self._limits)
        new_jobs.add_all(stopped.new_jobs + printed.new_jobs)
        if too_much := printed.too_much or new_jobs.too_much:
            return outcome.too_big(stopped, too_much)
        return stopped._replace(new_jobs=new_jobs.taken())

    def _errors(self, exitcode: int, text: str, now: float) -> list[Stopped]:
        """An error of the whole batch; its time is divided among its jobs."""
        share_ms = (now - self._started_at) * 1000 / len(self.jobs)
        logs = {one.id: (one.log, one.log_dropped) for one in self._held}  # with what afterEach printed in a reply
        return [self._error(job, exitcode, text, share_ms, *logs.get(job.id, ())) for job in self.jobs]

    def _error(
        self, job: BatchJob, exitcode: int, text: str, duration_ms: float, said: bytes = b"", said_dropped: int = 0
    ) -> Stopped:
        """said is the log that it had when it stopped."""
        printed = self._take_printed()
        log, dropped = self._end_of_log(said + printed.log, said_dropped + printed.dropped)
        result = text.encode("utf-8", "replace")
        name = outcome.name_of(exitcode)
        return Stopped(job.id, name, exitcode, result, log, duration_ms, (), self._level, log_dropped=dropped)

    def _take_printed(self) -> Printed:
        """What was read past the replies. What was dropped of words that were put back counts."""
        printed, dropped, self._last_dropped = self._log.take(), self._last_dropped, 0
        return printed._replace(dropped=printed.dropped + dropped)

    def _text(self, body: bytes) -> str:
        return self._end_of(body).decode("utf-8", "replace")

    def _end_of(self, body: bytes) -> bytes:
        """To be put behind other words. It may have been cut, here or by the child, within a secret."""
        return self._log.hide_cut(body[-_TEXT_BYTES:])
