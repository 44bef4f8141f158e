"""What the store keeps of a job that repeats, beside the job: its last rounds, whether it is paused, the time of its
regular round while an extra one comes first, and whether a cancel of it is under way.

Pure: both back ends keep the same fields, and ask here what a change or the end of a round makes of them.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from store.values.job_changes import JobChange, Pause, Timing
from vocabulary.states import Code

MOST_ROUNDS: Final = 20
LISTED_ROUNDS: Final = 10
"""So many of them are in a list of schedules."""
_MESSAGE_BYTES: Final = 200


class Round(NamedTuple):
    """One round of a job that repeats, from its time to its end. started_ms is 0 if it ended without a run. attempts
    counts its runs, and daemon names who ran the last one ("": nobody)."""

    planned_ms: int
    started_ms: int
    duration_us: int
    code: Code
    exitcode: int
    message: str
    attempts: int
    handler_version: int
    daemon: str


class Schedule(NamedTuple):
    """rounds has the last MOST_ROUNDS that ended, oldest first. regular_ms: the time of the next regular round, while
    an extra one comes before it. ending_ms: until then a cancel is under way (0: none is)."""

    rounds: tuple[Round, ...] = ()
    pause: Pause | None = None
    regular_ms: int | None = None
    ending_ms: int = 0


NO_SCHEDULE: Final = Schedule()


class Standing(NamedTuple):
    """Where a job stands. has_begun: its round has had a run, or waited for children."""

    in_queue: bool
    on_hold: bool
    has_begun: bool
    due_ms: int


class Plan(NamedTuple):
    """What a change makes of a job. on_hold: it leaves the queue, or stays out of it, because it is paused. is_anew:
    its round begins anew, without attempts and history."""

    schedule: Schedule
    due_ms: int
    on_hold: bool
    is_anew: bool


def planned(schedule: Schedule, change: JobChange, at: Standing) -> Plan:
    """A pause takes effect between two rounds: one that has begun goes on, and so does an extra one. A new time of one
    that waits for its children, or for an extra round, is that of the round after this one."""
    due_ms, has_begun, regular_ms = at.due_ms, at.has_begun, schedule.regular_ms
    pause = schedule.pause or change.pause
    if change.resume_ms is not None and pause is not None:
        pause = None
        if regular_ms is not None:
            regular_ms = max(regular_ms, change.resume_ms)
        elif not has_begun:
            due_ms = max(due_ms, change.resume_ms)
    is_anew = change.dt_ms is not None and change.timing is not Timing.MOVED
    if change.dt_ms is not None:
        comes_first = (regular_ms is not None and change.repeat != "") or (
            has_begun and not (at.in_queue or at.on_hold)
        )
        if change.timing is Timing.ANEW and comes_first:
            regular_ms, is_anew = change.dt_ms, False
        else:
            due_ms = change.dt_ms
            if change.timing is Timing.EXTRA:
                regular_ms = at.due_ms if regular_ms is None else regular_ms
            elif change.timing is Timing.ANEW:
                regular_ms, has_begun = None, False
    elif change.pause is not None and schedule.pause is None and regular_ms is not None and not has_begun:
        due_ms, regular_ms = regular_ms, None
    ending_ms = schedule.ending_ms if change.ending_ms is None else change.ending_ms
    after = Schedule(schedule.rounds, pause, regular_ms, ending_ms)
    on_hold = is_on_hold(after, has_begun=has_begun)
    return Plan(after, due_ms, on_hold, is_anew)


def is_on_hold(schedule: Schedule, *, has_begun: bool) -> bool:
    """Whether a pause keeps the next round from beginning. An extra one may."""
    return schedule.pause is not None and not has_begun and schedule.regular_ms is None


def after_round(schedule: Schedule, ended: Round) -> Schedule:
    """When a round has ended. The last MOST_ROUNDS are kept, each with the beginning of its message."""
    message = ended.message.encode("utf-8", "replace")[:_MESSAGE_BYTES].decode("utf-8", "ignore")
    rounds = (*schedule.rounds[1 - MOST_ROUNDS :], ended._replace(message=message))
    return schedule._replace(rounds=rounds, regular_ms=None)


def latest(schedule: Schedule, rounds: int) -> Schedule:
    """With so many of the rounds, the last ones."""
    return schedule._replace(rounds=schedule.rounds[-rounds:] if rounds else ())


def schedule_fields(schedule: Schedule) -> dict[str, Any]:
    """As plain values, without what is empty."""
    fields = {
        "rounds": [[*map(_plain, ended)] for ended in schedule.rounds],
        "pause": None if schedule.pause is None else [*schedule.pause],
        "regular": schedule.regular_ms,
        "ending": schedule.ending_ms or None,
    }
    return {name: value for name, value in fields.items() if value not in (None, [])}


def schedule_from(fields: Mapping[str, Any] | None) -> Schedule:
    if not fields:
        return NO_SCHEDULE
    rounds = tuple(Round(*values) for values in fields.get("rounds", ()))
    return Schedule(
        tuple(ended._replace(code=Code(ended.code)) for ended in rounds),
        Pause(*fields["pause"]) if "pause" in fields else None,
        fields.get("regular"),
        fields.get("ending", 0),
    )


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Code) else value
