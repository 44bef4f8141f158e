"""Notes: values of the whole service, with an end."""

import pytest

from store.base import Store, Tenant
from store.errors import InvalidValue
from tests.support.jobs import T0, TENANT


async def test_a_note_stands_until_it_is_written_over_dropped_or_expired(store: Store) -> None:
    assert await store.get_note("session:x", now_ms=T0) is None
    await store.put_note("session:x", b"one\0", expires_ms=T0 + 10)
    assert await store.get_note("session:x", now_ms=T0 + 9) == b"one\0"
    assert await store.get_note("session:x", now_ms=T0 + 10) is None
    await store.put_note("session:x", b"two", expires_ms=T0 + 20)
    assert await store.get_note("session:x", now_ms=T0 + 10) == b"two"
    assert await store.drop_note("session:x")
    assert not await store.drop_note("session:x")
    assert await store.get_note("session:x", now_ms=T0) is None


async def test_upkeep_removes_expired_notes_and_leaves_the_others(store: Store) -> None:
    await store.put_note("old", b"", expires_ms=T0)
    await store.put_note("new", b"n", expires_ms=T0 + 1)
    assert await store.expire_records(now_ms=T0, audit_before_ms=0) == 1
    assert await store.get_note("new", now_ms=T0) == b"n"


async def test_notes_are_no_tenants_values_and_go_with_none(store: Store) -> None:
    await store.create_tenant(Tenant(TENANT, T0))
    await store.put_note("k", b"note", expires_ms=T0 + 9)
    assert await store.put_once(TENANT, "k", b"value", expires_ms=T0 + 9, now_ms=T0) == b"value"
    while (await store.delete_tenant(TENANT)).more:
        pass
    assert await store.get_note("k", now_ms=T0) == b"note"


@pytest.mark.parametrize("key", ["", "a\nb", "x" * 256, "\ud800"])
async def test_a_key_is_a_label(store: Store, key: str) -> None:
    with pytest.raises(InvalidValue):
        await store.put_note(key, b"", expires_ms=T0)
    with pytest.raises(InvalidValue):
        await store.get_note(key, now_ms=T0)


async def test_a_note_has_a_largest_size(store: Store) -> None:
    with pytest.raises(InvalidValue):
        await store.put_note("k", b"x" * (1024 * 1024 + 1), expires_ms=T0 + 1)
