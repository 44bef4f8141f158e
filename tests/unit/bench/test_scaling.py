"""What is expected of many daemons is arithmetic on what one of them costs."""

import pytest

from bench.service.scaling import expected


def test_the_daemon_limits_small_handlers_and_its_two_cores_large_ones() -> None:
    nothing, one_ms, ten_ms, _ = expected({"daemon us/job": 200, "store us/job": 1000})
    assert nothing["1 daemon"] == pytest.approx(5000)
    assert nothing["cores of the store at 1"] == pytest.approx(5.0)
    assert one_ms["10 daemons"] == pytest.approx(20_000)
    assert ten_ms["100 daemons"] == pytest.approx(20_000)
    assert ten_ms["cores of the store at 100"] == pytest.approx(20.0)
