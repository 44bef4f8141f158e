"""What is wrong with a query or a body, in the words of the interface: the field first, then what it must be.

The library that validates names its own types and paths (`Expected int, got str - at $.limit`). Callers read about the
field that they sent, and `detail.field` has its name. A message that is not known here is passed on as it is.
"""

import difflib
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

import msgspec
from msgspec import inspect

from functory.errors import InvalidInput
from functory.wire.base import whole
from functory.wire.jobs import CODE_NAMES, ENDINGS, STATE_NAMES, STATES
from vocabulary.names import JOB_ID, TENANT, TYPE

_AT: Final = re.compile(r"^(.*?)(?: - at `(?:key in )?\$(.*)`)?$", re.DOTALL)
_MOST_CHARACTERS: Final = 2000
"""Of a message that is read. It may quote what was sent, of any size; the place is at its end."""
_MOST_GUESSED: Final = 64
"""Longer names are nobody's slip of the pen, and to compare them takes long."""
_KINDS: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_FORMS: Final = {
    whole(TYPE): "a letter or digit, then up to 126 letters, digits or _ . : -",
    whole(TENANT): "a lower-case letter or digit, then up to 31 lower-case letters, digits or _",
    whole(JOB_ID): "a letter or digit, then up to 63 letters, digits, _ or -",
    whole(STATES): f"one of {', '.join(STATE_NAMES)}, or several separated by commas",
    whole(ENDINGS): f"one of {', '.join(CODE_NAMES)}, or several separated by commas",
    whole(r"[^\x00-\x1f\x7f]+"): "text without control characters",
    whole("[ -~]*"): "printable ASCII",
    whole("[A-Za-z0-9_-]+"): "letters, digits, _ or -",
    whole("[A-Za-z0-9_-]*"): "letters, digits, _ or -",
    whole("[A-Za-z_][A-Za-z0-9_]{0,127}"): "letters, digits and _, without a digit at the start",
}
"""Patterns of the wire types, in words."""


def refusal(error: msgspec.ValidationError, kind: Any, where: str, whole: str = "") -> InvalidInput:
    """The error to raise. kind is the type that was expected of the whole, where is `query` or `body`. whole: what to
    call it, if it is not all of that."""
    said = _shortened(str(error))
    found = _AT.fullmatch(said)
    text, path = (found[1], found[2] or "") if found else (said, "")
    field, words = _say(text, path, kind, where)
    message = f"{field} {words}" if field else f"{whole or f'the {where}'} {words}"
    return InvalidInput(message, detail={"in": where, **({"field": field} if field else {})})


def _shortened(text: str) -> str:
    half = _MOST_CHARACTERS // 2
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:half]}…{text[-half:]}"


def _say(text: str, path: str, kind: Any, where: str) -> tuple[str, str]:
    """(field, what is wrong with it)."""
    field = path.removeprefix(".").replace("[...]", "")
    for pattern, make in _RULES:
        found = pattern.fullmatch(text)
        if found is not None:
            name, words = make(found, _Place(kind, path, where))
            return ".".join(part for part in (field, name) if part), words
    return field, f"is not valid: {text}"


class _Place:
    """Where in the expected type the trouble is."""

    def __init__(self, kind: Any, path: str, where: str) -> None:
        self.where = where
        self._kind = kind
        self._path = path

    def types(self) -> Iterator[inspect.Type]:
        """The types that are expected at the place: more than one if any of several will do."""
        found = list(_choices(inspect.type_info(self._kind)))
        for name in re.findall(r"\w+", re.sub(r"\[[^]]*\]", "", self._path)):
            found = [inner for it in found for inner in _inside(it, name)]
        yield from found

    def fields(self) -> list[str]:
        structs = [it for it in self.types() if isinstance(it, inspect.StructType)]
        return [field.encode_name for it in structs for field in it.fields]

    def values(self) -> list[object]:
        found = [value for it in self.types() if isinstance(it, inspect.LiteralType) for value in it.values]
        return list(dict.fromkeys(found))


def _choices(kind: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        yield from _choices(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for choice in kind.types:
            yield from _choices(choice)
    elif isinstance(kind, inspect.ListType):
        yield from _choices(kind.item_type)
    else:
        yield kind


def _inside(kind: inspect.Type, name: str) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.StructType):
        for field in kind.fields:
            if field.encode_name == name:
                yield from _choices(field.type)


def _unknown(found: "re.Match[str]", place: _Place) -> tuple[str, str]:
    what = "a query option" if place.where == "query" else "a field"
    close = difflib.get_close_matches(found[1], place.fields(), n=1) if len(found[1]) <= _MOST_GUESSED else []
    hint = f"; did you mean {close[0]}?" if close else f"; known: {', '.join(place.fields()) or 'none'}"
    return found[1][:64], f"is not {what} of this request{hint}"


def _kind_words(text: str) -> str:
    kinds = text.split(" | ")
    names = [name for name in kinds if name != "null" and (name, "float" in kinds) != ("int", True)]
    return " or ".join(_KINDS.get(name, name) for name in names)


def _got_words(expected: str, got: str) -> str:
    if got == "float" and "int" in expected.split(" | "):
        return "a decimal number"
    return _kind_words(got) or "null"


def _length(found: "re.Match[str]", _: _Place) -> tuple[str, str]:
    one, many = ("character", "characters") if found[1] == "str" else ("entry", "entries")
    bound, count = "at least" if found[2] == ">=" else "at most", int(found[3])
    return "", f"must have {bound} {count:,} {one if count == 1 else many}"


def _number(text: str) -> str:
    value = float(text)
    return f"{int(value):,}" if value.is_integer() else f"{Decimal(text):,f}"


_BOUNDS: Final = {">=": "at least", "<=": "at most", ">": "more than", "<": "less than"}
_Rule = tuple["re.Pattern[str]", Callable[["re.Match[str]", _Place], tuple[str, str]]]
_RULES: Final[tuple[_Rule, ...]] = (
    (re.compile(r"Object missing required field `(\w+)`"), lambda found, _: (found[1], "is required")),
    (re.compile(r"Object contains unknown field `(.*)`", re.DOTALL), _unknown),
    (re.compile(r"Expected `(\w+)` of length (>=|<=) (\d+)"), _length),
    (
        re.compile(r"Expected `\w+` (>=|<=|>|<) (\S+)"),
        lambda found, _: ("", f"must be {_BOUNDS[found[1]]} {_number(found[2])}"),
    ),
    (
        re.compile(r"Expected `str` matching regex (.*)", re.DOTALL),
        lambda found, _: ("", f"must be {_form(found[1])}"),
    ),
    (
        re.compile(r"Invalid enum value (.*)", re.DOTALL),
        lambda found, place: ("", f"must be one of {', '.join(map(str, place.values()))}, not {found[1][:64]}"),
    ),
    (
        re.compile(r"Expected `([^`]*)`, got `([^`]*)`"),
        lambda found, _: ("", f"must be {_kind_words(found[1])}, not {_got_words(found[1], found[2])}"),
    ),
)


def _form(shown: str) -> str:
    """The words for a pattern, which the library shows as a Python literal."""
    for pattern, words in _FORMS.items():
        if repr(pattern) == shown:
            return words
    return f"text that matches {shown}"
