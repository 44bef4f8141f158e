"""What is wrong with a body is told without reading all of what was sent."""

import difflib
import importlib
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Annotated, Any, get_args

import msgspec
import pytest

import functory.wire
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


def test_each_form_of_the_wire_has_words() -> None:
    patterns = {pattern for module in _wire_modules() for kind in vars(module).values() for pattern in _patterns(kind)}
    assert len(patterns) >= 6
    for pattern in sorted(patterns):
        with pytest.raises(msgspec.ValidationError) as caught:
            msgspec.convert("\n", Annotated[str, msgspec.Meta(pattern=pattern)])
        said = str(validation_words.refusal(caught.value, str, "body"))
        assert "matches" not in said, f"{pattern} has no words"


def _wire_modules() -> list[ModuleType]:
    found = pkgutil.iter_modules(functory.wire.__path__, "functory.wire.")
    return [importlib.import_module(each.name) for each in found]


def _patterns(kind: Any) -> Iterator[str]:
    """Of a type with a form, and of the fields of a struct."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            yield from _patterns(field.type)
    for inner in get_args(kind):
        if isinstance(inner, msgspec.Meta):
            yield from [inner.pattern] if inner.pattern else []
        else:
            yield from _patterns(inner)


def _refused(body: dict[str, Any]) -> Any:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert(body, AddQuery)
    return validation_words.refusal(caught.value, AddQuery, "body")
