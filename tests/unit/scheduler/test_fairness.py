"""The policy at work, in simulated time: shares, weights, quiet tenants, caps. Nothing here measures a clock."""

import random
from typing import Any

import pytest

from bench.parts.simulation import Load, Outcome, Simulation, jain
from scheduler import Candidate, SchedulerOptions, TenantTerms, make_policy


def simulate(
    loads: list[Load],
    until_s: float,
    *,
    slots: int = 4,
    policy: str = "deficit",
    terms: dict[str, TenantTerms] | None = None,
    **options: Any,
) -> Outcome:
    chosen = make_policy(policy, SchedulerOptions(slots=slots, **options), random.Random(1).random)
    chosen.set_tenants(terms or {load.jobtype.partition("-")[0]: TenantTerms() for load in loads})
    return Simulation(chosen, loads).run(until_s)


def flood(jobtype: str, job_s: float, max_slots: int | None = None) -> Load:
    return Load(jobtype=jobtype, job_s=job_s, backlog=100_000, max_slots=max_slots)


def quiet(jobtype: str = "quiet-job", job_s: float = 0.005, begin_s: float = 0.5) -> Load:
    """One job a second."""
    return Load(jobtype=jobtype, job_s=job_s, every_s=1.0, begin_s=begin_s)


def test_fifty_equal_tenants_get_equal_shares_whatever_their_jobs() -> None:
    lengths_s = [0.005, 0.02, 0.1, 0.5, 2.0]
    loads = [flood(f"t{n}-job", lengths_s[n % 5]) for n in range(50)]
    outcome = simulate(loads, 100.0, slots=8)
    assert jain(outcome.runner_s.values()) >= 0.98
    assert outcome.utilization > 0.99


def test_the_number_of_types_buys_no_share() -> None:
    loads = [flood(f"many-job{n}", 0.05) for n in range(40)] + [flood("one-job", 0.05)]
    outcome = simulate(loads, 60.0)
    assert outcome.runner_s["many"] == pytest.approx(outcome.runner_s["one"], rel=0.02)
    shares = [outcome.type_runner_s[f"many-job{n}"] for n in range(40)]
    assert jain(shares) >= 0.95, "siblings share what is their tenant's"


def test_jobs_of_random_length_share_evenly_too() -> None:
    dice = random.Random(7)
    loads = [
        Load(jobtype="steady-job", job_s=0.1, backlog=100_000),
        Load(jobtype="wild-job", job_s=lambda: dice.expovariate(1 / 0.1), backlog=100_000),
    ]
    outcome = simulate(loads, 200.0)
    assert outcome.runner_s["steady"] == pytest.approx(outcome.runner_s["wild"], rel=0.03)


def test_weights_are_kept() -> None:
    terms = {"a": TenantTerms(1), "b": TenantTerms(2), "c": TenantTerms(5)}
    outcome = simulate([flood("a-job", 0.02), flood("b-job", 0.05), flood("c-job", 0.01)], 60.0, terms=terms)
    assert outcome.runner_s["b"] / outcome.runner_s["a"] == pytest.approx(2, rel=0.05)
    assert outcome.runner_s["c"] / outcome.runner_s["a"] == pytest.approx(5, rel=0.05)


