"""The plan of a storm: the seed's own, with every kind of fault in it."""

from tests.storm.plan import FORMS, Kind, make_plan


def test_a_seed_replays() -> None:
    assert make_plan(7, 200) == make_plan(7, 200)
    assert make_plan(7, 200) != make_plan(8, 200)


def test_a_short_storm_has_every_kind_of_fault() -> None:
    plan = make_plan(1, 20)
    assert [len(faults) for faults in plan.values()] == [5, 5, 5, 5]
    assert {fault.kind for faults in plan.values() for fault in faults} == set(Kind)


def test_a_form_gets_only_faults_that_it_can_have() -> None:
    plan = make_plan(2, 203)
    assert sum(map(len, plan.values())) == 203
    for form in FORMS:
        assert {fault.kind for fault in plan[form.name]} == form.kinds
        assert all(fault.target < form.daemons and 0 <= fault.size < 1 for fault in plan[form.name])
