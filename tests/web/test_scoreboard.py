"""The window of the scoreboard: all that ended in it counts, and the rate is over the time that was counted."""

import pytest

from tests.support.web import Site

MINUTE_S = 60


async def ended_per_s(site: Site, window_s: int) -> float:
    (row,) = (await site.get(f"/acme/scoreboard?window_s={window_s}")).json["types"]
    assert row["duration"] is not None
    rate: float = row["ended_per_s"]
    return rate


async def test_what_ended_in_the_minute_before_counts_in_a_window_of_a_minute(site: Site) -> None:
    site.clock.advance(50)
    await site.add(*"abcdef")
    await site.run(6)
    site.clock.advance(12)
    assert await ended_per_s(site, MINUTE_S) == pytest.approx(6 / 62), "since the start of the minute"


@pytest.mark.parametrize("window_s", [60, 3600, 6 * 3600, 7 * 3600, 86_400])
async def test_a_window_has_all_that_ended_in_it_and_nothing_from_before(site: Site, window_s: int) -> None:
    site.clock.advance(37 * MINUTE_S + 10)
    await site.add(*"abcdef")
    await site.run(2)
    site.clock.advance(MINUTE_S)
    await site.run(3)
    site.clock.advance(window_s - 1)
    await site.run(1)
    assert await ended_per_s(site, window_s) == pytest.approx(4 / (window_s + 9))
