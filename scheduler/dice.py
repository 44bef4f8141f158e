"""Random: any waiting jobtype, all equally likely. Starves nobody and promises nothing; a base line for the others."""

from collections.abc import Callable, Collection

from scheduler.policy import Policy
from scheduler.values import Pick, SchedulerOptions


class RandomChoice(Policy):
    def __init__(self, options: SchedulerOptions, roll: Callable[[], float]) -> None:
        """`roll` gives numbers in [0, 1)."""
        super().__init__(options)
        self._roll = roll

    def select_jobtype_to_run(self, warm: Collection[str] = ()) -> Pick | None:
        """One of the warm ones, if there are any. Cost: on the number of waiting types."""
        runnable = [jobtype for jobtype in self.board.types if self.board.hold(jobtype) is None]
        chosen = [jobtype for jobtype in runnable if jobtype in warm] or runnable
        if not chosen:
            return None
        return self.pick(chosen[int(self._roll() * len(chosen))])