@pytest.mark.parametrize("slots", [2, 4, 8])
def test_a_flood_of_short_jobs_does_not_delay_a_quiet_tenant(slots: int) -> None:
    outcome = simulate([flood("flood-job", 0.01), quiet()], 60.0, slots=slots)
    assert outcome.waits_s["quiet-job"] == [0.0] * 60, "a slot is kept"
    assert outcome.idle_s <= outcome.elapsed_s * max(1, slots // 8), "and no more than that"


def test_short_jobs_may_borrow_the_kept_slot_for_a_moment() -> None:
    outcome = simulate([flood("flood-job", 0.004), quiet()], 10.0, borrow_s=0.01)
    assert max(outcome.waits_s["quiet-job"]) <= 0.01
    assert outcome.utilization > 0.99


def test_many_floods_of_short_jobs_delay_a_quiet_tenant_by_less_than_a_batch() -> None:
    outcome = simulate([flood(f"flood{n}-job", 0.01) for n in range(20)] + [quiet()], 60.0)
    assert max(outcome.waits_s["quiet-job"]) <= 0.1


def test_without_fairness_two_such_floods_do() -> None:
    outcome = simulate([flood("flood-job", 0.002), flood("other-job", 0.002), quiet()], 60.0, policy="oldest")
    assert max(outcome.waits_s["quiet-job"], default=60.0) > 1


@pytest.mark.parametrize("slots", [2, 3, 4, 8, 16])
def test_a_flood_of_minute_long_jobs_does_not_delay_a_quiet_tenant(slots: int) -> None:
    outcome = simulate([flood("flood-job", 60.0), quiet()], 600.0, slots=slots)
    assert max(outcome.waits_s["quiet-job"]) <= 0.02
    assert outcome.most_held["flood"] == slots - max(1, slots // 8)


@pytest.mark.parametrize("floods", [2, 3, 20])
def test_nor_do_many_such_floods(floods: int) -> None:
    loads = [flood(f"flood{n}-job", 60.0) for n in range(floods)] + [quiet(begin_s=60.0 * floods + 0.5)]
    outcome = simulate(loads, 2000.0, slots=4)
    assert max(outcome.waits_s["quiet-job"]) <= 0.02
    assert jain(outcome.runner_s[f"flood{n}"] for n in range(floods)) >= 0.9


def test_the_first_job_of_a_newcomer_starts_at_once() -> None:
    loads = [flood("a-job", 60.0), flood("b-job", 60.0), Load(jobtype="new-job", job_s=5.0, every_s=1e9, begin_s=100.0)]
    outcome = simulate(loads, 200.0)
    assert outcome.waits_s["new-job"] == [0.0]


def test_a_type_that_turns_slow_does_not_take_the_kept_slot() -> None:
    lengths = iter([0.001] * 5000)
    turning = Load(jobtype="turn-job", job_s=lambda: next(lengths, 3600.0), backlog=100_000)
    outcome = simulate([turning, quiet()], 4000.0)
    assert max(outcome.waits_s["quiet-job"]) == 0.0


def turning(jobtype: str, turns_s: float, clock: list[Simulation]) -> Load:
    """Jobs that are short until a time, and then take half an hour."""
    return Load(jobtype=jobtype, job_s=lambda: 0.01 if clock[0].now_s < turns_s else 1800.0, backlog=100_000)


@pytest.mark.parametrize("slots", [2, 4, 8])
@pytest.mark.parametrize("attackers", [2, 3, 5])
def test_tenants_whose_types_turn_long_together_do_not_take_every_slot(slots: int, attackers: int) -> None:
    policy = make_policy("deficit", SchedulerOptions(slots=slots), random.Random(1).random)
    names = [f"evil{n}" for n in range(attackers)]
    policy.set_tenants(dict.fromkeys([*names, "quiet"], TenantTerms()))
    clock: list[Simulation] = []
    simulation = Simulation(policy, [*(turning(f"{name}-job", 5.0, clock) for name in names), quiet(begin_s=2.5)])
    clock.append(simulation)
    outcome = simulation.run(200.0)
    assert len(outcome.waits_s["quiet-job"]) >= 190
    late = [wait_s for wait_s in outcome.waits_s["quiet-job"] if wait_s > 0.1]
    assert max(late, default=0.0) <= 2 * max(1, attackers - slots) + 2.1, "until it is seen that they are long"
    assert len(late) <= 2 * attackers, "and once for each of them at most"


def test_long_jobs_are_not_starved_by_short_ones() -> None:
    loads = [flood("long-job", 60.0), flood("s1-job", 0.5), flood("s2-job", 0.5)]
    outcome = simulate(loads, 1200.0, slots=3)
    assert outcome.runner_s["long"] == pytest.approx(1200.0, rel=0.1)


def test_a_lone_tenant_may_use_every_slot() -> None:
    outcome = simulate([flood("alone-job", 60.0)], 600.0)
    assert outcome.utilization == 1.0


def test_caps_are_kept_and_bank_no_credit() -> None:
    terms = {"capped": TenantTerms(max_slots=1), "free": TenantTerms(), "typed": TenantTerms()}
    loads = [flood("capped-job", 0.05), flood("free-job", 0.05), flood("typed-job", 0.05, max_slots=2)]
    outcome = simulate(loads, 20.0, terms=terms, slots=8)
    assert outcome.most_held["capped"] == 1
    assert outcome.most_held["typed-job"] == 2
    assert outcome.utilization > 0.99


def test_a_tenant_that_pauses_neither_gains_nor_loses() -> None:
    on_off = Load(jobtype="burst-job", job_s=0.1, every_s=0.1, begin_s=100.0, end_s=400.0)
    loads = [flood("busy-job", 0.1), on_off, flood("other-job", 0.1)]
    outcome = simulate(loads, 400.0, slots=3)
    # Its fair part of three slots is one slot: what it asks for is that, and it gets that from its first second on.
    assert outcome.runner_s["burst"] == pytest.approx(300.0, rel=0.05)
    assert outcome.runner_s["busy"] == pytest.approx(outcome.runner_s["other"], rel=0.02)


def test_warm_contexts_are_preferred_within_the_tenant() -> None:
    loads = [flood(f"a-job{n}", 0.02) for n in range(10)]
    warm = simulate(loads, 60.0, slots=2)
    assert jain(warm.type_runner_s.values()) >= 0.98, "and its types still share evenly"
    assert warm.cold_starts <= 12


def test_what_is_urgent_goes_first_among_the_types_of_a_tenant_and_the_rest_goes_on() -> None:
    loads = [
        Load(jobtype=f"a-{name}", job_s=0.02, backlog=100_000, priority=priority)
        for name, priority in (("high", 1000), ("usual", 500), ("low", 0))
    ]
    outcome = simulate(loads, 200.0)
    high, usual, low = (outcome.type_runner_s[f"a-{name}"] for name in ("high", "usual", "low"))
    assert high / usual == pytest.approx(8, rel=0.1)
    assert usual / low == pytest.approx(8, rel=0.25)
    assert low > 0, "it is not starved"


def test_priorities_of_a_tenant_are_nothing_to_the_others() -> None:
    urgent = [Load(jobtype=f"a-job{n}", job_s=0.02, backlog=100_000, priority=1000) for n in range(3)]
    outcome = simulate([*urgent, flood("b-job", 0.02)], 60.0)
    assert outcome.runner_s["a"] == pytest.approx(outcome.runner_s["b"], rel=0.02)


def test_urgent_jobs_that_come_now_and_then_do_not_wait_behind_a_backlog_of_siblings() -> None:
    def waits_s(priority: int) -> float:
        siblings = [flood(f"a-bulk{n}", 0.05) for n in range(20)]
        urgent = Load(jobtype="a-urgent", job_s=0.05, every_s=0.25, begin_s=5.0, priority=priority)
        outcome = simulate([*siblings, urgent], 60.0)
        return sum(outcome.waits_s["a-urgent"]) / len(outcome.waits_s["a-urgent"])

    assert waits_s(1000) < 0.1, "the next slot that is free"
    assert waits_s(1000) < waits_s(500) / 2


def test_a_warm_sibling_of_lower_priority_does_not_go_first() -> None:
    policy = make_policy("deficit", SchedulerOptions(slots=4), random.Random(1).random)
    policy.set_tenants({"a": TenantTerms()})
    policy.set_waiting([Candidate("a-low", 5, priority=500), Candidate("a-high", 5, priority=1000)])
    for jobtype in ("a-low", "a-high"):
        policy.jobs_started(jobtype, 1)
        policy.jobs_stopped(jobtype, 1, 0.01)
    pick = policy.select_jobtype_to_run({"a-low"})
    assert pick is not None
    assert pick.jobtype == "a-high"
