"""The default policy call by call: what it keeps free, what it learns, what it says."""

from dataclasses import replace
from typing import Any

import pytest

from scheduler import Candidate, Hold, Pick, SchedulerOptions, TenantTerms
from scheduler.deficit import DeficitRoundRobin
from scheduler.errors import InvalidOptions, NotRunning
from vocabulary.names import tenant_of


def policy(slots: int = 4, **options: Any) -> DeficitRoundRobin:
    return DeficitRoundRobin(SchedulerOptions(slots=slots, **options))


def teach(policy: DeficitRoundRobin, jobtype: str, job_s: float) -> None:
    """Let one job of that length have run."""
    policy.jobs_started(jobtype, 1)
    policy.jobs_stopped(jobtype, 1, job_s)


def start_all(policy: DeficitRoundRobin) -> list[str]:
    started = []
    while pick := policy.select_jobtype_to_run():
        policy.jobs_started(*pick)
        started.append(pick.jobtype)
    return started


def test_nothing_waits_nothing_is_picked() -> None:
    assert policy().select_jobtype_to_run() is None


def test_asking_changes_nothing() -> None:
    p = policy()
    p.set_waiting([Candidate("a-x", 5), Candidate("b-x", 5)])
    assert {p.select_jobtype_to_run() for _ in range(10)} == {Pick("a-x", 1)}


def test_the_list_of_what_waits_replaces_the_one_before() -> None:
    p = policy()
    p.set_waiting([Candidate("a-x", 5), Candidate("a-y", 5)])
    p.set_waiting([Candidate("a-y", 5)])
    assert start_all(p) == ["a-y"] * 4
    p.set_waiting([])
    p.jobs_stopped("a-y", 1, 0.1)
    assert p.select_jobtype_to_run() is None


def test_an_empty_claim_costs_nothing_and_teaches_nothing() -> None:
    p = policy(slots=1)
    p.set_waiting([Candidate("a-x", 5), Candidate("b-x", 5)])
    for _ in range(3):
        p.jobs_started("a-x", 1)
        p.jobs_stopped("a-x", 0, 0.0)
    assert p.costs.batch_size("a-x", 100, 1, 0.1) == 1, "still unmeasured"
    teach(p, "b-x", 0.1)
    assert start_all(p) == ["a-x"]


def test_what_started_waits_no_more() -> None:
    p = policy()
    p.update_waiting(Candidate("a-x", 2))
    assert start_all(p) == ["a-x", "a-x"]
    assert p.why_waiting("a-x") is Hold.NOT_WAITING


@pytest.mark.parametrize(("slots", "kept"), [(2, 1), (3, 1), (4, 1), (8, 1), (16, 2), (64, 8)])
def test_one_tenant_never_holds_every_slot_when_there_are_others(slots: int, kept: int) -> None:
    p = policy(slots)
    p.set_tenants({"a": TenantTerms(), "b": TenantTerms()})
    p.update_waiting(Candidate("a-x", 1000))
    teach(p, "a-x", 0.5)
    assert len(start_all(p)) == slots - kept
    assert p.why_waiting("a-x") is Hold.TENANT_SHARE
    p.update_waiting(Candidate("b-x", 1))
    assert start_all(p) == ["b-x"]


def test_nothing_is_kept_for_nobody() -> None:
    p = policy()
    p.set_tenants({"a": TenantTerms(), "b": TenantTerms()})
    p.update_waiting(Candidate("a-x", 1000))
    assert len(start_all(p)) == 3
    p.set_tenants({"a": TenantTerms()})
    assert len(start_all(p)) == 1
    p.set_tenants({"a": TenantTerms(), "b": TenantTerms()})
    p.jobs_stopped("a-x", 1, 1.0)
    assert start_all(p) == []


def test_a_second_tenant_that_turns_up_is_noticed() -> None:
    p = policy()
    p.update_waiting(Candidate("a-x", 1000))
    assert len(start_all(p)) == 4, "alone"
    p.update_waiting(Candidate("b-x", 1))
    p.jobs_stopped("a-x", 1, 60.0)
    assert start_all(p) == ["b-x"]


def test_a_share_of_zero_keeps_nothing() -> None:
    p = policy(reserve_share=0.0)
    p.set_tenants({"a": TenantTerms(), "b": TenantTerms()})
    teach(p, "a-x", 60.0)
    p.update_waiting(Candidate("a-x", 1000))
    assert len(start_all(p)) == 4


def test_long_jobs_of_all_leave_a_slot_to_shorter_ones() -> None:
    p = policy()
    for tenant in "abcd":
        teach(p, f"{tenant}-long", 60.0)
        p.update_waiting(Candidate(f"{tenant}-long", 100))
    assert len(start_all(p)) == 3
    assert {p.why_waiting(f"{tenant}-long") for tenant in "abcd"} == {Hold.LONG_WORK}
    teach(p, "a-medium", 0.2)
    p.update_waiting(Candidate("a-medium", 1))
    assert start_all(p) == ["a-medium"]


