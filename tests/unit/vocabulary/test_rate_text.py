"""Rates are shown as people said them, and what is shown can be given again."""

import pytest

from vocabulary.rate_text import parse_rate, rate_text


@pytest.mark.parametrize("text", ["5/s", "2.5/s", "10/m", "100/m", "1000/h", "7000/d", "1/d", "123456/s", "1234567/s"])
def test_a_rate_is_shown_as_it_was_given(text: str) -> None:
    assert rate_text(parse_rate(text)) == text


@pytest.mark.parametrize("rate_per_s", [0.000001, 1 / 7, 0.4, 1000000.0, 3.14159265])
def test_what_is_shown_can_be_given_again(rate_per_s: float) -> None:
    assert parse_rate(rate_text(rate_per_s)) == pytest.approx(rate_per_s, rel=1e-5)


@pytest.mark.parametrize("text", ["", "5/", "/m", "10/M", "1/60s", "1,000/h", "ten"])
def test_what_is_no_rate_is_told_so(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rate"):
        parse_rate(text)
