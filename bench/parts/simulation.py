"""A policy at work in simulated time: tenants with loads, N slots, no threads and no clock.

Shared by the tests, which assert on what comes out, and by `bench.parts.scheduler`, which prints it. Waits are exact:
nothing in here takes time but the jobs. The caller's side of the contract is the daemon's: pick, take the slot, run the
batch, give it back; news of arrivals at once; word of long-running batches every second.
"""

import heapq
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from scheduler import Candidate, Policy
from vocabulary.names import tenant_of

RENEWAL_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Load:
    """Jobs of one type: `backlog` at the start, and one every `every_s` after `begin_s`."""

    jobtype: str
    job_s: float | Callable[[], float]
    backlog: int = 0
    every_s: float | None = None
    begin_s: float = 0.0
    end_s: float = float("inf")
    max_slots: int | None = None
    priority: int = 500


@dataclass
class Outcome:
    slots: int
    elapsed_s: float = 0.0
    runner_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By tenant: the slot time spent within the simulated span."""
    type_runner_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    waits_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By jobtype: from due to start, of each job that started."""
    most_held: Counter[str] = field(default_factory=Counter)
    """By tenant and by jobtype: the most slots held at once."""
    batches: int = 0
    cold_starts: int = 0
    idle_s: float = 0.0
    """Slot time that was free while something waited."""

    @property
    def utilization(self) -> float:
        return sum(self.runner_s.values()) / (self.slots * self.elapsed_s)


def jain(shares: Iterable[float]) -> float:
    """Jain's index: 1 when all shares are equal, 1/n when one has everything."""
    values = list(shares)
    return sum(values) ** 2 / (len(values) * sum(value * value for value in values))


class Simulation:
    def __init__(self, policy: Policy, loads: Iterable[Load]) -> None:
        self.policy = policy
        self.outcome = Outcome(policy.options.slots)
        self.now_s = 0.0
        self._loads = {load.jobtype: load for load in loads}
        self._queues: dict[str, deque[float]] = {
            name: deque([0.0] * load.backlog) for name, load in self._loads.items()
        }
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._running: dict[int, tuple[str, float]] = {}
        self._held: Counter[str] = Counter()
        self._warm: Counter[str] = Counter()
        for load in self._loads.values():
            self._tell(load.jobtype)
            if load.every_s is not None:
                self._at(load.begin_s, partial(self._arrive, load))
        self._at(RENEWAL_S, self._renew)

    def run(self, until_s: float) -> Outcome:
        self._fill()
        while self._events and self._events[0][0] <= until_s:
            at_s, _, event = heapq.heappop(self._events)
            self._pass(at_s)
            event()
            self._fill()
        self._pass(until_s)
        self.outcome.elapsed_s = until_s
        return self.outcome

    def _pass(self, at_s: float) -> None:
        span_s = at_s - self.now_s
        for jobtype, _ in self._running.values():
            self.outcome.runner_s[tenant_of(jobtype)] += span_s
            self.outcome.type_runner_s[jobtype] += span_s
        if any(self._queues.values()):
            self.outcome.idle_s += span_s * (self.outcome.slots - len(self._running))
        self.now_s = at_s

    def _at(self, at_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at_s, next(self._order), event))

    def _tell(self, jobtype: str) -> None:
        queue = self._queues[jobtype]
        oldest_ms = int(queue[0] * 1000) if queue else 0
        load = self._loads[jobtype]
        self.policy.update_waiting(Candidate(jobtype, len(queue), oldest_ms, load.max_slots, load.priority))

    def _arrive(self, load: Load) -> None:
        self._queues[load.jobtype].append(self.now_s)
        self._tell(load.jobtype)
        assert load.every_s is not None
        if self.now_s + load.every_s < load.end_s:
            self._at(self.now_s + load.every_s, partial(self._arrive, load))

    def _renew(self) -> None:
        older: Counter[str] = Counter()
        for jobtype, began_s in self._running.values():
            self.policy.jobs_running(jobtype, self.now_s - began_s, older[jobtype])
            older[jobtype] += 1
        self._at(self.now_s + RENEWAL_S, self._renew)

    def _fill(self) -> None:
        while pick := self.policy.select_jobtype_to_run([name for name, count in self._warm.items() if count > 0]):
            self.policy.jobs_started(*pick)
            self._start(pick.jobtype, pick.jobs)

    def _start(self, jobtype: str, jobs: int) -> None:
        queue, load, tenant = self._queues[jobtype], self._loads[jobtype], tenant_of(jobtype)
        jobs = min(jobs, len(queue))
        end_s = self.now_s
        for _ in range(jobs):
            self.outcome.waits_s[jobtype].append(end_s - queue.popleft())
            end_s += load.job_s() if callable(load.job_s) else load.job_s
        batch = next(self._order)
        self._running[batch] = (jobtype, self.now_s)
        self.outcome.batches += 1
        self.outcome.cold_starts += self._warm[jobtype] == 0
        self._warm[jobtype] = max(self._warm[jobtype] - 1, 0)
        for name in (tenant, jobtype):
            self._held[name] += 1
            self.outcome.most_held[name] = max(self.outcome.most_held[name], self._held[name])
        self._at(end_s, partial(self._stop, batch, jobs))

    def _stop(self, batch: int, jobs: int) -> None:
        jobtype, began_s = self._running.pop(batch)
        self._held[jobtype] -= 1
        self._held[tenant_of(jobtype)] -= 1
        self._warm[jobtype] += 1
        self.policy.jobs_stopped(jobtype, jobs, self.now_s - began_s)
        if self._queues[jobtype]:
            self._tell(jobtype)