def test_a_newcomers_first_job_may_use_the_kept_slot_but_an_unmeasured_second_may_not() -> None:
    p = policy()
    for tenant in "abc":
        teach(p, f"{tenant}-long", 60.0)
        p.update_waiting(Candidate(f"{tenant}-long", 100))
    assert len(start_all(p)) == 3
    p.update_waiting(Candidate("a-new", 1))
    assert p.why_waiting("a-new") is Hold.LONG_WORK
    assert start_all(p) == []
    p.update_waiting(Candidate("d-new", 2))
    assert start_all(p) == ["d-new"]


def test_with_a_larger_reserve_unmeasured_work_leaves_the_last_slot() -> None:
    p = policy(slots=16)
    for n in range(20):
        p.update_waiting(Candidate(f"t{n}-new", 100))
    assert len(start_all(p)) == 15
    teach(p, "quiet-job", 0.1)
    p.update_waiting(Candidate("quiet-job", 1))
    assert start_all(p) == ["quiet-job"]


def test_a_batch_that_overruns_is_counted_as_long_while_it_runs() -> None:
    p = policy()
    for tenant in "abcd":
        teach(p, f"{tenant}-x", 0.5)
        p.update_waiting(Candidate(f"{tenant}-x", 100))
    assert len(start_all(p)) == 4
    for tenant in "abc":
        p.jobs_running(f"{tenant}-x", 30.0)
    p.jobs_stopped("d-x", 1, 0.5)
    p.update_waiting(Candidate("d-x", 0))
    assert p.why_waiting("a-x") is Hold.LONG_WORK
    assert start_all(p) == []
    for tenant in "abc":
        p.jobs_stopped(f"{tenant}-x", 1, 31.0)
    assert len(start_all(p)) == 3


def test_the_charge_is_corrected_at_the_end() -> None:
    p = policy(slots=1, burst_s=0.0)
    p.set_waiting([Candidate("a-x", 1000), Candidate("b-x", 1000)])
    order = []
    for _ in range(40):
        pick = p.select_jobtype_to_run()
        assert pick is not None
        p.jobs_started(*pick)
        order.append(pick.jobtype)
        p.jobs_stopped(pick.jobtype, pick.jobs, 9.0 if pick.jobtype == "a-x" else 1.0)
    assert order.count("a-x") == pytest.approx(4, abs=1), "both were guessed alike, and cost nine to one"


def test_batches_are_sized_by_what_jobs_take() -> None:
    p = policy(slots=1)
    p.update_waiting(Candidate("a-x", 100_000))
    assert p.select_jobtype_to_run() == Pick("a-x", 1), "the first is a probe"
    teach(p, "a-x", 0.001)
    assert p.select_jobtype_to_run() == Pick("a-x", 100)
    p.jobs_started("a-x", 100)
    p.jobs_stopped("a-x", 100, 0.0001)
    assert p.select_jobtype_to_run() == Pick("a-x", 1000), "bounded"
    p.jobs_started("a-x", 1000)
    p.jobs_stopped("a-x", 10, 100.0)
    assert p.select_jobtype_to_run() == Pick("a-x", 1)


def test_what_waits_is_spread_over_the_free_slots() -> None:
    p = policy(slots=4)
    p.update_waiting(Candidate("a-x", 8))
    teach(p, "a-x", 0.02)
    p.update_waiting(Candidate("a-x", 8))
    assert p.select_jobtype_to_run() == Pick("a-x", 2)
    p.update_waiting(Candidate("a-y", 8))
    teach(p, "a-y", 0.0001)
    p.update_waiting(Candidate("a-x", 0))
    assert p.select_jobtype_to_run() == Pick("a-y", 7), "too little to be worth a second slot"


def test_what_waits_is_not_spread_over_slots_that_other_types_can_use() -> None:
    p, jobtypes = policy(slots=4), ("a-x", "a-y", "b-x", "b-y")
    for jobtype in jobtypes:
        teach(p, jobtype, 0.02)
    p.set_waiting([Candidate(jobtype, 4) for jobtype in jobtypes])
    picks = []
    while pick := p.select_jobtype_to_run():
        p.jobs_started(*pick)
        picks.append(pick)
    assert sorted(picks) == [Pick(jobtype, 4) for jobtype in jobtypes]
    for pick in picks:
        p.jobs_stopped(pick.jobtype, 4, 0.08)
    p.set_waiting([Candidate("a-x", 4)])
    assert p.select_jobtype_to_run() == Pick("a-x", 1), "alone, it has all slots"


def test_types_that_may_not_start_keep_nobody_from_spreading() -> None:
    """A tenant that has reached its cap cannot use free slots, however many of its types wait."""
    p = policy(slots=4)
    teach(p, "b-x", 0.02)
    p.set_tenants({"a": TenantTerms(max_slots=1), "b": TenantTerms()})
    p.set_waiting([Candidate("b-x", 6), *(Candidate(f"a-x{number}", 1) for number in range(9))])
    p.jobs_started("a-x0", 1)
    assert p.select_jobtype_to_run() == Pick("b-x", 2)


