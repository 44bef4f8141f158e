"""One job of the store in memory."""

from dataclasses import dataclass, field
from typing import Any

from store.base import Attempt, Job, Outcome
from store.names import DONE_LOCK, PAUSED_LOCK


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
    settled: bool = False
    children: set[str] = field(default_factory=set)
    pending: set[str] = field(default_factory=set)

    def set(self, **changes: Any) -> None:
        self.job = self.job._replace(**changes)

    def queue(self, due_ms: int) -> None:
        self.set(lock="", dt_ms=due_ms, due_ms=due_ms)
        self.next_ms = None

    def let_in(self, now_ms: int) -> None:
        """It was held, and waits from now on."""
        self.held = False
        if self.job.due_ms < now_ms:
            self.set(planned_ms=self.job.scheduled_ms)
        self.queue(max(self.job.due_ms, now_ms))

    def pause(self, now_ms: int, next_ms: int | None = None, **changes: Any) -> None:
        self.set(lock=PAUSED_LOCK, dt_ms=now_ms, due_ms=now_ms, **changes)
        self.next_ms = next_ms

    def wake(self, now_ms: int) -> None:
        self.queue(now_ms if self.next_ms is None else self.next_ms)
        self.set(attempts=0)

    def start_round(self, due_ms: int) -> None:
        self.queue(due_ms)
        self.set(attempts=0, begun_ms=None, planned_ms=None)

    def start_anew(self, due_ms: int, parent: "Entry | None") -> None:
        if not self.live and parent is not None and parent.live:
            parent.pending.add(self.job.id)
            self.settled = False
        self.start_round(due_ms)

    def discard(self) -> bool:
        """It is over or paused, and was not to be kept. Returns whether nothing of it stays."""
        if self.outcome and (self.job.parent or self.children):
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
    def queued(self) -> bool:
        return self.job.lock == ""

    @property
    def running(self) -> bool:
        return self.job.lock not in {"", DONE_LOCK, PAUSED_LOCK}
