"""Jobtypes that an idle context is ready for: as the contexts are now, not as they were when somebody asked."""

from collections.abc import Iterator
from functools import partial
from operator import eq

from hypothesis import given
from hypothesis import strategies as st

from runner.pool import ContextKey
from runner.warm_types import WarmTypes

A, B = ContextKey("acme", "version 1"), ContextKey("acme", "version 2")


def test_it_follows_the_contexts() -> None:
    idle = {A}
    warm = WarmTypes(idle)
    warm.loaded("acme-a", A)
    warm.loaded("acme-b", B)
    assert (len(warm), list(warm)) == (1, ["acme-a"])
    idle.add(B)
    assert set(warm) == {"acme-a", "acme-b"}
    idle.clear()
    assert set(warm) == set()
    assert "acme-a" not in warm


def test_types_may_share_a_context() -> None:
    warm = WarmTypes({A})
    warm.loaded("acme-a", A)
    warm.loaded("acme-b", A)
    assert set(warm) == {"acme-a", "acme-b"}


def test_a_type_whose_handler_was_replaced_is_warm_when_the_new_one_is_loaded() -> None:
    warm = WarmTypes({A, B})
    warm.loaded("acme-a", A)
    warm.forget(lambda key: key == A)
    assert "acme-a" not in warm
    warm.loaded("acme-a", B)
    assert "acme-a" in warm
    assert "acme-unknown" not in warm
    assert None not in warm


def test_a_look_does_not_meet_types_whose_contexts_are_gone() -> None:
    met: list[ContextKey] = []

    class Idle(dict[ContextKey, None]):
        def __iter__(self) -> Iterator[ContextKey]:
            for key in super().__iter__():
                met.append(key)
                yield key

    warm = WarmTypes(Idle({B: None}))
    for number in range(1000):
        warm.loaded(f"acme-{number}", ContextKey("acme", f"version {number + 3}"))
    warm.loaded("acme-1", B)
    assert list(warm) == ["acme-1"]
    assert set(met) == {B}


@given(steps=st.lists(st.tuples(st.sampled_from(["load", "forget"]), st.sampled_from("abc"), st.sampled_from([A, B]))))
def test_it_is_what_was_loaded_last_and_is_idle(steps: list[tuple[str, str, ContextKey]]) -> None:
    warm, last = WarmTypes({A}), dict[str, ContextKey]()
    for step, jobtype, key in steps:
        if step == "load":
            warm.loaded(jobtype, key)
            last[jobtype] = key
        else:
            warm.forget(partial(eq, key))
            last = {name: it for name, it in last.items() if it != key}
        expected = {name for name, it in last.items() if it == A}
        assert (set(warm), len(warm), {name for name in "abc" if name in warm}) == (expected, len(expected), expected)
