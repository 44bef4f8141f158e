"""Cycles are collected when the process has grown, and left alone when it has not."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from functory.daemon.garbage_collector import GrowthCollector, own_resident_bytes

MB = 1 << 20


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def no_other_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def leave_cycle() -> weakref.ref[Cycle]:
    return weakref.ref(Cycle())


async def test_growth_collects_what_few_objects_hold() -> None:
    sizes = [100 * MB]
    collector = GrowthCollector(lambda: sizes[-1])
    await collector.look()
    cycle = leave_cycle()
    sizes.append(110 * MB)
    await collector.look()
    assert cycle() is not None, "a collection has its price: ten megabytes are no reason"
    sizes.append(130 * MB)
    await collector.look()
    assert cycle() is None


async def test_old_objects_are_looked_at_when_the_young_ones_were_not_enough() -> None:
    sizes = iter([100 * MB, 130 * MB, 105 * MB, 130 * MB, 130 * MB, 130 * MB])
    collector = GrowthCollector(lambda: next(sizes))
    await collector.look()
    made = Cycle()
    for _ in range(2):  # now it is old
        gc.collect()
    cycle = weakref.ref(made)
    del made
    await collector.look()
    assert cycle() is not None, "collecting the young ones had made it small again"
    await collector.look()
    assert cycle() is None


async def test_what_stays_is_no_reason_to_collect_again() -> None:
    collector = GrowthCollector(iter([100 * MB] + [200 * MB] * 4).__next__)
    for _ in range(2):
        await collector.look()
    cycle = leave_cycle()
    await collector.look()
    assert cycle() is not None


def test_the_system_says_how_much_this_process_uses() -> None:
    assert own_resident_bytes() > MB
