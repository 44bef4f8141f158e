"""The contract of a policy, and the bookkeeping that all of them share.

A policy is one file: a subclass with `select_jobtype_to_run`. It is told what is waiting, what started and what
stopped, and returns which jobtype comes next and how many of its jobs. Pure: no I/O, no clock, no dice of its own; the
same calls give the same results. Not safe for threads: one event loop owns it.

The caller's loop, for one free slot:

    while pick := policy.select_jobtype_to_run(warm):
        policy.jobs_started(*pick)                     # before anything is awaited: the slot is taken now
        ... claim, run, release ...
        policy.jobs_stopped(pick.jobtype, jobs_run, runner_s)
"""

import abc
from collections.abc import Collection, Iterable, Mapping

from scheduler.board import Board, TenantState
from scheduler.costs import Costs
from scheduler.values import Candidate, Hold, Pick, SchedulerOptions, TenantTerms


class Policy(abc.ABC):
    def __init__(self, options: SchedulerOptions) -> None:
        self.options = options
        self.board = Board(options.slots)
        self.costs = Costs(options)
        self._most_of_one = options.slots - options.reserve_slots
        """Slots that a tenant may hold beside others."""

    @abc.abstractmethod
    def select_jobtype_to_run(self, warm: Collection[str] = ()) -> Pick | None:
        """What to start on a free slot; None when nothing may start before something stops or arrives.

        warm: the jobtypes that have an idle context right now; a hint. Changes nothing: asked twice without a
        `jobs_started` between, it returns the same (but for a policy with dice).
        Ensures: slots and caps are never exceeded.
        """

    @property
    def has_room(self) -> bool:
        """Whether anything at all could start now, if it waited."""
        return self.board.free_slots > 0

    @property
    def has_candidates(self) -> bool:
        """Whether anything waits that a slot which comes free might be for. In doubt, yes."""
        return True

    def set_tenants(self, terms: Mapping[str, TenantTerms]) -> None:
        """All tenants there are, idle ones too: a slot is kept for them. Without this, those seen waiting.

        Raises InvalidOptions (nothing is changed) for a weight or a cap that cannot be.
        """
        self.board.set_tenants(terms)

    def set_waiting(self, candidates: Iterable[Candidate]) -> None:
        """All jobtypes that wait; one that is not named has nothing waiting. Cost: on their number."""
        listed = set()
        for candidate in candidates:
            listed.add(candidate.jobtype)
            self.update_waiting(candidate)
        for state in [state for state in self.board.types.values() if state.jobtype not in listed and state.waiting]:
            self.update_waiting(Candidate(state.jobtype, 0, 0, state.max_slots))

    def update_waiting(self, candidate: Candidate) -> None:
        """One jobtype's news: jobs were added, or a claim found none (waiting 0)."""
        self.board.put(candidate)

    def jobs_started(self, jobtype: str, count: int) -> None:
        """A batch took a slot. Its jobs are not waiting any more."""
        self.board.start(jobtype, count)

    def jobs_running(self, jobtype: str, runner_s: float, place: int = 0) -> None:
        """A batch of this type has not stopped after so long. `place`: how many batches of the type are older.

        Told now and then (every second, say), so that a type which turns slow is known to be slow before its first
        batch ends, and the others get room. Nothing else depends on it being told.
        """
        del place
        self.costs.overrun(jobtype, runner_s)

    def jobs_stopped(self, jobtype: str, count: int, runner_s: float, worked_s: float | None = None) -> None:
        """A batch gave its slot back after `runner_s`, having run `count` jobs (0: the claim came back empty).

        worked_s: the part of that time in which its jobs were running (None: all of it).
        Raises NotRunning when no batch of this type is running.
        """
        self.board.stop(jobtype)
        self.costs.learn(jobtype, count, runner_s, worked_s)

    def run_outside(self, tenant: str, change: int) -> None:
        """So many more (or fewer) things of the tenant run without a slot. They count against its cap."""
        self.board.run_outside(tenant, change)

    def charge(self, tenant: str, runner_s: float) -> None:  # noqa: B027  # most policies keep no accounts
        """The tenant has used runner time outside any batch. Only for policies that keep accounts."""

    def hold(self, jobtype: str) -> Hold | None:
        """What keeps the type from starting: slots, caps, and what its tenant leaves to the others."""
        hold = self.board.hold(jobtype)
        if hold is None and self.has_its_share(self.board.types[jobtype].tenant):
            return Hold.TENANT_SHARE
        return hold

    def has_its_share(self, tenant: TenantState) -> bool:
        """Whether the tenant holds all slots but those that it leaves to the others, if there are others."""
        return len(self.board.tenants) > 1 and tenant.slots_held >= self._most_of_one

    def why_waiting(self, jobtype: str) -> Hold:
        """Why nothing of it is started at the moment."""
        return self.hold(jobtype) or Hold.TURN

    def pick(self, jobtype: str, rivals: int = 1) -> Pick:
        """This type, in a batch of the usual size; spread over its part of the free slots if it has rivals for them."""
        waiting, slots = self.board.types[jobtype].waiting, self.board.free_slots // rivals
        return Pick(jobtype, self.costs.batch_size(jobtype, waiting, slots, self.options.target_batch_s))
