"""Schedules on the wire: the rounds of a job that repeats, its pause, the next times of a pattern."""

from typing import Annotated

from msgspec import Meta

from functory.wire.base import Answer, Request


class RoundRow(Answer):
    """One round that ended. `planned_ms` is when it was due, `started_ms` when its last run began (null: none did), and
    `attempts` counts its runs."""

    planned_ms: int
    started_ms: int | None
    duration_us: int
    code: str
    exitcode: int
    message: str
    attempts: int
    handler_version: int | None
    daemon: str


class PauseRow(Answer):
    """Since when a schedule is paused, and by which key."""

    since_ms: int
    by: str


class NextTimesQuery(Request):
    repeat: Annotated[str, Meta(min_length=1, max_length=200)]
    count: Annotated[int, Meta(ge=1, le=20)] = 5


class NextTimes(Answer):
    """When rounds would be due from now on, if each took no time."""

    times_ms: list[int]
