"""What is wrong with a request that cannot be read as HTTP: which limit was passed, or which header is not understood.

The parser's own text is never passed on: it repeats what the client sent.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from aiohttp.http_exceptions import BadHttpMessage, LineTooLong

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

MAX_HEADER_BYTES: Final = 8190
"""Longest header, with its name."""
MAX_URL_BYTES: Final = 8192
"""Longest path with its query. Not the same number: the parser tells which limit was passed, and not by what."""
MAX_HEADERS: Final = 64

_TOO_MANY: Final = "Too many headers received"
_BAD_CODING: Final = "Request has invalid `Transfer-Encoding`"
"""How the texts of aiohttp and of its parser begin. tests/web/test_http.py fails when they change."""
_BAD_EXPECTATION: Final = "Request has an unknown `Expect`"


class Fault(NamedTuple):
    status: int
    code: str
    message: str
    detail: dict[str, object]


class UnknownCoding(BadHttpMessage):
    """The body has a transfer coding that the parser lets pass, and that nobody would undo."""

    def __init__(self) -> None:
        super().__init__(_BAD_CODING)


def has_unknown_coding(headers: "CIMultiDictProxy[str]") -> bool:
    """Whether a body is coded in another way than in chunks, or in chunks and another way."""
    given = headers.getall("Transfer-Encoding", ())
    return bool(given) and [value.strip().lower() for value in given] != ["chunked"]


class UnknownExpectation(BadHttpMessage):
    """The client waits for something that nobody will do."""

    def __init__(self) -> None:
        super().__init__(_BAD_EXPECTATION)


def has_unknown_expectation(headers: "CIMultiDictProxy[str]") -> bool:
    """Whether the client waits for something else than the word that it may send its body."""
    given = headers.get("Expect", "")
    return bool(given) and given.lower() != "100-continue"


def fault_of(error: BaseException | None) -> Fault:
    """What the client is told about an error of the parser."""
    if isinstance(error, LineTooLong):
        if MAX_URL_BYTES in error.args:
            text = f"the URL has more than {MAX_URL_BYTES} bytes: put what is long into the body"
            return Fault(414, "url_too_long", text, {"limit_bytes": MAX_URL_BYTES})
        text = f"a header has more than {MAX_HEADER_BYTES} bytes, with its name: shorten it"
        return Fault(431, "headers_too_large", text, {"limit_bytes": MAX_HEADER_BYTES})
    said = error.message if isinstance(error, BadHttpMessage) else ""
    if said == _TOO_MANY:
        text = f"the request has more than {MAX_HEADERS} headers: leave some out"
        return Fault(431, "headers_too_large", text, {"limit": MAX_HEADERS})
    if said == _BAD_EXPECTATION:
        text = "Expect must be 100-continue or left out"
        return Fault(417, "bad_expectation", text, {"header": "Expect"})
    if said.startswith(_BAD_CODING):
        text = "Transfer-Encoding must be chunked or left out: name a compression in Content-Encoding"
        return Fault(400, "bad_http", text, {"header": "Transfer-Encoding"})
    return Fault(400, "bad_http", "the request is not valid HTTP", {})
