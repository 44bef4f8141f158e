"""The pace of a worker: jobs in the last minute."""

from functory.workers.pace import Pace

MINUTE_MS = 60_000
T0 = 1_800_000_000_000 // MINUTE_MS * MINUTE_MS


def test_the_minute_before_fades_as_this_one_goes_on() -> None:
    pace = Pace()
    for _ in range(60):
        pace.add(1, T0)
    assert [pace.per_minute(T0 + at_ms) for at_ms in (0, MINUTE_MS, 3 * MINUTE_MS // 2)] == [60, 60, 30]


def test_a_steady_pace_is_shown_as_it_is() -> None:
    pace = Pace()
    shown = []
    for second in range(600):
        pace.add(1, T0 + 1000 * second)
        shown.append(pace.per_minute(T0 + 1000 * second))
    assert {round(each) for each in shown[60:]} <= {60, 61}


def test_after_a_pause_nothing_is_left_of_it() -> None:
    pace = Pace()
    pace.add(1, T0)
    assert pace.per_minute(T0 + 2 * MINUTE_MS) == 0
    pace.add(1, T0 - 5 * MINUTE_MS)  # the clock was set back
    assert pace.per_minute(T0 - 5 * MINUTE_MS) == 1