def test_a_warm_sibling_goes_first_within_the_slack() -> None:
    p = policy(slots=1, warm_slack_s=0.25)
    p.set_waiting([Candidate("a-x", 1000), Candidate("a-y", 1000), Candidate("b-x", 1000)])
    for jobtype in ("a-x", "a-y", "b-x", "b-x", "b-x"):
        teach(p, jobtype, 0.1)
    assert p.select_jobtype_to_run({"a-y"}) == Pick("a-y", 1)
    assert p.select_jobtype_to_run({"b-x"}) == Pick("a-x", 1), "never at another tenant's cost"
    for _ in range(3):
        teach(p, "a-y", 0.1)
        teach(p, "b-x", 0.1)
    assert p.select_jobtype_to_run({"a-y"}) == Pick("a-x", 1), "the slack is used up"


def test_caps_of_type_and_tenant() -> None:
    p = policy(slots=8)
    p.set_tenants({"a": TenantTerms(max_slots=3), "b": TenantTerms(max_slots=0)})
    p.set_waiting([Candidate("a-x", 100, max_slots=2), Candidate("a-y", 100), Candidate("b-x", 100)])
    started = start_all(p)
    assert (started.count("a-x"), started.count("a-y"), started.count("b-x")) == (2, 1, 0)
    assert p.why_waiting("a-x") is Hold.TYPE_CAP
    assert p.why_waiting("a-y") is Hold.TENANT_CAP
    p.jobs_stopped("a-x", 1, 0.1)
    assert len(start_all(p)) == 1


def test_why_waiting() -> None:
    p = policy(slots=2)
    assert p.why_waiting("a-x") is Hold.NOT_WAITING
    p.update_waiting(Candidate("a-x", 10))
    assert p.why_waiting("a-x") is Hold.TURN
    assert len(start_all(p)) == 2
    assert p.why_waiting("a-x") is Hold.NO_SLOT


def test_it_keeps_nothing_of_what_has_been() -> None:
    p = policy()
    for n in range(3000):
        teach(p, f"a-type{n}", 0.001)
    assert len(p.board.types) == 0
    assert len(p._charges) == 0
    assert len(p._types["a"]) == 0
    p.update_waiting(Candidate("a-busy", 1))
    for n in range(3000):
        teach(p, f"a-type{n}", 0.001)
    p.set_waiting([Candidate("a-busy", 1)])
    assert len(p._types["a"]) <= 1001, "also of a tenant that never rests"


def test_work_done_while_nobody_wanted_the_slots_is_no_debt() -> None:
    p = policy(slots=1)
    for _ in range(100):
        teach(p, "a-x", 0.9)
    teach(p, "b-x", 0.9)
    p.set_waiting([Candidate("a-x", 10), Candidate("b-x", 10)])
    assert p.select_jobtype_to_run() == Pick("a-x", 1), "all are even, and it was named first"


def test_estimates_are_bounded() -> None:
    p = DeficitRoundRobin(SchedulerOptions(slots=1, remembered_types=10))
    for n in range(100):
        teach(p, f"a-type{n}", 0.001)
    assert len(p.costs._costs) == 10
    assert p.costs.batch_size("a-type99", 10**6, 1, 0.1) == 100


def test_a_clock_that_steps_back_is_no_credit() -> None:
    p = policy(slots=1)
    p.jobs_started("a-x", 1)
    p.jobs_stopped("a-x", 1, -5.0)
    assert p.costs.expect_s("a-x", 1) == 0.0


def test_misuse_is_told() -> None:
    p = policy()
    with pytest.raises(NotRunning, match="a-x"):
        p.jobs_stopped("a-x", 1, 0.1)
    with pytest.raises(InvalidOptions, match="weight of tenant a"):
        p.set_tenants({"a": TenantTerms(weight=0)})
    with pytest.raises(InvalidOptions, match="max_slots"):
        p.set_tenants({"a": TenantTerms(max_slots=-1)})
    assert p.board.tenants == {}
    wrong: dict[str, Any]
    for wrong in ({"slots": 0}, {"reserve_share": 0.6}, {"burst_s": float("nan")}, {"long_s": -1.0}):
        with pytest.raises(InvalidOptions, match=next(iter(wrong))):
            replace(SchedulerOptions(slots=4), **wrong)


def test_the_first_dash_ends_the_tenant() -> None:
    assert tenant_of("acme_1-resize-image") == "acme_1"


def test_what_a_tenant_burns_outside_its_batches_is_charged_to_it() -> None:
    p = policy(slots=1)
    p.set_waiting([Candidate("a-x", 5), Candidate("b-x", 5)])
    assert p.select_jobtype_to_run() == Pick("a-x", 1)
    p.charge("a", 0.5)
    p.charge("nobody", 0.5)
    assert p.select_jobtype_to_run() == Pick("b-x", 1)


def test_a_tenant_that_only_runs_outside_is_a_rival_from_then_on() -> None:
    p = policy(slots=2)
    teach(p, "a-x", 0.1)
    p.set_waiting([Candidate("a-x", 5)])
    p.jobs_started("a-x", 1)
    p.run_outside("b", 1)
    assert p.select_jobtype_to_run() is None, "the other slot is kept for it"
    assert p.why_waiting("a-x") is Hold.TENANT_SHARE
