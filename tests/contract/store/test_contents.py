"""Pieces of files: each once per tenant, kept while touched, counted, and gone with their tenant."""

import pytest

from store.base import Content, ContentSummary, NewHandler, Store, Tenant
from store.errors import InvalidValue
from store.names import MAX_CONTENT_BYTES, MAX_CONTENTS_AT_ONCE
from tests.support.jobs import T0, TENANT

A, B, C = (digit * 64 for digit in "abc")


def content(digest: str = A, data: bytes = b"one\0", *, tenant: str = TENANT, touched_ms: int = T0) -> Content:
    return Content(tenant, digest, touched_ms, data)


async def test_contents_are_kept_once_and_belong_to_their_tenant(store: Store) -> None:
    await store.put_contents(TENANT, [])
    await store.put_contents(TENANT, [content(B, b"two"), content()])
    await store.put_contents(TENANT, [content(data=b"not written again")])
    for other in ("other", f"{TENANT}2"):
        await store.put_contents(other, [content(data=b"theirs", tenant=other)])
    assert await store.get_contents(TENANT, [B, A, C, A]) == [content(), content(B, b"two")]
    assert await store.get_contents("other", [A, B]) == [content(data=b"theirs", tenant="other")]
    assert await store.list_content_tenants() == sorted([TENANT, f"{TENANT}2", "other"])
    assert await store.get_contents(TENANT, []) == []


async def test_contents_are_listed_in_pages(store: Store) -> None:
    await store.put_contents(TENANT, [content(B, b"two"), content()])
    await store.put_contents(f"{TENANT}2", [content(C, tenant=f"{TENANT}2")])
    assert await store.list_contents(TENANT, limit=1) == [ContentSummary(A, 4, T0)]
    assert await store.list_contents(TENANT, after=A) == [ContentSummary(B, 3, T0)]
    assert await store.list_contents(TENANT, after=B) == []


async def test_a_touch_tells_what_is_there_and_never_goes_back(store: Store) -> None:
    await store.put_contents(TENANT, [content(), content(B, b"two")])
    assert await store.touch_contents(TENANT, [B, C], now_ms=T0 + 5) == [B]
    assert await store.touch_contents(TENANT, [B], now_ms=T0 + 1) == [B]
    await store.put_contents(TENANT, [content(touched_ms=T0 + 7), content(B, b"two", touched_ms=T0 + 2)])
    assert await store.list_contents(TENANT) == [ContentSummary(A, 4, T0 + 7), ContentSummary(B, 3, T0 + 5)]
    assert await store.touch_contents("other", [A], now_ms=T0) == []


async def test_only_what_was_not_touched_lately_is_removed(store: Store) -> None:
    await store.put_contents(TENANT, [content(), content(B, b"two", touched_ms=T0 + 9)])
    await store.put_contents("other", [content(tenant="other")])
    assert await store.remove_contents(TENANT, [A, B, C], before_ms=T0 + 9) == 1
    assert await store.get_contents(TENANT, [A, B]) == [content(B, b"two", touched_ms=T0 + 9)]
    assert await store.remove_contents(TENANT, [A, B, C], before_ms=T0 + 9) == 0
    assert await store.get_contents("other", [A]) == [content(tenant="other")]


async def test_contents_count_and_go_with_their_tenant(store: Store) -> None:
    for name in (TENANT, "other"):
        await store.create_tenant(Tenant(name, T0))
    before = (await store.get_usage(TENANT)).size_bytes
    await store.put_contents(TENANT, [content(), content(B, b"x" * 1000)])
    await store.put_contents("other", [content(tenant="other")])
    assert (await store.get_usage(TENANT)).size_bytes - before == 1004
    assert not (await store.delete_tenant(TENANT)).more
    assert await store.list_contents(TENANT) == []
    assert await store.list_content_tenants() == ["other"]


async def test_trees_are_those_of_all_kept_versions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.handler_rules.VERSIONS_KEPT", 2)

    async def put(data: bytes, tree: str, jobtype: str = f"{TENANT}-one") -> int:
        handler = await store.set_handler(TENANT, NewHandler(jobtype, "sh", data, T0, tree=tree))
        assert (await store.get_handler(TENANT, jobtype)) == handler
        assert handler.tree == tree
        return handler.version

    assert await store.list_trees(TENANT) == []
    first = await put(b"1", B)
    await put(b"2", "")
    await put(b"1", A, f"{TENANT}-two")
    await store.delete_handler(TENANT, f"{TENANT}-two")
    assert await store.list_trees(TENANT) == [A, B]
    back = await store.roll_back_handler(TENANT, f"{TENANT}-one", first, now_ms=T0)
    assert back.tree == B
    await put(b"3", C)
    await put(b"4", C)
    assert await store.list_trees(TENANT) == [A, C]
    assert await store.list_trees("other") == []


async def test_a_piece_may_be_as_large_as_it_says(store: Store) -> None:
    largest = content(data=b"x" * MAX_CONTENT_BYTES)
    await store.put_contents(TENANT, [largest])
    assert await store.get_contents(TENANT, [A]) == [largest]


@pytest.mark.parametrize(
    "wrong",
    [
        lambda store: store.put_contents(TENANT, [content(data=b"x" * (MAX_CONTENT_BYTES + 1))]),
        lambda store: store.put_contents(TENANT, [content(tenant="other")]),
        lambda store: store.put_contents(TENANT, [content("A" * 64)]),
        lambda store: store.put_contents(TENANT, [content(touched_ms=-1)]),
        lambda store: store.put_contents("no-tenant", []),
        lambda store: store.get_contents(TENANT, ["../etc"]),
        lambda store: store.get_contents(TENANT, [A] * (MAX_CONTENTS_AT_ONCE + 1)),
        lambda store: store.touch_contents(TENANT, ["x"], now_ms=T0),
        lambda store: store.list_contents(TENANT, after="x"),
        lambda store: store.list_contents(TENANT, limit=0),
        lambda store: store.remove_contents(TENANT, [A + "a"], before_ms=T0),
        lambda store: store.list_trees("A"),
        lambda store: store.set_handler(TENANT, NewHandler(f"{TENANT}-x", "sh", b"", T0, tree="x")),
    ],
)
async def test_what_is_wrong_is_refused(store: Store, wrong: object) -> None:
    with pytest.raises(InvalidValue):
        await wrong(store)  # type: ignore[operator]
    assert await store.list_contents(TENANT) == []
