"""How many jobs to take at once: what jobs of a type have been taking lately, turned into a number. Pure.

A batch should be about a tenth of a second of work: long enough that the cost of handing it over does not
matter, short enough that a slow type neither holds a context for long nor keeps jobs from other contexts that
are free.
"""

from typing import Final, NamedTuple

TARGET_MS: Final = 100.0
MAX_JOBS: Final = 500
FIRST_BATCH: Final = 8  # nothing is known yet: enough to learn from, few enough to be harmless when each takes a minute
_WEIGHT: Final = 0.3


class Pace(NamedTuple):
    """The smoothed time of one job of a type."""

    job_ms: float

    @classmethod
    def of(cls, before: "Pace | None", jobs: int, elapsed_ms: float) -> "Pace | None":
        """The pace after a batch of `jobs` that took `elapsed_ms`; unchanged when nothing ran."""
        if jobs <= 0:
            return before
        seen = max(elapsed_ms, 0.0) / jobs
        if before is None or seen > before.job_ms * 4:
            return cls(seen)  # slower all of a sudden: believe it at once, holding jobs back is what hurts
        return cls(before.job_ms + _WEIGHT * (seen - before.job_ms))


def batch_size(pace: Pace | None, *, target_ms: float = TARGET_MS, max_jobs: int = MAX_JOBS) -> int:
    """The number of jobs to hand to one context; always from 1 to `max_jobs`."""
    if pace is None:
        return min(FIRST_BATCH, max_jobs)
    if pace.job_ms * max_jobs <= target_ms:
        return max_jobs
    return max(1, int(target_ms / pace.job_ms))
