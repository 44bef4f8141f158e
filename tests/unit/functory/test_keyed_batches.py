"""Batches of types with caps by key are smaller, so that a key that is next does not wait long for a slot."""

from functory.execution.batches import for_keys
from handlers.model import Handler
from scheduler import Pick


def test_only_types_with_a_cap_by_key_have_smaller_batches() -> None:
    pick = Pick("acme-a", 40)
    assert for_keys(pick, Handler("python", "pass")) is pick
    capped = Handler("python", "pass", options={"max_per_key": 1})
    assert for_keys(pick, capped) == Pick("acme-a", 10)
    assert for_keys(Pick("acme-a", 3), capped) == Pick("acme-a", 1)
