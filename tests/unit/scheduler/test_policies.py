"""Every policy of the table keeps slots and caps; what is particular to the small ones."""

import random
from collections import Counter
from collections.abc import Collection

import pytest

from scheduler import POLICIES, Candidate, Hold, Policy, SchedulerOptions, TenantTerms, make_policy
from scheduler.errors import UnknownPolicy


@pytest.fixture(params=sorted(POLICIES))
def policy(request: pytest.FixtureRequest) -> Policy:
    return make_policy(request.param, SchedulerOptions(slots=3), random.Random(3).random)


def start_all(policy: Policy, warm: Collection[str] = ()) -> list[str]:
    started = []
    while pick := policy.select_jobtype_to_run(warm):
        policy.jobs_started(*pick)
        started.append(pick.jobtype)
    return started


def test_slots_and_caps_are_kept(policy: Policy) -> None:
    policy.set_tenants({"a": TenantTerms(max_slots=1)})
    policy.set_waiting([Candidate("a-x", 10), Candidate("a-y", 10, max_slots=0)])
    assert start_all(policy) == ["a-x"]
    assert policy.why_waiting("a-y") is Hold.TYPE_CAP
    policy.set_waiting([Candidate("b-x", 10), Candidate("c-x", 10)])
    assert len(start_all(policy)) == 2
    assert policy.why_waiting("b-x") is Hold.NO_SLOT


def test_a_stop_makes_room(policy: Policy) -> None:
    policy.set_waiting([Candidate("a-x", 10)])
    assert start_all(policy) == ["a-x"] * 3
    policy.jobs_running("a-x", 0.2)
    policy.jobs_stopped("a-x", 1, 0.5)
    assert start_all(policy) == ["a-x"]


def test_one_tenant_leaves_a_slot_to_the_others(policy: Policy) -> None:
    policy.set_tenants({"a": TenantTerms(), "b": TenantTerms()})
    policy.set_waiting([Candidate("a-x", 10), Candidate("a-y", 10)])
    assert len(start_all(policy)) == 2
    assert policy.why_waiting("a-x") is Hold.TENANT_SHARE
    policy.update_waiting(Candidate("b-x", 10))
    assert start_all(policy) == ["b-x"]
    assert policy.why_waiting("a-x") is Hold.NO_SLOT


def test_warm_types_are_a_hint(policy: Policy) -> None:
    policy.set_waiting([Candidate("a-x", 10), Candidate("a-y", 10)])
    picks = [policy.select_jobtype_to_run(["a-y", "gone-type"]) for _ in range(300)]
    chosen = Counter(pick.jobtype for pick in picks if pick)
    assert chosen.total() == 300
    assert chosen["a-y"] >= 180


def test_oldest_first_goes_by_due_time() -> None:
    policy = make_policy("oldest", SchedulerOptions(slots=3), random.Random(3).random)
    policy.set_waiting([Candidate("a-x", 1, 300), Candidate("b-x", 1, 100), Candidate("c-x", 1, 200)])
    assert start_all(policy) == ["b-x", "c-x", "a-x"]


def test_random_reaches_everyone() -> None:
    policy = make_policy("random", SchedulerOptions(slots=300), random.Random(3).random)
    policy.set_waiting([Candidate(f"t{n}-x", 1000) for n in range(10)])
    started = Counter(start_all(policy, warm=["t1-x", "t2-x"]))
    assert len(started) == 10, "whoever is warm"
    assert min(started.values()) >= 10


def test_a_policy_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(UnknownPolicy, match="deficit, oldest, random"):
        make_policy("lifo", SchedulerOptions(slots=1), random.Random(3).random)
