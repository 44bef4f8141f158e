"""Patterns of names mean what SQLite's GLOB means, and cost no more than they must."""

import sqlite3
import time

from hypothesis import given
from hypothesis import strategies as st

from vocabulary.glob import glob_matches

DB = sqlite3.connect(":memory:")
PATTERNS = st.text(alphabet="ab-]^[*?c", max_size=12)
TEXTS = st.text(alphabet="abc-]^[", max_size=8)


@given(PATTERNS, TEXTS)
def test_it_is_sqlites(pattern: str, text: str) -> None:
    (expected,) = DB.execute("SELECT ? GLOB ?", (text, pattern)).fetchone()
    assert glob_matches(pattern, text) == bool(expected)


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
            glob_matches(pattern, text)
        rounds.append(time.process_time() - start)
    return min(rounds)


def test_case_counts() -> None:
    assert glob_matches("mail*", "mail.send")
    assert not glob_matches("mail*", "Mail.send")
