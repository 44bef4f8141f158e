"""The facts that every policy decides on: what is waiting, what runs, and under which caps.

Owns the counts and nothing else: it chooses nothing and knows no order. Ensures: the numbers of slots held, by type, by
tenant and in all, agree with each other. Forgets a type as soon as nothing of it waits or runs, so it grows with what
is there and not with what has been.
"""

from collections.abc import Callable, Mapping

from scheduler.errors import NotRunning
from scheduler.values import Candidate, Hold, TenantTerms, check_terms
from vocabulary.names import tenant_of


class TenantState:
    __slots__ = ("name", "outside", "slots_held", "terms", "types")

    def __init__(self, name: str, terms: TenantTerms) -> None:
        self.name = name
        self.terms = terms
        self.slots_held = 0
        self.outside = 0
        """What of it runs without a slot, and counts against its cap all the same."""
        self.types = 0
        """How many of its types wait or run."""

    @property
    def is_capped(self) -> bool:
        return self.terms.max_slots is not None and self.slots_held + self.outside >= self.terms.max_slots


class TypeState:
    __slots__ = ("jobtype", "max_slots", "oldest_due_ms", "priority", "slots_held", "tenant", "waiting")

    def __init__(self, jobtype: str, tenant: TenantState) -> None:
        self.jobtype = jobtype
        self.tenant = tenant
        self.waiting = 0
        self.oldest_due_ms = 0
        self.max_slots: int | None = None
        self.priority = 500
        self.slots_held = 0

    @property
    def is_capped(self) -> bool:
        return self.max_slots is not None and self.slots_held >= self.max_slots


class Board:
    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.free_slots = slots
        self.types: dict[str, TypeState] = {}
        self.tenants: dict[str, TenantState] = {}
        self.on_fewer: Callable[[str], None] = _nobody
        """Told the tenant of which less runs now; "" when the caps may be others."""

    @property
    def slots_held(self) -> int:
        return self.slots - self.free_slots

    def set_tenants(self, terms: Mapping[str, TenantTerms]) -> None:
        """These are the tenants. One that is not named is forgotten, unless something of it waits or runs."""
        for name, theirs in terms.items():
            check_terms(name, theirs)
        for name in [name for name, state in self.tenants.items() if self._is_forgotten(state, terms)]:
            del self.tenants[name]
        for name, theirs in terms.items():
            self._tenant(name).terms = theirs
        self.on_fewer("")

    def run_outside(self, tenant: str, change: int) -> TenantState:
        """So many more (or fewer) things of the tenant run without a slot."""
        state = self._tenant(tenant)
        state.outside += change
        if change < 0:
            self.on_fewer(tenant)
        return state

    def running(self, tenant: str) -> int:
        """How much of it runs, with and without a slot."""
        state = self.tenants.get(tenant)
        return 0 if state is None else state.slots_held + state.outside

    def put(self, candidate: Candidate) -> TypeState:
        jobtype, waiting, oldest_due_ms, max_slots, priority = candidate
        state = self.types.get(jobtype) or self._new_type(jobtype)
        state.waiting = waiting
        state.oldest_due_ms = oldest_due_ms
        state.max_slots = max_slots
        state.priority = priority
        if waiting == 0 and state.slots_held == 0:
            self._forget(state)
        return state

    def start(self, jobtype: str, count: int) -> TypeState:
        state = self.types.get(jobtype) or self._new_type(jobtype)
        state.waiting = max(state.waiting - count, 0)
        state.slots_held += 1
        state.tenant.slots_held += 1
        self.free_slots -= 1
        return state

    def stop(self, jobtype: str) -> TypeState:
        state = self.types.get(jobtype)
        if state is None or state.slots_held == 0:
            raise NotRunning(f"no batch of {jobtype} is running: jobs_stopped needs a jobs_started before it")
        state.slots_held -= 1
        state.tenant.slots_held -= 1
        self.free_slots += 1
        if state.waiting == 0 and state.slots_held == 0:
            self._forget(state)
        self.on_fewer(state.tenant.name)
        return state

    def hold(self, jobtype: str) -> Hold | None:
        """What keeps the type from starting under any policy."""
        state = self.types.get(jobtype)
        if state is None or state.waiting == 0:
            return Hold.NOT_WAITING
        if state.is_capped:
            return Hold.TYPE_CAP
        if state.tenant.is_capped:
            return Hold.TENANT_CAP
        if self.free_slots <= 0:
            return Hold.NO_SLOT
        return None

    @staticmethod
    def _is_forgotten(state: TenantState, terms: Mapping[str, TenantTerms]) -> bool:
        return state.name not in terms and not state.types and not state.outside

    def _new_type(self, jobtype: str) -> TypeState:
        state = self.types[jobtype] = TypeState(jobtype, self._tenant(tenant_of(jobtype)))
        state.tenant.types += 1
        return state

    def _tenant(self, name: str) -> TenantState:
        state = self.tenants.get(name)
        if state is None:
            state = self.tenants[name] = TenantState(name, TenantTerms())
        return state

    def _forget(self, state: TypeState) -> None:
        """Nothing of it waits or runs."""
        del self.types[state.jobtype]
        state.tenant.types -= 1


def _nobody(_tenant: str) -> None:
    """Nobody waits for that."""
