"""The time that counts for `keep_waiting`: looks that are far apart, daemons that differ, stores often left alone."""

from pathlib import Path

import pytest

from functory.daemon.served_time import ServedTime
from store.base import Store
from store.url import open_store
from tests.support.jobs import T0

SECOND_MS = 1000
HOUR_MS = 3_600_000
PURGE_S = 10.0


async def serve(store: Store, keep_s: float, start_ms: int, looks: int, every_ms: int) -> int:
    """A life of a daemon. Returns since before when jobs waited too long at its last look."""
    served = ServedTime(store, keep_s, PURGE_S)
    return [await served.look(start_ms + number * every_ms) for number in range(looks)][-1]


@pytest.mark.parametrize("keep_s", [1, 5, 10, 12])
async def test_jobs_are_given_up_also_if_looks_are_further_apart_than_jobs_may_wait(
    tmp_path: Path, keep_s: int
) -> None:
    every_ms = 10_050
    async with open_store(f"sqlite://{tmp_path}/store.db") as store:
        assert await serve(store, keep_s, T0, 3, every_ms) == T0 + 2 * every_ms - keep_s * SECOND_MS


async def test_a_daemon_whose_jobs_may_wait_for_less_does_not_make_others_forget_a_gap(tmp_path: Path) -> None:
    keep_s, quarter_ms = 20 * 3600, HOUR_MS // 4
    async with open_store(f"sqlite://{tmp_path}/store.db") as store:
        await serve(store, keep_s, T0, 80, quarter_ms)
        again_ms = T0 + 79 * quarter_ms + 5 * HOUR_MS
        await serve(store, 60, again_ms, 50, 20 * SECOND_MS)
        later_ms = again_ms + 50 * 20 * SECOND_MS
        assert await serve(store, keep_s, later_ms, 1, 0) == later_ms - (20 + 5) * HOUR_MS


async def test_any_number_of_gaps_counts(tmp_path: Path) -> None:
    """The store has a daemon for half of each hour."""
    keep_h, half_ms = 100, HOUR_MS // 2
    async with open_store(f"sqlite://{tmp_path}/store.db") as store:
        served_h = 0.0
        before_ms = 0
        while before_ms <= T0:
            assert served_h < 1.1 * keep_h, "they are given up at last"
            start_ms = T0 + round(2 * served_h * HOUR_MS)
            before_ms = await serve(store, keep_h * 3600, start_ms, 4, half_ms // 3)
            served_h += 0.5
        assert served_h >= keep_h
