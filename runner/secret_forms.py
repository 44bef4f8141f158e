"""The forms that programs usually give to a value: itself, JSON, repr, inspect, in quotes of a shell, URL, base64 in
its three alignments, hex, and the lines of a value with several. Hex and URLs are given in both letter cases, and the
value in small letters too. Blanks and line breaks around a value are left out: a form of the rest is found with them
and without."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Final
from urllib.parse import quote, quote_plus

MIN_CHARS: Final = 6
_MIN_LINE: Final = 8
_MIN_BASE64: Final = 7
_SAFE_IN_URLS: Final = (
    "",
    "/",  # as python has it
    "!'()*",  # encodeURIComponent
    "!'()*#$&+,/:;=?@",  # encodeURI
    *(  # `URL` in a browser and in node
        "!$%&'()*+,",  # user and password
        *("!$%&'()*+,/:;=@[]|", "!$%&'()*+,/:;=@[]|^"),  # the path, with `^` escaped as of late, or not
        *("!$%&'()*+,/:;=@[]|\\", "!$%&'()*+,/:;=@[]|^\\"),  # and of a URL such as postgres://
        *("!()*$%&+,/:;=?@[]\\^`{|}", "!()*$%&+,/:;=?@[]\\^`{|}'"),  # what follows the `?`, of both kinds
        "!#$%&'()*+,/:;=?@[]\\^{|}",  # what follows the `#`
    ),
)
_SAFE_IN_FORMS: Final = ("", "*")
"""Where a blank is a `+`: of python and php, of URLSearchParams and java."""
_INSPECTED: Final = {code: rf"\x{code:02X}" for code in (*range(32), *range(127, 160))} | str.maketrans(
    {"\b": r"\b", "\t": r"\t", "\n": r"\n", "\f": r"\f", "\r": r"\r", "\\": r"\\"}
)
"""As node's `inspect` and `console.log` show what is in an object."""
_IN_SHELLS: Final = (b"'\"'\"'", b"'\\''")
"""An apostrophe in apostrophes, as `set` and `export -p` of dash and python's `shlex` write it, and bash and php."""
_SPECIAL_IN_SHELLS: Final = re.compile(rb'["$`\\]')
"""What bash escapes between quotation marks."""
_ESCAPE: Final = re.compile(rb"%[0-9A-F]{2}")


def forms_of(values: Iterable[str]) -> set[bytes]:
    """Without those under MIN_CHARS bytes."""
    return {form for value in values for form in _forms(value) if len(form) >= MIN_CHARS}


def _forms(value: str) -> Iterator[bytes]:
    stripped = value.strip()  # as programs read a value that ends with a line break
    value = stripped if len(stripped) >= MIN_CHARS else value
    if len(value) < MIN_CHARS:
        return
    data = value.encode("utf-8", "surrogateescape")
    yield data
    yield value.lower().encode("utf-8", "surrogateescape")  # as the name of a host is told
    yield from _quoted_forms(value, data)
    yield from _url_forms(data)
    yield data.hex().encode()
    yield data.hex().upper().encode()
    for offset in range(3):  # by what stands before it
        yield from _base64_forms(data, offset)
    lines = [line.strip() for line in value.splitlines()]
    yield from (line.encode("utf-8", "surrogateescape") for line in lines if len(line) >= _MIN_LINE)


def _quoted_forms(value: str, data: bytes) -> Iterator[bytes]:
    yield repr(data)[2:-1].encode()
    yield repr(b'"' + data)[3:-1].encode()
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False), repr(value), ascii(value)):
        yield text[1:-1].encode("utf-8", "surrogateescape")
        yield text[1:-1].replace("/", "\\/").encode("utf-8", "surrogateescape")  # as php writes it
    # In a text that has quotation marks of both kinds, an apostrophe is escaped.
    for text in (repr(f'"{value}'), ascii(f'"{value}')):
        yield text[2:-1].encode("utf-8", "surrogateescape")
    yield data.replace(b"\\", b"\\\\").replace(b"'", b"\\'")  # var_export
    for quoted in _IN_SHELLS:
        yield data.replace(b"'", quoted)
    yield _SPECIAL_IN_SHELLS.sub(rb"\\\g<0>", data)
    inspected = value.translate(_INSPECTED).encode("utf-8", "surrogateescape")
    yield inspected
    yield inspected.replace(b"'", b"\\'")


def _url_forms(data: bytes) -> Iterator[bytes]:
    forms = {quote(data, safe=safe) for safe in _SAFE_IN_URLS} | {
        quote_plus(data, safe=safe) for safe in _SAFE_IN_FORMS
    }
    for form in forms | {form.replace("~", "%7E") for form in forms}:
        yield form.encode()
        yield _ESCAPE.sub(lambda found: found[0].lower(), form.encode())


def _base64_forms(data: bytes, offset: int) -> Iterator[bytes]:
    """The characters that depend on nothing but the value, if `offset` bytes stand before it."""
    encoded = base64.b64encode(bytes(offset) + data)
    core = encoded[(offset * 8 + 5) // 6 : (offset + len(data)) * 8 // 6]
    if len(core) >= _MIN_BASE64:
        yield core
        yield core.replace(b"+", b"-").replace(b"/", b"_")
