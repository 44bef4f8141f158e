"""Patterns of names mean what SQLite's GLOB means, and cost no more than they must."""

import sqlite3
import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vocabulary import glob
from vocabulary.glob import MOST_CHARS, PatternTooLong, glob_matcher, is_closed

DB = sqlite3.connect(":memory:")
PATTERNS = st.text(alphabet="ab-]^[*?c", max_size=12)
TEXTS = st.text(alphabet="abc-]^[", max_size=8)


@given(PATTERNS, TEXTS)
def test_it_is_sqlites(pattern: str, text: str) -> None:
    (expected,) = DB.execute("SELECT ? GLOB ?", (text, pattern)).fetchone()
    assert glob_matcher(pattern)(text) == bool(expected)


PARTS = st.sampled_from(["*", "**", "***", "?", "a", "b", "ab", "aab", "[ab]", "[^a]", "[]]", "[a-"])


@given(st.lists(PARTS, max_size=14).map("".join), st.text(alphabet="ab]", max_size=16))
def test_it_is_sqlites_with_many_stars(pattern: str, text: str) -> None:
    (expected,) = DB.execute("SELECT ? GLOB ?", (text, pattern)).fetchone()
    assert glob_matcher(pattern)(text) == bool(expected)


def test_a_pattern_has_a_longest_length_for_all_who_use_it() -> None:
    longest = "*" * MOST_CHARS
    assert glob_matcher(longest)("mail.send")
    for use in (glob_matcher, is_closed):
        with pytest.raises(PatternTooLong, match="at most 255 characters, and this one has 256"):
            use(longest + "*")


@pytest.mark.parametrize(
    ("pattern", "text", "looks"),
    [
        ("*" * 200, "mail.send", 0),  # stars that follow each other are one
        ("*[a]" + "*" * 200, "mail.send", 1),
        ("*a*b*c*d*", "axxx", 2),  # nothing is looked for after the first miss
        ("*[ab]*[c]*[d]*[e]*", "axxx", 2),
        ("*a*b*c*d*", "abc", 0),  # too short
        ("b*a*b*c*d*", "aabcd", 0),  # its beginning is another
        ("*a*b*c*d*x", "abcde", 0),  # its end is another
    ],
)
def test_no_more_is_looked_for_than_must_be(
    pattern: str, text: str, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = 0

    def counting(find: Callable[..., int]) -> Callable[..., int]:
        def look(*args: object) -> int:
            nonlocal made
            made += 1
            return find(*args)

        return look

    for kind in (glob._Plain, glob._Special):
        monkeypatch.setattr(kind, "end_in", counting(kind.end_in))
    glob_matcher(pattern)(text)
    assert made == looks


def test_a_pattern_made_to_take_for_ever_does_not() -> None:
    plain_s = took_s("mail*", "mail.send")
    for pattern in ("*a" * 63, "*" + "a" * 60 + "b", "*" + "[a-z]" * 24 + "-", "?*" * 63):
        assert took_s(pattern, "a" * 126 + "c") < plain_s * 500, pattern


def took_s(pattern: str, text: str) -> float:
    """Processor time of the quickest of a few rounds: nothing that others do counts."""
    rounds: list[float] = []
    for _ in range(5):
        start = time.process_time()
        for _ in range(200):
            glob_matcher(pattern)(text)
        rounds.append(time.process_time() - start)
    return min(rounds)


@pytest.mark.parametrize(("pattern", "text"), [("*ab*ba", "xaba"), ("*[a]b*b[a]", "xaba"), ("a*ab*b", "aaxb")])
def test_parts_do_not_overlap(pattern: str, text: str) -> None:
    assert DB.execute("SELECT ? GLOB ?", (text, pattern)).fetchone() == (0,)
    assert not glob_matcher(pattern)(text)


def test_case_counts() -> None:
    assert glob_matcher("mail*")("mail.send")
    assert not glob_matcher("mail*")("Mail.send")
