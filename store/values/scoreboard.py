"""Scoreboard values: counters of a jobtype, time buckets, groups of failures, usage of a tenant."""

from typing import Final, NamedTuple

from store.values.histogram import Histogram

MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 86_400_000

RESOLUTIONS: Final = {MINUTE_MS: 2 * DAY_MS, HOUR_MS: 60 * DAY_MS, DAY_MS: 1100 * DAY_MS}
"""Width of the buckets that are kept, and for how long. All widths are written at once, so none is derived late."""


FAILURES_KEPT_MS: Final = 60 * DAY_MS
MAX_FAILURE_GROUPS: Final = 1000
OTHER_FAILURES: Final = "other"
"""The fingerprint under which runs are counted when a jobtype has MAX_FAILURE_GROUPS kinds of failure."""

DUE_CAP: Final = 10_000
"""Jobs of one type that came due are counted up to this number, so that reading counters stays cheap."""

MAX_BUCKETS: Final = 1500
"""Most buckets of time in one call: a day of minutes, and some."""


class TypeCounters(NamedTuple):
    """One row of the scoreboard.

    waiting, deferred, running (lapsed leases included until they are expired) and blocked (the job state "paused":
    parents and children that wait for each other) are what there is now. The others count events since the jobtype
    exists: every run that ended with retry or error, and every job that reached a final code, each time (a re-armed or
    replayed job counts again). paused: the operator or tenant stopped this type.
    """

    jobtype: str
    waiting: int = 0
    deferred: int = 0
    running: int = 0
    blocked: int = 0
    ok: int = 0
    failed: int = 0
    retry: int = 0
    error: int = 0
    abandoned: int = 0
    cancelled: int = 0
    paused: bool = False


class Bucket(NamedTuple):
    """What ended in [start_ms, start_ms + width_ms). duration and wait are in microseconds.

    duration of every run that was released with an outcome; wait from due to start of the same runs; jobs
    that ended without a run (cancelled, abandoned in the queue) are in the counts only.
    runner_us is the exact sum of durations: the runner time that the type used.
    """

    jobtype: str
    start_ms: int
    width_ms: int
    ok: int
    failed: int
    retry: int
    error: int
    abandoned: int
    cancelled: int
    runner_us: int
    duration: Histogram
    wait: Histogram


class EndedSum(NamedTuple):
    """Counts of several buckets together, without their histograms."""

    ok: int = 0
    failed: int = 0
    retry: int = 0
    error: int = 0
    abandoned: int = 0
    cancelled: int = 0
    runner_us: int = 0


class Span(NamedTuple):
    """Buckets of one width that start in [since_ms, until_ms), to be added (1) or taken away (-1)."""

    sign: int
    width_ms: int
    since_ms: int
    until_ms: int


class FailureGroup(NamedTuple):
    """Runs of one jobtype with the same fingerprint; message and example are those of the last one."""

    jobtype: str
    fingerprint: str
    message: str
    runs: int
    first_ms: int
    last_ms: int
    example_id: str


class Usage(NamedTuple):
    """What a tenant has stored: jobs in any state; bytes of payloads, results, logs and all kept versions of handlers;
    handlers in force."""

    jobs: int
    size_bytes: int
    handlers: int
