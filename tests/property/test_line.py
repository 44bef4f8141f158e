"""The lines that wait for the reader: `has_only` says yes only if it is so, whatever came and went before."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from functory.intake.line import Line
from vocabulary.names import tenant_of

TYPES = ("a-x", "a-y", "b-x")
STEPS = st.lists(st.tuples(st.sampled_from(["enter", "enter unknown", "leave"]), st.sampled_from(TYPES)), max_size=40)


@given(STEPS)
def test_it_knows_of_one_type_only_if_all_are_of_it(steps: list[tuple[str, str]]) -> None:
    line, there = Line(), Counter[str]()
    for verb, jobtype in steps:
        tenant = tenant_of(jobtype)
        if verb == "leave" and there[jobtype]:
            line.leave(tenant, 1)
            there[jobtype] -= 1
        elif verb != "leave":
            line.enter(tenant, 1, *([jobtype] if verb == "enter" else []), is_urgent=False)
            there[jobtype] += 1
        waiting = +there
        assert line.lines == waiting.total()
        assert bool(line) is bool(waiting)
        for each in TYPES:
            assert line.of(tenant_of(each)) == sum(
                waiting[name] for name in TYPES if tenant_of(name) == tenant_of(each)
            )
            if line.has_only(tenant_of(each), each):
                assert waiting.keys() <= {each}
        of_one_type = line.of_one_type()
        assert not of_one_type or of_one_type == waiting
    for jobtype, count in (+there).items():
        line.leave(tenant_of(jobtype), count)
    assert all(line.has_only(tenant_of(jobtype), jobtype) for jobtype in TYPES), "an empty line knows nothing of before"


def test_lines_that_the_reader_has_before_their_acknowledgement_are_of_no_type() -> None:
    line = Line()
    line.leave("a", 3)
    assert line.has_only("a", "a-x")
    assert line.has_only("a", "a-y")
    assert not line.has_only("b", "b-x")
    line.enter("a", 3, "a-x")
    assert not line
    assert line.has_only("b", "b-x")
