"""What the daemon remembers of handlers: bounded, by version, and nothing of a tenant that is gone."""

import asyncio
from typing import Any

import pytest

from functory.execution import handler_cache
from functory.execution.handler_cache import HandlerCache
from functory.execution.handler_document import encode_handler
from handlers.model import Handler
from store.values.records import Handler as Stored


class Shelf:
    """A store as far as the cache asks it. Counts what is read; a read may be held up."""

    def __init__(self) -> None:
        self.bodies: dict[str, str] = {}
        self.reads: list[str] = []
        self.asked = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def get_handler(self, tenant: str, jobtype: str, version: int | None = None) -> Any:
        self.reads.append(jobtype)
        self.asked.set()
        data = encode_handler(Handler("python", self.bodies[jobtype]))
        await self.gate.wait()
        return Stored(jobtype, version or 0, 0, "python", data)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def tenants() -> dict[str, int]:
    """When those were created that are known."""
    return {"acme": 1}


@pytest.fixture
def cache(shelf: Shelf, tenants: dict[str, int]) -> HandlerCache:
    store: Any = shelf
    return HandlerCache(store, lambda name: tenants.get(name, 0))


async def body(cache: HandlerCache, jobtype: str, version: int = 1) -> str:
    handler = await cache.get(jobtype, version)
    assert handler
    return handler.body


async def test_a_version_is_read_once(shelf: Shelf, cache: HandlerCache) -> None:
    shelf.bodies["acme-x"] = "one"
    assert [await body(cache, "acme-x") for _ in range(3)] == ["one"] * 3
    shelf.bodies["acme-x"] = "two"
    assert [await body(cache, "acme-x", 2) for _ in range(3)] == ["two"] * 3
    assert shelf.reads == ["acme-x"] * 2


async def test_large_ones_push_out_those_that_were_not_used_for_longest(
    shelf: Shelf, cache: HandlerCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler_cache, "_MOST_BYTES", 10_000)
    shelf.bodies = {"acme-a": "a" * 4000, "acme-b": "b" * 4000, "acme-c": "c" * 4000}
    for jobtype in ("acme-a", "acme-b", "acme-a", "acme-c"):
        await body(cache, jobtype)
    shelf.reads.clear()
    for jobtype in ("acme-a", "acme-c", "acme-b"):
        await body(cache, jobtype)
    assert shelf.reads == ["acme-b"]
    for version in range(2, 9):  # a new version takes the place of the one before, and of nothing else
        await body(cache, "acme-b", version)
    shelf.reads.clear()
    await body(cache, "acme-c")
    assert shelf.reads == []


async def test_one_that_is_larger_than_all_is_not_kept(
    shelf: Shelf, cache: HandlerCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handler_cache, "_MOST_BYTES", 1000)
    shelf.bodies = {"acme-a": "a" * 4000, "acme-b": "b"}
    assert [len(await body(cache, "acme-a")) for _ in range(2)] == [4000] * 2
    assert [await body(cache, "acme-b") for _ in range(2)] == ["b"] * 2
    assert shelf.reads == ["acme-a", "acme-a", "acme-b"]


async def test_what_was_read_of_a_tenant_is_not_for_another_of_its_name(
    shelf: Shelf, cache: HandlerCache, tenants: dict[str, int]
) -> None:
    for created_ms in (2, 0, 3):  # 0: there is none
        shelf.bodies["acme-x"] = f"of {created_ms}"
        tenants["acme"] = created_ms
        assert [await body(cache, "acme-x") for _ in range(2)] == [f"of {created_ms}"] * 2
    assert len(shelf.reads) == 3


async def test_what_was_being_read_of_a_tenant_that_is_gone_is_not_for_another(
    shelf: Shelf, cache: HandlerCache, tenants: dict[str, int]
) -> None:
    shelf.bodies["acme-x"] = "of the one that is gone"
    shelf.gate.clear()
    reading = asyncio.create_task(body(cache, "acme-x"))
    await shelf.asked.wait()
    tenants["acme"] = 2
    shelf.bodies["acme-x"] = "of another with that name"
    shelf.gate.set()
    await reading
    assert await body(cache, "acme-x") == "of another with that name"
