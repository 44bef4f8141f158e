"""Tenants' bytes as text that does nothing."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functory.web.pages.inert_text import MAX_LINE_CHARS, MAX_LINES, has_turning, line, show


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        ("naïve 日本".encode(), "naïve 日本"),
        (b"a\r\nb\tc", "a\nb\tc"),
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]8;;http://evil\x07link\x1b]8;;\x07", "link"),
        (b"\x1b(Bx\x1bPq#0\x1b\\y", "xy"),
        (b"a\x00b\x08c\x7f", "a␀b␈c␡"),
        ("a\u202eb\u2066c\u200f".encode(), "a⟨U+202E⟩b⟨U+2066⟩c⟨U+200F⟩"),
        ("a\x85b\u2028c".encode(), "a⟨U+0085⟩b⟨U+2028⟩c"),
        ("a\u200bb\ufeffc\u00add".encode(), "a⟨U+200B⟩b⟨U+FEFF⟩c⟨U+00AD⟩d"),
        ("a\u2060\u3164\U000e0041".encode(), "a⟨U+2060⟩⟨U+3164⟩⟨U+E0041⟩"),
        ("pass\u200dword\ufe0f".encode(), "pass⟨U+200D⟩word⟨U+FE0F⟩"),
        ("\u200b\u200cx".encode(), "⟨U+200B⟩⟨U+200C⟩x"),
        ("pass\u200d\u200d\u200c\u200dword".encode(), "pass⟨U+200D⟩⟨U+200D⟩⟨U+200C⟩⟨U+200D⟩word"),
        ("a\ufe0f\u200b\ufe0f\u115fb".encode(), "a⟨U+FE0F⟩⟨U+200B⟩⟨U+FE0F⟩⟨U+115F⟩b"),
        ("\U0001f3f4\U000e0067\U000e0062".encode(), "\U0001f3f4⟨U+E0067⟩⟨U+E0062⟩"),
        ("a\U000e0067\U000e0062\U000e0065\U000e007f".encode(), "a⟨U+E0067⟩⟨U+E0062⟩⟨U+E0065⟩⟨U+E007F⟩"),
    ],
)
def test_what_could_do_something_is_left_out_or_spelled(data: bytes, text: str) -> None:
    assert show(data).text == text


@pytest.mark.parametrize(
    "text",
    [
        "\u2764\ufe0f\u200d\U0001f525",
        "1\ufe0f\u20e3",
        "\u0645\u06cc\u200c\u062e",
        "a\u00a0b",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
    ],
)
def test_emoji_and_other_scripts_stay_as_they_are(text: str) -> None:
    assert show(text.encode()).text == text


def test_what_is_no_text_is_shown_in_hex() -> None:
    shown = show(b"\xff\x00<script>abcdefgh")
    assert shown.is_hex
    assert shown.text.splitlines()[0] == "000000  ff 00 3c 73 63 72 69 70 74 3e 61 62 63 64 65 66  ..<script>abcdef"


def test_long_lines_many_lines_and_many_bytes_are_cut_and_said_so() -> None:
    shown = show(b"x" * (MAX_LINE_CHARS + 5))
    assert shown.text.endswith("… 5 more characters")
    shown = show(b"\n" * (MAX_LINES + 7))
    assert shown.text.endswith("… 8 more lines")
    log = show(b"\n".join(b"%d" % number for number in range(MAX_LINES + 7)), is_log=True)
    assert log.text.startswith("… 7 earlier lines\n7\n8\n")
    assert log.text.endswith(f"\n{MAX_LINES + 6}"), "how it ended"
    for size in range(65_530, 65_545):
        shown = show("é".encode() * size)
        assert not shown.is_hex, "a cut through a character does not make it binary"
        assert shown.is_cut


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "replace")))
def test_whatever_comes_nothing_is_left_that_acts(data: bytes) -> None:
    text = show(data).text
    assert not has_turning(text)
    acting = [char for char in text if unicodedata.category(char) == "Cc" and char not in "\n\t"]
    assert acting == []


@given(st.text(max_size=500))
def test_a_line_is_one_line(text: str) -> None:
    assert "\n" not in line(text)
    assert len(line(text, 50)) <= 50 or has_turning(text)
