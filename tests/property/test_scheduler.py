"""The default policy against a plain model, over any order of calls: bounds are kept, nobody waits for nothing."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler import Candidate, Hold, SchedulerOptions, TenantTerms
from scheduler.costs import Pace
from scheduler.deficit import DeficitRoundRobin

TENANTS = ["a", "b", "c"]
TYPES = [f"{tenant}-{kind}" for tenant in TENANTS for kind in ("x", "y", "z")]
CAPS = st.none() | st.integers(0, 3)
RUN_S = st.sampled_from([0.0, 0.0001, 0.004, 0.1, 0.9, 5.0, 60.0])


class PolicyMachine(RuleBasedStateMachine):
    @initialize(
        slots=st.integers(1, 20), borrow_s=st.sampled_from([0.0, 0.01]), share=st.sampled_from([0.0, 0.125, 0.5])
    )
    def make(self, slots: int, borrow_s: float, share: float) -> None:
        self.options = SchedulerOptions(slots=slots, borrow_s=borrow_s, reserve_share=share)
        self.policy = DeficitRoundRobin(self.options)
        self.waiting: Counter[str] = Counter()
        self.type_caps: dict[str, int | None] = {}
        self.tenant_caps: dict[str, int | None] = {}
        self.known: set[str] = set()
        self.running: list[tuple[str, int]] = []

    @rule(jobtype=st.sampled_from(TYPES), waiting=st.integers(0, 50), cap=CAPS)
    def news(self, jobtype: str, waiting: int, cap: int | None) -> None:
        self.policy.update_waiting(Candidate(jobtype, waiting, 0, cap))
        self.learn(jobtype, waiting, cap)

    @rule(listed=st.dictionaries(st.sampled_from(TYPES), st.tuples(st.integers(1, 50), CAPS)))
    def whole_list(self, listed: dict[str, tuple[int, int | None]]) -> None:
        self.policy.set_waiting([Candidate(jobtype, n, 0, cap) for jobtype, (n, cap) in listed.items()])
        self.waiting.clear()
        for jobtype, (n, cap) in listed.items():
            self.learn(jobtype, n, cap)

    @rule(terms=st.dictionaries(st.sampled_from(TENANTS), st.tuples(st.sampled_from([0.1, 1.0, 7.0]), CAPS)))
    def tenants(self, terms: dict[str, tuple[float, int | None]]) -> None:
        self.policy.set_tenants({name: TenantTerms(weight, cap) for name, (weight, cap) in terms.items()})
        for name in TENANTS:
            if name in terms:
                self.tenant_caps[name] = terms[name][1]
            elif not self.is_busy(name):
                self.tenant_caps.pop(name, None)
        self.known = set(terms) | {name for name in TENANTS if self.is_busy(name)}

    @rule(warm=st.sets(st.sampled_from([*TYPES, "gone-x"])))
    def start(self, warm: set[str]) -> None:
        pick = self.policy.select_jobtype_to_run(warm)
        assert pick == self.policy.select_jobtype_to_run(warm), "asking changes nothing"
        if pick is None:
            assert Hold.TURN not in {self.policy.why_waiting(jobtype) for jobtype in TYPES}, (
                "work is kept waiting for nothing"
            )
            return
        jobtype, jobs = pick
        tenant = jobtype[0]
        assert 1 <= jobs <= self.waiting[jobtype]
        if len(self.running) >= self.options.slots:
            assert not self.held(tenant), "an extra slot is for those who have none"
            assert self.policy._overdue_held > len(self.running) - self.options.reserve_slots
        assert self.policy.why_waiting(jobtype) is Hold.TURN
        self.check_reserve(jobtype)
        self.policy.jobs_started(jobtype, jobs)
        self.waiting[jobtype] -= jobs
        self.running.append((jobtype, jobs))
        type_cap, tenant_cap = self.type_caps.get(jobtype), self.tenant_caps.get(tenant)
        assert type_cap is None or self.held(jobtype) <= type_cap
        assert tenant_cap is None or self.held(tenant) <= tenant_cap

    def check_reserve(self, jobtype: str) -> None:
        """One tenant leaves the kept slots to the others, unless it borrows."""
        if len(self.known) > 1 and self.policy.costs.pace(jobtype) is not Pace.SHORT:
            assert self.held(jobtype[0]) < self.options.slots - self.options.reserve_slots

    @precondition(lambda self: self.running)
    @rule(data=st.data(), runner_s=RUN_S, part=st.sampled_from([0, 1, 2]))
    def stop(self, data: st.DataObject, runner_s: float, part: int) -> None:
        jobtype, jobs = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        self.policy.jobs_stopped(jobtype, min(part, 1) * max(jobs // max(part, 1), 1), runner_s)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), runner_s=RUN_S)
    def overrun(self, data: st.DataObject, runner_s: float) -> None:
        self.policy.jobs_running(data.draw(st.sampled_from(self.running))[0], runner_s, data.draw(st.integers(0, 3)))

    @invariant()
    def counts_agree(self) -> None:
        board = self.policy.board
        assert board.slots_held == len(self.running) == sum(tenant.slots_held for tenant in board.tenants.values())
        assert set(board.types) == {t for t in TYPES if self.waiting[t] > 0} | {t for t, _ in self.running}
        assert set(board.tenants) == self.known
        assert 0 <= self.policy._overdue_held <= self.policy._long_held <= len(self.running)

    def learn(self, jobtype: str, waiting: int, cap: int | None) -> None:
        self.waiting[jobtype] = waiting
        self.type_caps[jobtype] = cap
        self.known.add(jobtype[0])

    def held(self, name: str) -> int:
        return sum(1 for jobtype, _ in self.running if name in (jobtype, jobtype[0]))

    def is_busy(self, tenant: str) -> bool:
        return any(self.waiting[t] > 0 for t in TYPES if t[0] == tenant) or self.held(tenant) > 0


TestPolicy = PolicyMachine.TestCase
TestPolicy.settings = settings(max_examples=30, deadline=None)
