"""Long work in slices: what others wait for is bounded by the work, and not by the number of names."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from functory.errors import InvalidInput
from functory.loops.slices import SLICE, Slices
from functory.operations.type_patterns import types_matching
from functory.workers.asked_types import AskedTypes
from functory.workers.presence import Seen
from functory.workers.taker_line import TakerLine
from functory.workers.takers import Group
from vocabulary import glob

TYPES = [f"acme-type{number}" for number in range(150)]
CHARS = 120
"""Of each pattern."""


@asynccontextmanager
async def watched(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[int]]:
    """The characters of patterns that were compared between two turns of the event loop, turn by turn."""
    turns, matches = [0], glob._Glob.matches

    def counting(read: glob._Glob, name: str) -> bool:
        turns[-1] += CHARS
        return matches(read, name)

    async def take_turns() -> None:
        while True:
            turns.append(0)
            await asyncio.sleep(0)

    monkeypatch.setattr(glob._Glob, "matches", counting)
    other = asyncio.create_task(take_turns())
    try:
        yield turns
    finally:
        other.cancel()


def pattern(number: int) -> str:
    return f"*{number}" + "*x" * ((CHARS - len(str(number)) - 1) // 2)


async def in_slices(work: Awaitable[Any], turns: list[int], compared: int) -> None:
    """Everything is compared, and no turn is longer than a slice."""
    await work
    assert sum(turns) >= compared * (CHARS - 1)
    assert max(turns) <= SLICE


async def test_groups_of_workers_share_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    line = TakerLine("acme", SimpleNamespace(), SimpleNamespace())  # type: ignore[arg-type]
    line.mark(TYPES)
    groups = [Group(tuple(pattern(20 * number + each) for each in range(20))) for number in range(10)]

    async def work() -> None:
        for group in groups:
            assert await line._candidates(group, TYPES) == []

    async with watched(monkeypatch) as turns:
        await in_slices(work(), turns, len(TYPES) * 200)
    reads, found = [], len(turns)
    monkeypatch.setattr(glob._Glob, "matches", lambda *_: reads.append(1))
    await work()
    assert not reads, "they are known by now"
    assert found > len(TYPES) * 200 * CHARS // SLICE


async def test_patterns_with_sets_count_for_more_when_they_are_read() -> None:
    spent: list[int] = []

    class Counted(Slices):
        async def spend(self, work: int) -> None:
            spent.append(work)

    group = Group(("[a]*" * 30, "b*" * 60))
    for name in ("acme-a", "acme-b"):
        assert not await group.takes(name, Counted())
    sets, comparison, plain, second, *later = spent
    assert sets > 20 * comparison
    assert plain == second == comparison
    assert later == [comparison, comparison]


async def test_types_are_looked_for_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [SimpleNamespace(jobtype=jobtype) for jobtype in TYPES * 10]
    asked: list[str] = []

    async def get_counters(tenant: str, **_: Any) -> list[SimpleNamespace]:
        asked.append(tenant)
        return rows

    service: Any = SimpleNamespace(store=SimpleNamespace(get_counters=get_counters), now_ms=lambda: 0)
    async with watched(monkeypatch) as turns:
        await in_slices(types_matching(service, "acme", "*x" * 60), turns, len(rows))
    asked.clear()
    with pytest.raises(InvalidInput, match="at most 127 characters, and this one has 128"):
        await types_matching(service, "acme", "*" * 128)
    assert not asked


async def test_workers_are_compared_with_types_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    workers = [Seen(name=f"w{n}", types=[pattern(4 * n + each) for each in range(4)], asked_ms=n) for n in range(50)]
    asked = AskedTypes([*workers, Seen(name="last", types=["a*"], asked_ms=1000)])

    async def work() -> None:
        for name in TYPES:
            assert await asked.last_ms(name.removeprefix("acme-"), -1) == -1
        assert [await asked.last_ms("acme", since_ms) for since_ms in (5, 2000)] == [1000, 2000]
        assert [seen.name for seen in await asked.workers_of("acme")] == ["last"]

    async with watched(monkeypatch) as turns:
        await in_slices(work(), turns, len(TYPES) * 200)
