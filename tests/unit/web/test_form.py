"""Forms are read as urllib reads them, in bounded work."""

from urllib.parse import parse_qsl, urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from functory.web.http.form import parse_form

PIECES = st.sampled_from(
    [b"a", b"=", b"&", b"+", b"%", b"%4", b"%41", b"%2B", b"%c3%A9", b"\\", b"\\x41", b"\n", b"%5c"]
)


@example(b"%aa")
@given(st.lists(PIECES, max_size=30).map(b"".join))
def test_what_is_sent_is_read_as_urllib_reads_it(data: bytes) -> None:
    try:
        expected = parse_qsl(data.decode(), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:  # "%", "a" and "a" make a byte that is no text
        with pytest.raises(ValueError, match="utf-8"):
            parse_form(data, 100)
    else:
        assert parse_form(data, 100) == expected


@given(st.dictionaries(st.text(), st.text(), max_size=5))
def test_what_was_encoded_comes_back(fields: dict[str, str]) -> None:
    text = {name: value for name, value in fields.items() if name.isprintable() and value.isprintable()}
    assert dict(parse_form(urlencode(text).encode(), 5)) == text


def test_text_that_is_not_encoded_is_read_as_it_stands() -> None:
    assert parse_form("é=ü%20ö".encode(), 5) == [("é", "ü ö")]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"a=1&b=2&c=3", "more than 2 fields"),
        (b"&" * 9, "more than 2 fields"),
        (b"a=%ff", "utf-8"),
        (b"a=\xff", "utf-8"),
        (b"a=" + b"%" * 2000, "percent signs"),
        (b"a=" + b"%\\" * 2000, "percent signs"),
        (b"a=" + b"%4" * 2000, "percent signs"),
    ],
)
def test_what_cannot_be_read_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_form(data, 2)


def test_a_few_percent_signs_stand_for_themselves() -> None:
    assert parse_form(b"a=100%&b=" + b"%" * 1000, 2) == [("a", "100%"), ("b", "%" * 1000)]
