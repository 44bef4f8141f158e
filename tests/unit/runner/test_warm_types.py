"""Jobtypes that an idle context is ready for: as the contexts are now, not as they were when somebody asked."""

from runner.pool import ContextKey
from runner.warm_types import WarmTypes

A, B = ContextKey("acme", "version 1"), ContextKey("acme", "version 2")


def test_it_follows_the_contexts() -> None:
    idle = {A}
    warm = WarmTypes(idle.__contains__)
    warm.loaded("acme-a", A)
    warm.loaded("acme-b", B)
    assert (len(warm), list(warm)) == (1, ["acme-a"])
    idle.add(B)
    assert set(warm) == {"acme-a", "acme-b"}
    idle.clear()
    assert set(warm) == set()
    assert "acme-a" not in warm


def test_types_may_share_a_context() -> None:
    warm = WarmTypes({A}.__contains__)
    warm.loaded("acme-a", A)
    warm.loaded("acme-b", A)
    assert set(warm) == {"acme-a", "acme-b"}


def test_a_type_whose_handler_was_replaced_is_warm_when_the_new_one_is_loaded() -> None:
    warm = WarmTypes({A, B}.__contains__)
    warm.loaded("acme-a", A)
    warm.forget(lambda key: key == A)
    assert "acme-a" not in warm
    warm.loaded("acme-a", B)
    assert "acme-a" in warm
    assert "acme-unknown" not in warm
    assert None not in warm
