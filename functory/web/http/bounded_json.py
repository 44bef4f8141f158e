"""What a large JSON text holds is bounded before it is built.

Most of what a body holds costs little: payloads stay the text that they are, and texts are copied. A number can be
dear: the decoder takes some 25 microseconds for 1e300 or 1e-310, a thousand times as long as for others. And what is
untyped can be half a million values. A text in which there can be neither is decoded as it is, and one look tells. Any
other large text is taken apart into the texts of its fields, in which a field that is given again and again counts
once. Each field that has numbers is looked at by its size, and what is left is put together and decoded.

Ensures: of a text of any size, the decoder builds untyped values and dear numbers from some tens of kilobytes at most,
in a list of objects from some hundreds. Long texts in it do not count.
"""

import re
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final

import msgspec
from msgspec import inspect

from functory.errors import InvalidInput, RequestTooLarge
from journal.errors import LimitExceeded

SMALL_BYTES: Final = 2 * 1024
"""A text up to this size is decoded as it is."""
MOST_FIELD_BYTES: Final = 32 * 1024
"""Of a field that is an object or a list, and has numbers in it: twice what `options` may have without blanks."""
MOST_LIST_BYTES: Final = 512 * 1024
"""Of all such fields in a list of objects, without what is inside of texts, and without blanks."""
_BLANKS: Final = b" \t\r\n"
MOST_ITEMS: Final = 1000
"""Of a list that states no limit itself."""
_MANY_BYTES: Final = 128 * 1024
_MOST_OBJECTS: Final = 4000
_MOST_FIELDS: Final = 20_000
"""A text that is longer, and may have more objects or fields, is taken apart: objects are counted before they are
built, and a field that is given again and again counts once."""
_DEAR: Final = re.compile(rb":\s*+[-0-9](?:[0-9.]{24}|[0-9.]*+[eE][+-]?+0*+[0-9]{2})")
"""May be in a string, too."""
_NUMBER: Final = re.compile(rb"-?[0-9.]{1,40}(?:[eE][+-]?[0-9]{1,2})?")
"""No field takes a number that is longer, or that has an exponent of three digits."""
_ANY_NUMBER: Final = re.compile(rb"[-+0-9.eE]{1,%d}" % SMALL_BYTES)
_NUMBER_BEGINS: Final = b"-0123456789"
_NESTED_BEGINS: Final = b"{["
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])


@cache
def fields_of(kind: Hashable) -> "Fields | None":
    """How texts of this type are taken apart. None if it is not a struct."""
    return Fields(kind) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None


class _Room:
    """For fields with numbers in the objects of a list."""

    def __init__(self) -> None:
        self._left = MOST_LIST_BYTES

    def take(self, text: bytes) -> None:
        self._left -= _bare_bytes(text)
        if self._left < 0:
            raise _too_large(
                f"fields such as options have more than {MOST_LIST_BYTES} bytes together beside their texts: "
                "split the body"
            )


def _bare_bytes(text: bytes) -> int:
    """The size without blanks, in which each text is an empty one. Not by a pattern, which would take a hundred times
    as long for long texts."""
    if rb"\"" in text:
        text = text.replace(rb"\\", b"").replace(rb"\"", b"")
    pieces = text.split(b'"')  # every second one is inside of a text
    return len(pieces) - 1 + len(b"".join(pieces[::2]).translate(None, _BLANKS))


_Pieces = list[bytes | msgspec.Raw]
_Check = Callable[[str, msgspec.Raw, _Pieces, _Room | None], None]
"""Of the field of this name: looks at its text, and adds it to the pieces."""


