"""Reads a form (application/x-www-form-urlencoded), from a body or a query. Pure.

Ensures: the work grows with the bytes of the form and is done by a few built-in operations, whatever the form holds.
`urllib.parse` makes an object for each percent sign: four million of them held up everybody for two seconds.
"""

import re
from typing import Final

_STRAY: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_MAX_STRAY: Final = 1000
"""Each costs a step of its own."""


def parse_form(data: bytes, max_fields: int) -> list[tuple[str, str]]:
    """The fields in their order. A percent sign that begins no escape stands for itself. Raises ValueError if there are
    too many fields, too many such signs, or what is not UTF-8."""
    if data.count(b"&") >= max_fields:
        raise ValueError(f"it has more than {max_fields} fields")
    pairs = [pair.partition(b"=") for pair in data.split(b"&") if pair]
    return [(_decode(name), _decode(value)) for name, _, value in pairs]


def _decode(text: bytes) -> str:
    text = text.replace(b"+", b" ")
    if b"%" in text:
        escaped = _STRAY.sub(b"%25", text, _MAX_STRAY).replace(b"\\", b"\\x5c").replace(b"%", b"\\x")
        try:
            text = escaped.decode("unicode_escape").encode("latin-1")
        except UnicodeDecodeError:
            raise ValueError(f"it has more than {_MAX_STRAY} percent signs that begin no escape: write %25") from None
    return text.decode()
