"""Numbers in words, and charts."""

import re

import pytest

from functory.web.pages import charts, number_text
from store.base import EndedSum
from store.values.scoreboard import MINUTE_MS

NOW = 1_800_000_030_000


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (number_text.count(999_999), "999,999"),
        (number_text.count(1_234_567), "1.23 M"),
        (number_text.count(12_345_678), "12 M"),
        (number_text.whole(12_345_678), "12,345,678"),
        (number_text.size(0), "0 B"),
        (number_text.size(1536), "1.5 KiB"),
        (number_text.size(5 << 30), "5.0 GiB"),
        (number_text.micros(None), "-"),
        (number_text.micros(640), "640 µs"),
        (number_text.micros(1500), "1.5 ms"),
        (number_text.micros(250_000), "250 ms"),
        (number_text.micros(4_200_000), "4.2 s"),
        (number_text.seconds(59.6), "60 s"),
        (number_text.seconds(200), "3 m 20 s"),
        (number_text.seconds(7200), "2 h"),
        (number_text.seconds(90_061), "1 d 1 h"),
        (number_text.ago(NOW, NOW), "now"),
        (number_text.ago(NOW - 5000, NOW), "5 s ago"),
        (number_text.ago(NOW + 61_000, NOW), "in 1 m 1 s"),
        (number_text.per_minute(0), "-"),
        (number_text.per_minute(0.4), "0.4/min"),
        (number_text.per_minute(42), "42/min"),
        (number_text.per_minute(6000), "100/s"),
        (number_text.percent(0.0004), "<0.1 %"),
        (number_text.percent(0.5), "50 %"),
        (number_text.iso(NOW), "2027-01-15T08:00:30.000Z"),
        (number_text.utc(NOW + 7), "2027-01-15 08:00:30.007 UTC"),
    ],
)
def test_numbers_in_words(shown: str, text: str) -> None:
    assert shown == text


def test_an_empty_chart_is_flat_and_says_so() -> None:
    assert "no runs" in charts.spark({}, NOW)
    assert "<path" not in charts.bars({}, NOW)
    assert charts.peak({}, NOW) == 0


def test_bars_stand_on_each_other_and_reach_the_top() -> None:
    minute = NOW // MINUTE_MS * MINUTE_MS
    ended = {
        minute: EndedSum(6, 3, 0, 0, 1, 0, 0),
        minute - 59 * MINUTE_MS: EndedSum(5, 0, 0, 0, 0, 0, 0),
        minute - 60 * MINUTE_MS: EndedSum(999, 0, 0, 0, 0, 0, 0),
    }
    drawn = charts.bars(ended, NOW)
    assert re.findall(r'class="c-(\w+)"', drawn) == ["ok", "failed", "abandoned"]
    assert 'd="M0 1000v-500h9v500zM590 1000v-600h9v600z"' in drawn, "oldest left, newest right"
    assert 'class="c-failed" d="M590 400v-300h9v300z"' in drawn
    assert "<title>08:00 UTC: 6 ok, 3 failed, 1 abandoned</title>" in drawn
    assert charts.total(ended, NOW) == EndedSum(11, 3, 0, 0, 1, 0, 0), "what is over an hour ago does not count"


def test_little_beside_much_is_still_seen() -> None:
    minute = NOW // MINUTE_MS * MINUTE_MS
    drawn = charts.spark({minute: EndedSum(1_000_000, 1, 0, 0, 0, 0, 0)}, NOW)
    assert re.search(r'class="c-failed" d="M116 \d+v-1h3v1z"', drawn)
