"""The default policy: deficit round robin over runner-seconds, tenant first, then jobtype.

Guarantees, among tenants that have work: shares of runner time in proportion to weights, whatever the number and length
of their jobs; no starvation; no credit for absence beyond a short burst, and no debt for the use of idle slots.
A batch is charged at its start with what its type has been taking and corrected at its end. Caps are kept.

Jobs are not interrupted, so a fair order is not enough: whoever fills all slots with 60-second jobs makes all others
wait a minute. So, where there is more than one tenant and more than one slot:

- one tenant leaves `reserve_slots` to the others (short jobs may borrow them, if `borrow_s` says so);
- long jobs of all tenants together leave as many to shorter ones, if there are three slots or more. A type that was
  never measured counts as long, but the first batch of a tenant that holds nothing may use one of those slots.

A type can be short for a day and then turn long, on the slots that long jobs leave free, too. So for every such slot
that a batch has held for longer than `long_s` there is one more slot, up to `most_extra_slots`, for tenants that hold
none. Hence nobody waits for long behind jobs that turned long, however they looked before.

Hence it is work-conserving but for those slots. docs/scheduler.md.

Among the types of one tenant, the highest priority of what waits is a weight: a step of 500 is STEP to one. So what is
urgent goes first, and what is not goes on. Other tenants do not feel it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from scheduler.board import TenantState, TypeState
from scheduler.costs import Pace
from scheduler.fair_queue import FairQueue, Rival
from scheduler.policy import Policy
from scheduler.values import Candidate, Hold, Pick, SchedulerOptions, TenantTerms
from vocabulary.names import tenant_of

STEP: Final = 8.0


class Charge:
    """What a running batch has been charged with so far."""

    __slots__ = ("cost_s", "is_long", "is_overdue")

    def __init__(self, cost_s: float, is_long: bool) -> None:
        self.cost_s = cost_s
        self.is_long = is_long
        self.is_overdue = False
        """It has been running for longer than `long_s`, whatever was expected."""


class DeficitRoundRobin(Policy):
    def __init__(self, options: SchedulerOptions) -> None:
        super().__init__(options)
        self._tenants = FairQueue(len(Pace), options.burst_s)
        self._types: dict[str, FairQueue] = {}
        self._charges: dict[str, list[Charge]] = {}
        self._kept_slots = options.reserve_slots
        self._long_held = 0
        """Slots with long jobs, and with jobs of unknown length."""
        self._overdue_held = 0
        """Slots whose batch has been running for longer than `long_s`."""
        self._has_rivals = False

    @property
    def has_room(self) -> bool:
        return self.board.free_slots > 0 or self._extra_slots > 0

    @property
    def has_candidates(self) -> bool:
        return self._tenants.standing > 0

    def select_jobtype_to_run(self, warm: Collection[str] = ()) -> Pick | None:
        if self._tenants.standing == 0 or not (self.board.free_slots > 0 or self._extra_slots > 0):
            return None
        slowest = self._slowest_of_all()
        first = self._tenants.first(slowest, but=() if self.board.free_slots > 0 else self._holders())
        if first is None:
            return None
        tenant, queue = self.board.tenants[first.name], self._types[first.name]
        slowest = self._slowest_of(tenant, slowest)
        rival = queue.first(slowest)
        assert rival is not None, "a tenant stands in the queue only with a type that may run"
        jobtype = rival.name if queue.standing == 1 else self._prefer_warm(queue, rival, slowest, warm)
        if slowest is not Pace.SHORT:
            # Those that may start now, itself among them; other tenants by the head, however many types they have.
            return self.pick(jobtype, queue.standing + self._tenants.standing - 1)
        waiting = self.board.types[jobtype].waiting
        return Pick(jobtype, self.costs.batch_size(jobtype, waiting, 1, self.options.borrow_s))

    def set_tenants(self, terms: Mapping[str, TenantTerms]) -> None:
        super().set_tenants(terms)
        self._types = {name: queue for name, queue in self._types.items() if name in self.board.tenants}
        self._tenants.forget_settled(but=self.board.tenants)
        self._place_all()

    def set_waiting(self, candidates: Iterable[Candidate]) -> None:
        super().set_waiting(candidates)
        for queue in self._types.values():
            queue.forget_settled(but=self.board.types)

    def update_waiting(self, candidate: Candidate) -> None:
        old = self.board.types.get(candidate.jobtype)
        is_placed = (
            old is not None
            and old.waiting > 0
            and candidate.waiting > 0
            and (old.max_slots, old.priority) == (candidate.max_slots, candidate.priority)
        )
        state = self.board.put(candidate)
        if not is_placed:
            self._place(state, *self._rival(state))

    def jobs_started(self, jobtype: str, count: int) -> None:
        state = self.board.start(jobtype, count)
        charge = Charge(self.costs.expect_s(jobtype, count), self.costs.pace(jobtype) >= Pace.UNKNOWN)
        self._charges.setdefault(jobtype, []).append(charge)
        self._long_held += charge.is_long
        queue, rival = self._rival(state)
        self._tenants.serve(self._tenants.rival(state.tenant.name, state.tenant.terms.weight), charge.cost_s)
        queue.serve(rival, charge.cost_s)
        self._place(state, queue, rival)

    def jobs_running(self, jobtype: str, runner_s: float, place: int = 0) -> None:
        state, charges = self.board.types.get(jobtype), self._charges.get(jobtype, ())
        if state is None or place >= len(charges):
            return
        charge = charges[place]
        if runner_s > self.options.long_s:
            self._long_held += not charge.is_long
            self._overdue_held += not charge.is_overdue
            charge.is_long = charge.is_overdue = True
        if runner_s > charge.cost_s:
            self.costs.overrun(jobtype, runner_s)
            self._correct(state, runner_s - charge.cost_s)
            charge.cost_s = runner_s

    def jobs_stopped(self, jobtype: str, count: int, runner_s: float, worked_s: float | None = None) -> None:
        state = self.board.stop(jobtype)
        runner_s = max(runner_s, 0.0)
        self.costs.learn(jobtype, count, runner_s, worked_s)
        charge = self._take_charge(jobtype, runner_s)
        self._long_held -= charge.is_long
        self._overdue_held -= charge.is_overdue
        self._correct(state, runner_s - charge.cost_s)

    def run_outside(self, tenant: str, change: int) -> None:
        self._place_tenant(self.board.run_outside(tenant, change))

    def charge(self, tenant: str, runner_s: float) -> None:
        if state := self.board.tenants.get(tenant):
            self._tenants.correct(self._tenants.rival(tenant, state.terms.weight), runner_s)
            self._place_tenant(state)

    def why_waiting(self, jobtype: str) -> Hold:
        hold = self.board.hold(jobtype)
        if hold is not None and not (hold is Hold.NO_SLOT and self._extra_slots > 0):
            return hold
        tenant = self.board.types[jobtype].tenant
        if hold is Hold.NO_SLOT and tenant.slots_held:
            return hold
        if self.costs.pace(jobtype) <= self._slowest_of(tenant, self._slowest_of_all()):
            return Hold.TURN
        return Hold.TENANT_SHARE if self.has_its_share(tenant) else Hold.LONG_WORK

    def _take_charge(self, jobtype: str, runner_s: float) -> Charge:
        """Of a batch that stopped: the oldest, though it may be another's. Over all of them the sums agree. But one
        that was soon over does not take the charge of one that is overdue, which goes on."""
        charges = self._charges[jobtype]
        place = 0
        if charges[0].is_overdue and runner_s <= self.options.long_s:
            place = next((n for n, charge in enumerate(charges) if not charge.is_overdue), 0)
        charge = charges.pop(place)
        if not charges:
            del self._charges[jobtype]
        return charge

    @property
    def _extra_slots(self) -> int:
        """Slots beyond those there are, for tenants that hold none: one for each kept slot that is overdue."""
        if not self._has_rivals or not self._kept_slots:
            return 0
        overdue = self._overdue_held - (self.options.slots - self._kept_slots)
        return min(max(overdue, 0), self.options.most_extra_slots) + self.board.free_slots

    def _holders(self) -> set[str]:
        return {tenant_of(jobtype) for jobtype in self._charges}

    def _slowest_of_all(self) -> Pace:
        """The slowest pace that may start now, whoever's it is. UNKNOWN is for tenants that hold nothing."""
        slots, kept = self.options.slots, self._kept_slots
        if self.board.free_slots <= 0:
            return Pace.UNKNOWN
        if not self._has_rivals or slots <= 2 or self._long_held < slots - kept:
            return Pace.LONG
        return Pace.UNKNOWN if kept == 1 or self._long_held < slots - 1 else Pace.MEDIUM

    def _slowest_of(self, tenant: TenantState, of_all: Pace) -> Pace:
        """The slowest pace that this tenant may start now: SHORT if it has its share, and never otherwise."""
        if self.has_its_share(tenant):
            return Pace.SHORT
        return Pace.MEDIUM if of_all is Pace.UNKNOWN and tenant.slots_held else of_all

    def _prefer_warm(self, queue: FairQueue, first: Rival, slowest: Pace, warm: Collection[str]) -> str:
        """A sibling with a warm context and no lower priority, while that keeps the types of the tenant within the
        slack of each other."""
        best = None
        if first.name in warm:
            return first.name
        latest_s = first.turn_s + self.options.warm_slack_s
        for jobtype in warm:
            rival = queue.get(jobtype)
            if rival is None or rival.lane is None or rival.weight < first.weight:
                continue
            if rival.lane <= slowest and rival.turn_s <= latest_s:
                best, latest_s = rival, rival.turn_s
        return first.name if best is None else best.name

    def _correct(self, state: TypeState, by_s: float) -> None:
        """A batch of the type took so much more, or less, than it was charged with."""
        queue, rival = self._rival(state)
        self._tenants.correct(self._tenants.rival(state.tenant.name, state.tenant.terms.weight), by_s)
        queue.correct(rival, by_s)
        self._place(state, queue, rival)

    def _rival(self, state: TypeState) -> tuple[FairQueue, Rival]:
        """A type among its siblings."""
        name = state.tenant.name
        queue = self._types.get(name)
        if queue is None:
            queue = self._types[name] = FairQueue(len(Pace), self.options.burst_s, is_urgent_first=True)
        return queue, queue.rival(state.jobtype, STEP ** ((state.priority - 500) / 500))

    def _place(self, state: TypeState, queue: FairQueue, rival: Rival) -> None:
        """After any change to a type: where it stands among its siblings, and its tenant among the tenants."""
        if state.waiting and not state.is_capped:
            queue.enter(rival, self.costs.pace(state.jobtype))
        else:
            queue.leave(rival)
            if not state.tenant.types:
                queue.clear()
            if not self.board.types:
                self._tenants.clear()
        self._place_tenant(state.tenant)

    def _place_tenant(self, tenant: TenantState) -> None:
        """In the lane of the quickest work that it has, and that it may start as far as its own slots go. With it all
        others, if it is the first that they have beside them, or they are alone now."""
        if self._has_rivals != (len(self.board.tenants) > 1):
            self._place_all()
            return
        queue = self._types.get(tenant.name)
        lane = None if queue is None or not queue.standing or tenant.is_capped else queue.lowest_lane()
        rival = self._tenants.rival(tenant.name, tenant.terms.weight)
        if lane is None or (lane > Pace.SHORT and self.has_its_share(tenant)):
            self._tenants.leave(rival)
        elif lane == Pace.UNKNOWN and tenant.slots_held:
            self._tenants.enter(rival, Pace.LONG)
        else:
            self._tenants.enter(rival, lane)

    def _place_all(self) -> None:
        self._has_rivals = len(self.board.tenants) > 1
        for tenant in self.board.tenants.values():
            self._place_tenant(tenant)
