"""What a large JSON text holds is bounded before it is built.

Most of what a body holds costs little: payloads stay the text that they are, and texts are copied. A number can be
dear: the decoder takes some 25 microseconds for 1e300 or 1e-310, a thousand times as long as for others. And what is
untyped can be half a million values. So a large text is taken apart into the texts of its fields first, in which a
field that is given again and again counts once. Then each field that has numbers is looked at by its size.

Ensures: of a text of any size, the decoder builds numbers from a few tens of kilobytes at most.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Final

import msgspec
from msgspec import inspect

from functory.errors import InvalidInput, RequestTooLarge

SMALL_BYTES: Final = 2 * 1024
"""A text up to this size is decoded as it is."""
MOST_FIELD_BYTES: Final = 32 * 1024
"""Of a field that is an object or a list, and has numbers in it: twice what `options` may have without blanks."""
MOST_ITEMS: Final = 10_000
"""Of a list that states no limit itself."""
_NUMBER: Final = re.compile(rb"-?[0-9.]{1,40}(?:[eE][+-]?[0-9]{1,2})?")
"""No field takes a number that is longer, or that has an exponent of three digits."""
_NUMBER_BEGINS: Final = b"-0123456789"
_NESTED_BEGINS: Final = b"{["
_ITEMS: Final = msgspec.json.Decoder(list[msgspec.Raw])


@cache
def fields_of(kind: Hashable) -> "Fields | None":
    """How texts of this type are taken apart. None if it is not a struct."""
    return Fields(kind) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None


class Fields:
    """The fields of one struct."""

    def __init__(self, kind: type[msgspec.Struct], most_bytes: Mapping[str, int] | None = None) -> None:
        """most_bytes: of fields that are bounded otherwise than by MOST_FIELD_BYTES."""
        self.kind = kind
        info = inspect.type_info(kind)
        assert isinstance(info, inspect.StructType)
        names = {field.encode_name: field.name for field in info.fields}
        texts = msgspec.defstruct(
            f"{kind.__name__}Texts",
            [(field.name, msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for field in info.fields],
            rename=dict(zip(names.values(), names, strict=True)),
            forbid_unknown_fields=info.forbid_unknown_fields,
        )
        self._texts: msgspec.json.Decoder[msgspec.Struct] = msgspec.json.Decoder(texts)
        self._names = names
        self._checks: dict[str, Callable[[str, bytes], bytes]] = {}
        most = most_bytes or {}
        self._raw = {field.encode_name for field in info.fields if _is_raw(field.type)}
        for field in info.fields:
            name, structs = field.encode_name, _structs_in(field.type)
            if structs is not None:
                self._checks[name] = structs.checked
            elif name in most or _has_numbers(field.type):
                self._checks[name] = partial(_checked, most_bytes=most.get(name, MOST_FIELD_BYTES))

    def decode(self, decoder: "msgspec.json.Decoder[Any]", text: bytes) -> Any:
        """As the decoder does. Raises what it raises, InvalidInput and RequestTooLarge."""
        raw = dict[str, msgspec.Raw]()
        found = decoder.decode(self._joined(self._taken_apart(text, raw)))
        for name, value in raw.items():
            setattr(found, self._names[name], value)
        return found

    def once(self, text: bytes, place: str) -> bytes:
        """The same object, with each field once."""
        return self._joined(self._taken_apart(text, None, place))

    def _taken_apart(
        self, text: bytes | msgspec.Raw, raw: dict[str, msgspec.Raw] | None, place: str = ""
    ) -> Iterator[tuple[str, bytes | msgspec.Raw]]:
        """The fields with their texts. Those that stay texts go to `raw`, with something small in their place."""
        try:
            texts = self._texts.decode(text)
        except msgspec.ValidationError as error:
            if place:
                raise msgspec.ValidationError(f"{error} - at `$.{place}`") from None
            raise
        for name, attribute in self._names.items():
            value = getattr(texts, attribute)
            if value is msgspec.UNSET:
                continue
            if raw is not None and name in self._raw:
                raw[name] = value
                value = b"0"
            check = self._checks.get(name)
            yield name, value if check is None else check(f"{place}.{name}" if place else name, bytes(value))

    @staticmethod
    def _joined(fields: Iterator[tuple[str, bytes | msgspec.Raw]]) -> bytes:
        return b"{" + b",".join([b'"%b":%b' % (name.encode(), text) for name, text in fields]) + b"}"


class _Structs:
    """A field that is a struct with numbers, or a list of them."""

    def __init__(self, fields: Fields, most: int | None = None) -> None:
        self._fields = fields
        self._most = most

    def checked(self, name: str, text: bytes) -> bytes:
        if text[:1] != b"[":
            return self._one(name, text)
        items = _ITEMS.decode(text)
        if self._most is not None and len(items) > self._most:
            raise msgspec.ValidationError(f"Expected `array` of length <= {self._most} - at `$.{name}`")
        if len(items) > MOST_ITEMS:
            raise _too_large(f"{name} has {len(items)} entries, at most {MOST_ITEMS} are taken")
        return b"[" + b",".join([self._one(f"{name}[{at}]", bytes(item)) for at, item in enumerate(items)]) + b"]"

    def _one(self, name: str, text: bytes) -> bytes:
        return self._fields.once(text, name) if text[:1] == b"{" else _checked(name, text)


def _checked(name: str, text: bytes, most_bytes: int = MOST_FIELD_BYTES) -> bytes:
    """Of a field with numbers: it is one, or a few."""
    first = text[:1]
    if first in _NUMBER_BEGINS and _NUMBER.fullmatch(text) is None:
        shown = text[:40].decode("ascii", "replace")
        raise InvalidInput(f"{name} {shown} is too long for a number, or far out of range", detail={"field": name})
    if first in _NESTED_BEGINS and len(text) > most_bytes:
        raise _too_large(f"{name} has {len(text)} bytes, at most {most_bytes} are taken")
    return text


def _too_large(text: str) -> RequestTooLarge:
    return RequestTooLarge(text, detail={"limit": "json_values"})


def _structs_in(kind: inspect.Type) -> _Structs | None:
    for it in _choices(kind):
        most = it.max_length if isinstance(it, inspect.ListType) else None
        for item in _choices(it.item_type) if isinstance(it, inspect.ListType) else (it,):
            if isinstance(item, inspect.StructType) and _has_numbers(item):
                return _Structs(Fields(item.cls), most)
    return None


def _is_raw(kind: inspect.Type) -> bool:
    return any(isinstance(it, inspect.RawType) for it in _choices(kind))


def _has_numbers(kind: inspect.Type) -> bool:
    return any(isinstance(it, inspect.AnyType | inspect.FloatType | inspect.IntType) for it in _all_in(kind))


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
