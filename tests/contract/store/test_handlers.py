"""Handlers: versions that only grow, deletion that forgets nothing, roll-back as a new version."""

import asyncio
from typing import Any

import pytest

from store.base import Handler, NewHandler, Store
from store.errors import Conflict, InvalidValue, NotFound
from store.names import MAX_HANDLER_BYTES
from tests.support.jobs import JOBTYPE, T0, TENANT


async def put(
    store: Store, data: bytes, now_ms: int = T0, *, after: int | None = None, exactly: bool = False, **more: Any
) -> Handler:
    new = NewHandler(JOBTYPE, "python", data, now_ms)._replace(**more)
    return await store.set_handler(TENANT, new, after=after, exactly=exactly)


async def test_the_newest_version_is_in_force(store: Store) -> None:
    assert await store.get_handler(TENANT, JOBTYPE) is None
    one = await put(store, b"one", author="ann")
    assert one == Handler(JOBTYPE, 1, T0, "python", b"one", "ann", 0)
    two = await put(store, b"two", T0 + 1)
    assert (two.version, await store.get_handler(TENANT, JOBTYPE)) == (2, two)
    assert await store.get_handler(TENANT, JOBTYPE, 1) == one
    assert await store.get_handler(TENANT, JOBTYPE, 3) is None
    assert await store.get_handler("other", "other-thumb") is None


async def test_the_same_again_makes_no_version(store: Store) -> None:
    one = await put(store, b"one")
    assert await put(store, b"one", T0 + 9) == one
    assert (await put(store, b"one", lang="node")).version == 2


async def test_a_deleted_handler_can_be_rolled_back_to(store: Store) -> None:
    one = await put(store, b"one")
    await put(store, b"two")
    assert await store.delete_handler(TENANT, JOBTYPE)
    assert not await store.delete_handler(TENANT, JOBTYPE)
    assert await store.get_handler(TENANT, JOBTYPE) is None
    assert await store.list_handlers(TENANT) == []
    assert await store.get_handler(TENANT, JOBTYPE, 1) == one
    restored = await store.roll_back_handler(TENANT, JOBTYPE, 1, now_ms=T0 + 5, author="bob")
    assert restored == Handler(JOBTYPE, 3, T0 + 5, "python", b"one", "bob", 1)
    assert await store.get_handler(TENANT, JOBTYPE) == restored
    with pytest.raises(NotFound):
        await store.roll_back_handler(TENANT, JOBTYPE, 99, now_ms=T0)


async def test_a_version_number_is_never_used_twice(store: Store) -> None:
    await put(store, b"one")
    await store.delete_handler(TENANT, JOBTYPE)
    assert (await put(store, b"one")).version == 2


async def test_of_saves_at_the_same_time_the_one_that_was_asked_for_last_wins(store: Store) -> None:
    one = await put(store, b"one")
    early, late = T0 + 1, T0 + 2
    newer = await put(store, b"newer", late, after=one.version)
    with pytest.raises(Conflict, match="version 2, which was asked for after this one"):
        await put(store, b"older", early, after=one.version)
    assert await store.get_handler(TENANT, JOBTYPE) == newer
    assert [row.version for row in await store.list_handler_versions(TENANT, JOBTYPE)] == [2, 1]
    assert await put(store, b"newer", early, after=one.version) == newer, "the same is no conflict"
    assert (await put(store, b"older", early)).data == b"older", "what names no version replaces any"
    await store.delete_handler(TENANT, JOBTYPE)
    first = await put(store, b"slow", early, after=0)
    assert (await put(store, b"asked for later, done later", late, after=0)).version == first.version + 1


async def test_a_handler_that_was_deleted_while_another_was_saved_stays_deleted(store: Store) -> None:
    one = await put(store, b"one")
    await store.delete_handler(TENANT, JOBTYPE)
    with pytest.raises(Conflict, match="was deleted while this one was being saved"):
        await put(store, b"two", T0 + 9, after=one.version)
    assert await store.get_handler(TENANT, JOBTYPE) is None
    assert (await put(store, b"two", T0 + 9, after=0)).data == b"two"


async def test_what_was_made_from_a_version_replaces_no_other(store: Store) -> None:
    one = await put(store, b"one")
    two = await put(store, b"two", T0 + 1, after=one.version, exactly=True)
    for version in (0, one.version):
        with pytest.raises(Conflict, match="version 2 is in force"):
            await put(store, b"three", T0 + 9, after=version, exactly=True)
    assert await store.get_handler(TENANT, JOBTYPE) == two
    assert (await put(store, b"three", T0 + 9, after=two.version, exactly=True)).data == b"three"


async def test_whatever_the_order_the_save_that_was_asked_for_last_is_in_force(store: Store) -> None:
    one = await put(store, b"one")
    saves = [put(store, b"at %d" % ms, T0 + ms, after=one.version) for ms in (4, 2, 5, 1, 3)]
    ends = await asyncio.gather(*saves, return_exceptions=True)
    assert all(isinstance(end, Handler | Conflict) for end in ends), ends
    current = await store.get_handler(TENANT, JOBTYPE)
    assert current is not None
    assert (current.data, current.version) == (b"at 5", max(end.version for end in ends if isinstance(end, Handler)))


async def test_listings(store: Store) -> None:
    for n in range(3):
        await put(store, b"v%d" % n, T0 + n)
    await store.set_handler(TENANT, NewHandler("acme-a", "sh", b"true", T0))
    await store.set_handler("other", NewHandler("other-a", "sh", b"true", T0))
    assert [(h.jobtype, h.version, h.size_bytes) for h in await store.list_handlers(TENANT)] == [
        ("acme-a", 1, 4),
        (JOBTYPE, 3, 2),
    ]
    versions = await store.list_handler_versions(TENANT, JOBTYPE)
    assert [(h.version, h.created_ms, h.current) for h in versions] == [
        (3, T0 + 2, True),
        (2, T0 + 1, False),
        (1, T0, False),
    ]
    assert (await store.get_usage(TENANT)).handlers == 2
    assert await store.list_handled_types(TENANT) == ["acme-a", JOBTYPE]
    await store.delete_handler(TENANT, "acme-a")
    assert await store.list_handled_types(TENANT) == [JOBTYPE]


async def test_only_the_newest_versions_are_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.handler_rules.VERSIONS_KEPT", 3)
    for n in range(6):
        await put(store, b"v%d" % n)
    assert [h.version for h in await store.list_handler_versions(TENANT, JOBTYPE)] == [6, 5, 4]


async def test_malformed_handlers_are_refused(store: Store) -> None:
    with pytest.raises(InvalidValue):
        await put(store, b"x" * (MAX_HANDLER_BYTES + 1))
    with pytest.raises(InvalidValue):
        await put(store, b"x", -1)
    with pytest.raises(InvalidValue):
        await put(store, b"x", lang="")
    with pytest.raises(InvalidValue):
        await store.set_handler("other", NewHandler(JOBTYPE, "sh", b"", T0))
