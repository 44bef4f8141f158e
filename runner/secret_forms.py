"""The forms that programs usually give to a value: itself, JSON, repr, URL, base64 in its three alignments, hex, and
the lines of a value with several. Hex and URLs are given in both letter cases, and the value in small letters too."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

MIN_CHARS: Final = 6
_MIN_LINE: Final = 8
_MIN_BASE64: Final = 7
_ESCAPE: Final = re.compile(rb"%[0-9A-F]{2}")


def forms_of(values: Iterable[str]) -> set[bytes]:
    """Without those under MIN_CHARS bytes."""
    return {form for value in values for form in _forms(value) if len(form) >= MIN_CHARS}


def _forms(value: str) -> Iterator[bytes]:
    if len(value) < MIN_CHARS:
        return
    data = value.encode("utf-8", "surrogateescape")
    yield data
    yield value.lower().encode("utf-8", "surrogateescape")  # as the name of a host is told
    yield repr(data)[2:-1].encode()
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value), ascii(value)):
        yield text[1:-1].encode("utf-8", "surrogateescape")
        yield text[1:-1].replace("/", "\\/").encode("utf-8", "surrogateescape")  # as php writes it
    for quoted in (quote(data, safe=""), quote(data), quote_plus(data)):
        yield quoted.encode()
        yield _ESCAPE.sub(lambda found: found[0].lower(), quoted.encode())
    yield data.hex().encode()
    yield data.hex().upper().encode()
    for offset in range(3):  # by what stands before it
        yield from _base64_forms(data, offset)
    lines = [line.strip() for line in value.splitlines()]
    yield from (line.encode("utf-8", "surrogateescape") for line in lines if len(line) >= _MIN_LINE)


def _base64_forms(data: bytes, offset: int) -> Iterator[bytes]:
    """The characters that depend on nothing but the value, if `offset` bytes stand before it."""
    encoded = base64.b64encode(bytes(offset) + data)
    core = encoded[(offset * 8 + 5) // 6 : (offset + len(data)) * 8 // 6]
    if len(core) >= _MIN_BASE64:
        yield core
        yield core.replace(b"+", b"-").replace(b"/", b"_")
