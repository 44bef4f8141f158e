"""Times as text, and back."""

import pytest

from vocabulary.time_text import MAX_TIME_MS, compact_time, iso_time, parse_rfc3339, parse_time

TIMES = [(0, "1970-01-01T00:00:00.000Z"), (1_794_700_799_123, "2026-11-14T23:59:59.123Z")]


@pytest.mark.parametrize(("time_ms", "text"), [*TIMES, (MAX_TIME_MS, "9999-12-31T23:59:59.999Z")])
def test_a_time_comes_back_from_its_text(time_ms: int, text: str) -> None:
    assert iso_time(time_ms) == text
    assert parse_rfc3339(text) == time_ms
    assert compact_time(time_ms) == text.translate({ord(sign): None for sign in "-:."})


def test_another_offset_is_the_same_time() -> None:
    assert parse_rfc3339("2026-11-15T01:59:59.123+02:00") == 1_794_700_799_123


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-14", "2026-11-14T23:59:59", "2026-13-14T23:59:59Z"])
def test_what_is_not_a_time_with_an_offset_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_rfc3339(text)


@pytest.mark.parametrize(
    "text",
    [
        "1794700799000",
        "2026-11-14 23:59:59",
        "2026-11-14 23:59:59 UTC",
        "2026-11-14T23:59:59Z",
        "2026-11-15T01:59:59+02:00",
    ],
)
def test_a_time_is_read_in_each_of_its_forms(text: str) -> None:
    assert parse_time(text) == 1_794_700_799_000


@pytest.mark.parametrize("text", ["", "-1", "1.5", "²", "9" * 5000, "2026-02-30", "2026-11-14T23:59:59", "9 UTC"])
def test_what_is_in_no_form_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_time(text)
