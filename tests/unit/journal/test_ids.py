"""Ids: unique, increasing, and readable back."""

import pytest

from journal import InvalidWrite, parse_id
from journal.ids import IdSource, LateTexts, texts_of
from vocabulary.time_text import compact_time, iso_time

NOW_MS = 1_794_700_799_123


def test_the_first_field_is_the_time() -> None:
    assert IdSource("a7").take(1, NOW_MS).texts() == ["20261114T235959123Z-a7-000000"]
    assert compact_time(NOW_MS) == "20261114T235959123Z"
    assert iso_time(NOW_MS) == "2026-11-14T23:59:59.123Z"


def test_parsing_gives_back_time_sysid_and_counter() -> None:
    source = IdSource("zz9")
    source.take(10, NOW_MS)
    ids = source.take(9000, NOW_MS).texts()
    assert [parse_id(text) for text in ids] == [(NOW_MS, "zz9", 10 + n) for n in range(9000)]


@pytest.mark.parametrize(
    "text",
    ["", "20261114T235959123Z-a7-00001", "20261114T235959123Z-A7-00001f", "20261399T235959123Z-a7-00001f", "x\n"],
)
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"job id|month|day|range"):
        parse_id(text)


@pytest.mark.parametrize("sysid", ["", "a-b", "A", "waytoolong", "a|b", "é"])
def test_a_bad_sysid_is_refused(sysid: str) -> None:
    with pytest.raises(InvalidWrite, match="sysid"):
        IdSource(sysid)


def test_a_clock_that_steps_back_yields_no_smaller_id() -> None:
    source = IdSource("a")
    ids = [source.take(3, now).texts()[-1] for now in (NOW_MS, NOW_MS + 5, NOW_MS - 90_000, NOW_MS + 5, NOW_MS + 6)]
    assert ids == sorted(set(ids))


def test_a_full_counter_moves_on_to_the_next_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("journal.ids.COUNTER_LIMIT", 4096)
    source = IdSource("a")
    source.take(4095, NOW_MS)
    assert source.take(2, NOW_MS).texts() == ["20261114T235959124Z-a-000000", "20261114T235959124Z-a-000001"]
    assert source.time_ms == NOW_MS + 1


def test_the_floor_of_a_restart_is_never_reused() -> None:
    before = IdSource("a")
    used = before.take(10, NOW_MS).texts()
    after = IdSource("a", floor_ms=before.time_ms)
    assert after.take(1, NOW_MS - 1000).texts()[0] > used[-1]
    assert after.take(1, NOW_MS).texts()[0] > used[-1]


def test_the_texts_of_many_are_made_when_they_are_asked_for() -> None:
    source = IdSource("a7")
    source.take(4000, NOW_MS)
    ids = source.take(9000, NOW_MS)
    late, texts = texts_of(ids), ids.texts()
    assert isinstance(late, LateTexts)
    assert (len(late), [*late], late[:]) == (9000, texts, texts)
    assert [late[0], late[-1], late[100]] == [texts[0], texts[-1], texts[100]]
    assert late[90:200] == texts[90:200]
    assert late[8990:10_000] == texts[8990:]
    assert late[5:5] == []
    assert late[::-4000] == texts[::-4000]
    with pytest.raises(IndexError):
        late[9000]


async def test_texts_that_are_made_are_the_same() -> None:
    ids = IdSource("a7").take(9000, NOW_MS)
    assert await LateTexts(ids).made() == ids.texts()


def test_the_texts_of_few_are_there_at_once() -> None:
    ids = IdSource("a7").take(4096, NOW_MS)
    assert texts_of(ids) == ids.texts()
