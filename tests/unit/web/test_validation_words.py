"""What is wrong with a body is told without reading all of what was sent."""

import difflib
import re
from typing import Any

import msgspec
import pytest

from functory.web.http import validation_words
from functory.wire.jobs import AddQuery


def test_a_name_that_nobody_meant_is_compared_with_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def compare(*_: Any, **__: Any) -> list[str]:
        raise AssertionError("a long name is compared")

    monkeypatch.setattr(difflib, "get_close_matches", compare)
    refused = _refused({"ab" * 1_000_000: 1})
    assert refused.detail["field"] == "ab" * 32
    assert "is not a field of this request; known: " in str(refused)


def test_of_a_long_message_only_both_ends_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    class Counting:
        def fullmatch(self, text: str) -> re.Match[str] | None:
            read.append(len(text))
            return pattern.fullmatch(text)

    pattern = validation_words._AT
    monkeypatch.setattr(validation_words, "_AT", Counting())
    refused = _refused({"priority": "x" * 1_000_000})
    assert refused.detail["field"] == "priority"
    assert max(read) < 3000


def _refused(body: dict[str, Any]) -> Any:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(body, AddQuery)
    return validation_words.refusal(caught.value, AddQuery, "body")
