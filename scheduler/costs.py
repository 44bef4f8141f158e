"""What a job of each type has been taking: for the charge at the start, the size of a batch and the pace of a type.

Owns the estimates. The mean is a quotient of two sums that fade together (seconds and jobs), so a batch of a
thousand weighs more than a batch of one, and one slow first start is soon outweighed. The peak fades slowly: a type
that was slow a moment ago is not trusted with a slot that others need back soon. A batch is sized by what its jobs take
themselves: the start of a context and the way there and back cost a large batch no more than a small one. Remembers the
types that ran last, up to a limit.
"""

from enum import IntEnum
from typing import Final, NamedTuple

from scheduler.values import SchedulerOptions

MEAN_KEEPS: Final = 0.7
"""The part of the sums that outlives the next batch."""
PEAK_FADES: Final = 0.1
"""How much of the peak a second of runner time takes away: a 60-second surprise is held against a type for 600 s of
its own work, so that nobody can afford one often."""

GROWTH: Final = 100
"""A batch has at most this many times the jobs that were measured lately: a first one that seemed to take no time says
little."""


class Pace(IntEnum):
    """How soon a slot comes back from a job: the smaller, the sooner. Not known is between medium and long."""

    SHORT = 0
    MEDIUM = 1
    UNKNOWN = 2
    LONG = 3


class Cost(NamedTuple):
    spent_s: float
    worked_s: float
    """Of that, while its jobs were running."""
    batches: float
    jobs: float
    peak_s: float


NOTHING: Final = Cost(0.0, 0.0, 0.0, 0.0, 0.0)


class Costs:
    def __init__(self, options: SchedulerOptions) -> None:
        self._options = options
        self._costs: dict[str, Cost] = {}

    def learn(self, jobtype: str, count: int, runner_s: float, worked_s: float | None = None) -> None:
        """A batch of `count` jobs held its slot for so long, and its jobs ran for a part of that (None: all of it)."""
        if count < 1:
            return
        old = self._costs.get(jobtype, NOTHING)
        cost = Cost(
            old.spent_s * MEAN_KEEPS + runner_s,
            old.worked_s * MEAN_KEEPS + (runner_s if worked_s is None else min(worked_s, runner_s)),
            old.batches * MEAN_KEEPS + 1,
            old.jobs * MEAN_KEEPS + count,
            max(runner_s / count, old.peak_s - runner_s * PEAK_FADES),
        )
        self._remember(jobtype, cost)

    def overrun(self, jobtype: str, runner_s: float) -> None:
        """A batch has not stopped after so long. It may be one job or all of them: only the pace is concerned."""
        old = self._costs.get(jobtype, Cost(self._options.first_guess_s, self._options.first_guess_s, 1.0, 1.0, 0.0))
        self._remember(jobtype, old._replace(peak_s=max(old.peak_s, runner_s)))

    def expect_s(self, jobtype: str, count: int) -> float:
        """How long a batch of that many jobs is likely to take: to begin and end, and for each of its jobs."""
        cost = self._costs.get(jobtype)
        if cost is None:
            return count * self._options.first_guess_s
        return (cost.spent_s - cost.worked_s) / cost.batches + count * cost.worked_s / cost.jobs

    def pace(self, jobtype: str) -> Pace:
        cost = self._costs.get(jobtype)
        if cost is None:
            return Pace.UNKNOWN
        if 0 < self._options.borrow_s >= cost.peak_s:
            return Pace.SHORT
        return Pace.LONG if cost.peak_s > self._options.long_s else Pace.MEDIUM

    def batch_size(self, jobtype: str, waiting: int, slots: int, most_s: float) -> int:
        """How many jobs take up to `most_s`. A type that was never measured begins with one.

        What waits is spread over `slots`, unless a part would be over sooner than it pays (spread_s).
        """
        cost = self._costs.get(jobtype)
        if cost is None:
            return 1
        job_s = max(cost.worked_s / cost.jobs, 1e-9)
        spread = max(-(-waiting // max(slots, 1)), int(self._options.spread_s / job_s))
        most = min(int(GROWTH * cost.jobs), self._options.max_batch)
        return max(1, min(int(most_s / job_s), spread, waiting, most))

    def _remember(self, jobtype: str, cost: Cost) -> None:
        self._costs.pop(jobtype, None)  # put back at the end: the first is then the one not heard of for longest
        if len(self._costs) >= self._options.remembered_types:
            del self._costs[next(iter(self._costs))]
        self._costs[jobtype] = cost
