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
    sizes = [200 * MB]
    collector = GrowthCollector(lambda: sizes[-1])
    await collector.look()
    cycle = leave_cycle()
    sizes.append(210 * MB)
    await collector.look()
    assert cycle() is not None, "a collection has its price: ten megabytes are no reason"
    sizes.append(230 * MB)
    await collector.look()
    assert cycle() is None


async def test_old_objects_are_looked_at_when_the_young_ones_were_not_enough() -> None:
    sizes = iter([200 * MB, 230 * MB, 205 * MB, 230 * MB, 230 * MB, 230 * MB])
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
    collector = GrowthCollector(iter([200 * MB] + [300 * MB] * 4).__next__)
    for _ in range(2):
        await collector.look()
    cycle = leave_cycle()
    await collector.look()
    assert cycle() is not None


async def test_a_small_process_is_left_alone() -> None:
    collector = GrowthCollector(iter([60 * MB, 170 * MB]).__next__)
    await collector.look()
    cycle = leave_cycle()
    await collector.look()
    assert cycle() is not None


def test_the_system_says_how_much_this_process_uses() -> None:
    assert own_resident_bytes() > MB
