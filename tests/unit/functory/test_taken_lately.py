"""The bytes of the last jobs that were taken, whatever was put together."""

from functory.intake.taken_lately import TakenLately


def test_the_last_jobs_count_and_older_ones_are_forgotten() -> None:
    taken = TakenLately()
    taken.add(2, 100)
    taken.add(0, 7)
    taken.add(3, 9)
    taken.add(-1, -3)
    assert taken.keep_last(4) == 59
    assert taken.keep_last(4) == 59
    assert taken.keep_last(3) == 9
    assert taken.keep_last(5) == 9
    assert taken.keep_last(0) == 0


def test_very_many_requests_take_little_room_and_lose_no_bytes() -> None:
    taken = TakenLately()
    for size_bytes in range(5001):
        taken.add(1, size_bytes)
    assert len(taken._parts) <= 1000
    assert taken.keep_last(5001) == sum(range(5001))
    assert abs(taken.keep_last(1000) - sum(range(4001, 5001))) < 50_000