class Fields:
    """The fields of one struct."""

    def __init__(self, kind: type[msgspec.Struct], most_bytes: Mapping[str, int] | None = None) -> None:
        """most_bytes: of fields that are bounded otherwise than by MOST_FIELD_BYTES. If it is given, the decoder takes
        anything as any field, and others look at it later."""
        self.kind = kind
        info = inspect.type_info(kind)
        assert isinstance(info, inspect.StructType)
        is_loose = most_bytes is not None
        names = {field.encode_name: field.name for field in info.fields}
        texts = msgspec.defstruct(
            f"{kind.__name__}Texts",
            [(field.name, msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for field in info.fields],
            rename=dict(zip(names.values(), names, strict=True)),
            forbid_unknown_fields=info.forbid_unknown_fields,
        )
        self._texts: msgspec.json.Decoder[msgspec.Struct] = msgspec.json.Decoder(texts)
        self._names = names
        self._most_cheap_bytes = -1 if is_loose else MOST_FIELD_BYTES if _is_untyped(info) else sys.maxsize
        self._checks: dict[str, _Check] = {}
        most = most_bytes or {}
        self._raw = {field.encode_name for field in info.fields if _is_raw(field.type)}
        for field in info.fields:
            name, structs = field.encode_name, _structs_in(field.type)
            if structs is not None:
                self._checks[name] = structs.check
            elif is_loose or _has_numbers(field.type):
                most_here = most.get(name, MOST_FIELD_BYTES)
                number = _ANY_NUMBER if is_loose else _NUMBER
                self._checks[name] = partial(_check, most_bytes=most_here, number=number)

    def decode(self, decoder: "msgspec.json.Decoder[Any]", text: bytes) -> Any:
        """As the decoder does. Raises what it raises, InvalidInput, RequestTooLarge and LimitExceeded."""
        if len(text) <= self._most_cheap_bytes and not _may_be_dear(text):
            return decoder.decode(text)
        raw: dict[str, msgspec.Raw] = {}
        pieces: _Pieces = []
        self.take_apart(text, pieces, None, raw=raw)
        found = decoder.decode(b"".join(pieces))
        for name, value in raw.items():
            setattr(found, self._names[name], value)
        return found

    def take_apart(
        self,
        text: bytes | msgspec.Raw,
        pieces: _Pieces,
        room: _Room | None,
        place: str = "",
        raw: dict[str, msgspec.Raw] | None = None,
    ) -> None:
        """Add the same object, with each field once. Those that stay texts go to `raw`, with something small in their
        place."""
        try:
            texts = self._texts.decode(text)
        except msgspec.ValidationError as error:
            if place:
                raise msgspec.ValidationError(f"{error} - at `$.{place}`") from None
            raise
        before = b"{"
        for name, attribute in self._names.items():
            value = getattr(texts, attribute)
            if value is msgspec.UNSET:
                continue
            pieces.append(b'%b"%b":' % (before, name.encode()))
            before = b","
            if raw is not None and name in self._raw:
                raw[name] = value
                pieces.append(b"0")
            elif (check := self._checks.get(name)) is not None:
                check(f"{place}.{name}" if place else name, value, pieces, room)
            else:
                pieces.append(value)
        pieces.append(b"}" if before == b"," else b"{}")


class _Structs:
    """A field that is a struct with numbers, or a list of them."""

    def __init__(self, fields: Fields, most: int | None = None, limit: tuple[str, str] | None = None) -> None:
        """limit: what is counted, and the name of the limit that others know."""
        self._fields = fields
        self._most = most
        self._limit = limit

    def check(self, name: str, text: msgspec.Raw, pieces: _Pieces, room: _Room | None) -> None:
        if _first(text) != b"[":
            self._check_one(name, text, pieces, room)
            return
        items = _ITEMS.decode(text)
        if self._most is not None and len(items) > self._most:
            raise msgspec.ValidationError(f"Expected `array` of length <= {self._most} - at `$.{name}`")
        if self._limit is not None and len(items) > MOST_ITEMS:
            raise LimitExceeded(self._limit[0], len(items), self._limit[1], MOST_ITEMS)
        if len(items) > MOST_ITEMS:
            raise _too_large(f"{name} has {len(items)} entries, at most {MOST_ITEMS} are taken")
        room = room or _Room()
        before = b"["
        for at, item in enumerate(items):
            pieces.append(before)
            before = b","
            self._check_one(f"{name}[{at}]", item, pieces, room)
        pieces.append(b"]" if items else b"[]")

    def _check_one(self, name: str, text: msgspec.Raw, pieces: _Pieces, room: _Room | None) -> None:
        if _first(text) == b"{":
            self._fields.take_apart(text, pieces, room, name)
        else:
            _check(name, text, pieces, room)


def _check(
    name: str,
    text: msgspec.Raw,
    pieces: _Pieces,
    room: _Room | None,
    *,
    most_bytes: int = MOST_FIELD_BYTES,
    number: re.Pattern[bytes] = _NUMBER,
) -> None:
    """Of a field with numbers: it is one, or a few."""
    first, size_bytes = _first(text), len(memoryview(text))
    if first in _NUMBER_BEGINS and number.fullmatch(text) is None:
        shown = bytes(memoryview(text)[:40]).decode("ascii", "replace")
        raise InvalidInput(
            f"{name} {shown} is too long for a number, or far out of range", detail={"in": "body", "field": name}
        )
    if first in _NESTED_BEGINS:
        if size_bytes > most_bytes:
            raise _too_large(f"{name} has {size_bytes} bytes, at most {most_bytes} are taken")
        if room is not None:
            room.take(bytes(text))
    pieces.append(text)


def _first(text: msgspec.Raw) -> bytes:
    return bytes(memoryview(text)[:1])


def _may_be_dear(text: bytes) -> bool:
    if len(text) > _MANY_BYTES and (_has_many(text, b"{", _MOST_OBJECTS) or _has_many(text, b":", _MOST_FIELDS)):
        return True
    return _DEAR.search(text) is not None


def _has_many(text: bytes, mark: bytes, most: int) -> bool:
    """Looks no further than it has to: to count all of them would take longer than to decode a text of few."""
    at = -1
    for _ in range(most):
        at = text.find(mark, at + 1)
        if at < 0:
            return False
    return True


def _too_large(text: str) -> RequestTooLarge:
    return RequestTooLarge(text, detail={"limit": "json_values"})


def _structs_in(kind: inspect.Type) -> _Structs | None:
    limit = (kind.extra or {}).get("limit") if isinstance(kind, inspect.Metadata) else None
    for it in _choices(kind):
        most = it.max_length if isinstance(it, inspect.ListType) else None
        for item in _choices(it.item_type) if isinstance(it, inspect.ListType) else (it,):
            if isinstance(item, inspect.StructType) and _has_numbers(item):
                return _Structs(Fields(item.cls), most, limit)
    return None


def _is_raw(kind: inspect.Type) -> bool:
    return any(isinstance(it, inspect.RawType) for it in _choices(kind))


def _has_numbers(kind: inspect.Type) -> bool:
    return any(isinstance(it, inspect.AnyType | inspect.FloatType | inspect.IntType) for it in _all_in(kind))


def _is_untyped(kind: inspect.Type) -> bool:
    """Whether there can be many values without a field of their own."""
    lists = [it for it in _all_in(kind) if isinstance(it, inspect.ListType)]
    of_numbers = [item for it in lists for item in _choices(it.item_type) if isinstance(item, inspect.FloatType)]
    return bool(of_numbers) or any(isinstance(it, inspect.AnyType | inspect.DictType) for it in _all_in(kind))


def _choices(kind: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(kind, inspect.Metadata):
        yield from _choices(kind.type)
    elif isinstance(kind, inspect.UnionType):
        for choice in kind.types:
            yield from _choices(choice)
    else:
        yield kind


def _all_in(kind: inspect.Type) -> Iterator[inspect.Type]:
    """The type and all that it is made of."""
    for it in _choices(kind):
        yield it
        if isinstance(it, inspect.ListType):
            yield from _all_in(it.item_type)
        elif isinstance(it, inspect.DictType):
            yield from _all_in(it.value_type)
        elif isinstance(it, inspect.StructType):
            for field in it.fields:
                yield from _all_in(field.type)
