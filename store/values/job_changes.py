"""What is to be changed of a job that the store has."""

from enum import Enum
from typing import NamedTuple


class Pause(NamedTuple):
    """Since when a job that repeats is paused, and by whom."""

    since_ms: int
    by: str


class Timing(Enum):
    """What a new time of a job is."""

    MOVED = "moved"
    """Of what comes next: its next attempt, if its round has begun."""
    ANEW = "anew"
    """Of a round that begins anew."""
    EXTRA = "extra"
    """Of a round beside the regular one, which keeps its time."""


class JobChange(NamedTuple):
    """For `update_job`; None leaves a thing as it is. With token only that delivery may do it, with at_rest nobody
    while the job runs. timing says what dt_ms is. repeat "" ends the repetition with the next round. pause is
    for a job that repeats; resume_ms ends its pause, and its next round is not before then; ending_ms: until then it
    counts as being cancelled."""

    data: bytes | None = None
    dt_ms: int | None = None
    token: int | None = None
    at_rest: bool = False
    timing: Timing = Timing.MOVED
    repeat: str | None = None
    priority: int | None = None
    pause: Pause | None = None
    resume_ms: int | None = None
    ending_ms: int | None = None

    @property
    def is_of_schedule(self) -> bool:
        """Whether it concerns what only a job that repeats has."""
        said = (self.repeat, self.pause, self.resume_ms, self.ending_ms)
        return self.timing is not Timing.MOVED or any(it is not None for it in said)

    @property
    def needs_rest(self) -> bool:
        """Whether nobody may do it while the job runs."""
        return self.at_rest or any(it is not None for it in (self.dt_ms, self.repeat, self.priority))
