"""One job of the store in memory."""

from dataclasses import dataclass, field
from typing import Any

from store.base import NO_SCHEDULE, Attempt, Job, JobChange, Outcome, Round, Schedule, Timing
from store.errors import Conflict
from store.names import DONE_LOCK, PAUSED_LOCK

MOST_ROUNDS = 20
MESSAGE_BYTES = 200


@dataclass
class Entry:
    job: Job
    held: bool = False
    outcome: Outcome | None = None
    history: tuple[Attempt, ...] = ()
    done_ms: int = 0
    claimed_ms: int = 0
    next_ms: int | None = None
    """For when the next round of a paused parent is planned, if its last one did not end well."""
    schedule: Schedule = NO_SCHEDULE
    on_hold: bool = False
    """Out of the queue because its schedule is paused, and for no other reason."""
    settled: bool = False
    pending: set[str] = field(default_factory=set)

    def set(self, **changes: Any) -> None:
        self.job = self.job._replace(**changes)

    def queue(self, due_ms: int) -> None:
        self.set(lock="", dt_ms=due_ms, due_ms=due_ms)
        self.next_ms, self.on_hold = None, False

    def let_in(self, now_ms: int) -> None:
        """It was held, and waits from now on."""
        self.held = False
        if self.job.due_ms < now_ms:
            self.set(planned_ms=self.job.scheduled_ms)
        self.queue(max(self.job.due_ms, now_ms))

    def pause(self, now_ms: int, next_ms: int | None = None, **changes: Any) -> None:
        self.set(lock=PAUSED_LOCK, dt_ms=now_ms, due_ms=now_ms, **changes)
        self.next_ms, self.on_hold = next_ms, False

    def wake(self, now_ms: int) -> None:
        if self.next_ms is None:
            self.queue(now_ms)
            self.set(attempts=0)
        else:
            self.await_round(self.next_ms)

    def start_round(self, due_ms: int) -> None:
        self.queue(due_ms)
        self.set(attempts=0, begun_ms=None, planned_ms=None)

    def start_anew(self, due_ms: int, parent: "Entry | None") -> None:
        if not self.live:
            self.schedule = Schedule(self.schedule.rounds)
            if parent is not None and parent.live:
                parent.pending.add(self.job.id)
                self.settled = False
        self.start_round(due_ms)

    def await_round(self, due_ms: int) -> None:
        """Its next round is planned for then, and begins only when it is not paused."""
        self.start_round(due_ms)
        self.hold_if_paused()

    def hold_if_paused(self) -> None:
        """It is between two rounds."""
        self.on_hold = self.schedule.pause is not None
        self.set(lock=PAUSED_LOCK if self.on_hold else "")

    def end_round(self, outcome: Outcome, daemon: str) -> None:
        message = outcome.message.encode()[:MESSAGE_BYTES].decode(errors="ignore")
        ended = Round(
            self.job.scheduled_ms, outcome.started_ms, outcome.duration_us, outcome.code, outcome.exitcode, message,
            self.job.attempts, outcome.handler_version, daemon,
        )  # fmt: skip
        rounds = (*self.schedule.rounds, ended)[-MOST_ROUNDS:]
        self.schedule = self.schedule._replace(rounds=rounds, regular_ms=None)

    def follow_round(self, outcome: Outcome, daemon: str, due_ms: int) -> None:
        """A round has ended, and the next one would be due then. An extra one has not moved it."""
        regular_ms = self.schedule.regular_ms
        self.end_round(outcome, daemon)
        self.await_round(due_ms if regular_ms is None else regular_ms)
        self.history = ()

    def give_back(self) -> None:
        self.queue(self.job.due_ms)
        self.set(attempts=self.job.attempts - 1)
        if not self.has_begun and self.schedule.regular_ms is None:
            self.hold_if_paused()

    def change(self, change: JobChange, now_ms: int) -> None:
        """What concerns its schedule, and when it is due. Not called with a new time while it runs."""
        between = (self.queued or self.on_hold) and not self.has_begun
        if change.timing is Timing.EXTRA and not (between and (self.on_hold or self.job.due_ms > now_ms)):
            raise Conflict(self.job.id)
        if change.pause is not None:
            self._pause_schedule(change)
        if change.resume_ms is not None and self.schedule.pause is not None:
            self._resume(change.resume_ms)
        if change.dt_ms is not None:
            self._retime(change, change.dt_ms)
        if change.ending_ms is not None:
            self.schedule = self.schedule._replace(ending_ms=change.ending_ms)
        if change.is_of_schedule and (self.queued or self.on_hold):
            self.set(lock="")
            self.on_hold = False
            if not self.has_begun and self.schedule.regular_ms is None:
                self.hold_if_paused()

    def _pause_schedule(self, change: JobChange) -> None:
        if self.schedule.pause is None:
            if self.schedule.regular_ms is not None and not self.has_begun and change.dt_ms is None:
                self._move(self.schedule.regular_ms)  # the extra round is taken back
                self.schedule = self.schedule._replace(regular_ms=None)
            self.schedule = self.schedule._replace(pause=change.pause)

    def _resume(self, resume_ms: int) -> None:
        self.schedule = self.schedule._replace(pause=None)
        if self.schedule.regular_ms is not None:
            self.schedule = self.schedule._replace(regular_ms=max(self.schedule.regular_ms, resume_ms))
        elif not self.has_begun:
            planned_ms = self.job.due_ms if self.next_ms is None else self.next_ms
            if planned_ms < resume_ms:
                self._move(resume_ms)

    def _retime(self, change: JobChange, dt_ms: int) -> None:
        """A new time of the next attempt, of the next round, or of one that comes before it."""
        if change.timing is Timing.EXTRA:
            if self.schedule.regular_ms is None:
                self.schedule = self.schedule._replace(regular_ms=self.job.due_ms)
            self._begin_anew(dt_ms)
        elif change.timing is Timing.MOVED:
            self._move(dt_ms)
        elif self.next_ms is None and self._has_other_round_first(change):
            self.schedule = self.schedule._replace(regular_ms=dt_ms)
        else:
            self.schedule = self.schedule._replace(regular_ms=None)
            self._begin_anew(dt_ms)

    def _begin_anew(self, dt_ms: int) -> None:
        self._move(dt_ms)
        if self.queued or self.on_hold:
            self.set(attempts=0, begun_ms=None, planned_ms=None)
            self.history = ()

    def _has_other_round_first(self, change: JobChange) -> bool:
        """An extra one, unless there is to be none after it; or the one that waits for its children."""
        is_extra = self.schedule.regular_ms is not None and change.repeat != ""
        return is_extra or (self.has_begun and not self.queued)

    def _move(self, due_ms: int) -> None:
        self.set(due_ms=due_ms, dt_ms=self.job.dt_ms if self.running else due_ms)
        if self.next_ms is not None:
            self.next_ms = due_ms

    def ended_with(self, ending: Outcome) -> Outcome:
        """Its last outcome when it ends without a run: the rest of its last run stays."""
        return self.outcome._replace(code=ending.code, exitcode=ending.exitcode) if self.outcome else ending

    def discard(self) -> bool:
        """It is over or paused, and was not to be kept. Returns whether nothing of it stays."""
        if self.outcome and (self.job.parent or self.job.children):
            self.outcome = self.outcome._replace(result=None, log=b"")
            return False
        return self.job.seq is None

    @property
    def live(self) -> bool:
        return self.job.lock != DONE_LOCK

    @property
    def waits_since_ms(self) -> int:
        return max(self.job.due_ms, self.job.create_ms, self.done_ms, self.claimed_ms)

    def is_over_for(self, parent: "Entry | None") -> bool:
        """Whether it has ended, and its parent will not be told of it any more: that is over, or in a later round."""
        if self.live or self.outcome is None:
            return False
        is_later = parent is not None and parent.job.repeat and self.job.create_ms < parent.job.scheduled_ms
        return parent is None or not parent.live or bool(is_later)

    @property
    def has_begun(self) -> bool:
        """Whether its round has had a run that counts, or waited for children."""
        return self.job.attempts > 0 or self.job.planned_ms is not None

    @property
    def queued(self) -> bool:
        return self.job.lock == ""

    @property
    def running(self) -> bool:
        return self.job.lock not in {"", DONE_LOCK, PAUSED_LOCK}
