"""Random: any waiting jobtype; one with a warm context is twice as likely. Starves nobody and promises nothing else; a
base line for the others."""

from collections.abc import Callable, Collection

from scheduler.policy import Policy
from scheduler.values import Pick, SchedulerOptions


class RandomChoice(Policy):
    def __init__(self, options: SchedulerOptions, roll: Callable[[], float]) -> None:
        """`roll` gives numbers in [0, 1)."""
        super().__init__(options)
        self._roll = roll

    def select_jobtype_to_run(self, warm: Collection[str] = ()) -> Pick | None:
        """Any of them; a warm one is twice as likely. Cost: on the number of waiting types."""
        if not self.has_room:
            return None
        runnable = [jobtype for jobtype in self.board.types if self.hold(jobtype) is None]
        if not runnable:
            return None
        chances = [*runnable, *(jobtype for jobtype in runnable if jobtype in warm)]
        return self.pick(chances[int(self._roll() * len(chances))])
