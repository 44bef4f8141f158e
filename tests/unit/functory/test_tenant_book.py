"""What the daemon knows of tenants: the youngest answer counts, and who is gone is told."""

import asyncio
from typing import Any

import pytest

from functory.execution.tenant_book import TenantBook
from store.base import Tenant


class Registry:
    """A store as far as the book asks it. Slow answers come when they are let."""

    def __init__(self) -> None:
        self.tenants: list[Tenant] = []
        self.slow: list[asyncio.Event] = []

    async def list_tenants(self) -> list[Tenant]:
        answer = list(self.tenants)
        if self.slow:
            await self.slow.pop(0).wait()
        return answer


def book_of(registry: Any) -> TenantBook:
    return TenantBook(registry)


async def test_an_old_answer_does_not_undo_a_younger_one() -> None:
    registry = Registry()
    book = book_of(registry)
    registry.tenants = [Tenant("acme", 1)]
    go = asyncio.Event()
    registry.slow = [go]
    old = asyncio.create_task(book.refresh())
    await asyncio.sleep(0)  # it has asked
    registry.tenants = [Tenant("acme", 1, suspended=True)]
    await book.refresh()
    go.set()
    await old
    assert book.of("acme-x").is_closed


async def test_who_is_gone_and_who_is_suspended() -> None:
    registry = Registry()
    book, gone = book_of(registry), list[str]()
    book.when_gone(gone.append)
    registry.tenants = [Tenant(name, 1) for name in ("again", "here", "left", "suspended")]
    await book.refresh()
    assert book.take_ended() == {}
    registry.tenants = [Tenant("again", 2), Tenant("here", 1), Tenant("suspended", 1, suspended=True)]
    await book.refresh()
    assert (gone, book.take_ended()) == (["again", "left"], {"again": 2, "left": None, "suspended": None})
    registry.tenants = [Tenant("here", 1)]
    await book.refresh()
    assert (gone[2:], book.take_ended()) == (["again", "suspended"], {"again": None, "suspended": None})


async def test_limits_that_cannot_be_read_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry()
    book, told = book_of(registry), list[int]()
    for limits in ("{", "{", "", "{"):
        registry.tenants = [Tenant("acme", 1, limits=limits)]
        await book.refresh()
        told.append(caplog.messages.count("tenant.limits_unreadable"))
    assert told == [1, 1, 1, 2]
    allowed = book.of("acme-x")
    assert (allowed.max_running, allowed.network, allowed.hosts) == (1, False, ())
