"""Oldest first: the jobtype whose first job has been due the longest. Fair to jobs, blind to tenants, but for the
slots that one of them leaves to the others."""

from collections.abc import Collection

from scheduler.policy import Policy
from scheduler.values import Pick


class OldestFirst(Policy):
    def select_jobtype_to_run(self, warm: Collection[str] = ()) -> Pick | None:
        """The oldest; of equally old ones, a warm one. Cost: on the number of waiting types."""
        if not self.has_room:
            return None
        runnable = [state for state in self.board.types.values() if self.hold(state.jobtype) is None]
        if not runnable:
            return None
        oldest = min(runnable, key=lambda state: (state.oldest_due_ms, state.jobtype not in warm))
        return self.pick(oldest.jobtype)
