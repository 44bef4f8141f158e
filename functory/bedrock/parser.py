"""From bytes to requests, however they are cut into pieces. Pure.

A request is a line with a command, lines `name: value`, and a blank line. A `Content-Length` announces a body with more
parameters: a JSON object, or a form as HTTP has it. The first line may also be that of HTTP, `POST /Command HTTP/1.1`;
then the query of its path has parameters, too. What is said twice counts from the body, then the query, then the lines.

Ensures: every byte is looked at a bounded number of times; what is kept never grows beyond the limits; whatever comes,
the result is requests and then at most one Malformed, after which nothing is read.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final
from urllib.parse import unquote

import msgspec

from functory.bedrock.messages import Request
from functory.bedrock.settings import BedrockSettings
from functory.web.http.form import parse_form
from functory.web.http.json_faults import why_not_json

MAX_PARAMETERS: Final = 100
_COMMAND_BYTES: Final = 8192
_BLANK_BYTES: Final = 512
"""Of blank lines before a command."""
_COMMAND: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_HTTP: Final = re.compile(r"([A-Z]{1,16}) (/[!-~]{0,8000}) HTTP/1\.([01])")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_LENGTH: Final = re.compile(r"[0-9]{1,12}")
_TEXT: Final = msgspec.json.Decoder(str)
IN_JSON: Final = (
    "name", "data", "firstRun", "repeat", "jobPriority", "priority", "unique", "parentJobID", "retryAfter", "jobs",
    "connection", "timeout", "numResults", "jobID", "nextRun", "delay", "query",
)  # fmt: skip
"""Parameters that a JSON object can have, in this letter case or in lower case. Other fields are skipped unread: a body
can have a million of them."""
_ONCE: Final = {name.lower() for name in IN_JSON} | {"authorization", "content-length", "origin", "transfer-encoding"}
"""What is read: which of two values is meant cannot be known."""
_Fields = msgspec.defstruct(
    "_Fields",
    [
        (name, msgspec.Raw | msgspec.UnsetType, msgspec.UNSET)
        for name in dict.fromkeys(form for each in IN_JSON for form in (each, each.lower()))
    ],
)
_OBJECT: Final = msgspec.json.Decoder(_Fields)


class Malformed(Exception):
    """What cannot be a request. status is the number of the answer."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


class Parser:
    def __init__(self, settings: BedrockSettings, with_data: Collection[str]) -> None:
        """with_data: the commands that may have a large body, in lower case."""
        self._settings = settings
        self._with_data = with_data
        self._buffer = bytearray()
        self._begin()

    @property
    def size_bytes(self) -> int:
        """What is kept: the beginning of a request, and requests that were not asked for."""
        return len(self._buffer)

    @property
    def is_within(self) -> bool:
        """Whether a request has begun to arrive."""
        return bool(self._first) or bool(self._buffer)

    @property
    def line_end(self) -> bytes:
        return self._line_end

    @property
    def is_http(self) -> bool:
        return self._http is not None

    @property
    def has_head(self) -> bool:
        """Whether what has not arrived yet is the body."""
        return self._body_bytes is not None

    def authorization(self) -> str | None:
        """Of the request that is arriving, as far as its lines have come. Raises Malformed."""
        query = "" if self._http is None else self._http[2].partition("?")[2]
        return _form(query.encode()).get("authorization", self._given.get("authorization"))

    def feed(self, data: bytes | memoryview) -> None:
        self._buffer += data

    def clear(self) -> None:
        """Forget what was not read to its end."""
        self._buffer.clear()
        self._begin()

    def next(self) -> Request | None:
        """The next request that is complete. Raises Malformed."""
        if self._body_bytes is None and not self._read_head():
            return None
        assert self._body_bytes is not None
        end = self._at + self._body_bytes
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[self._at : end])
        request = self._request(body)
        del self._buffer[:end]
        self._begin()
        return request

    def _begin(self) -> None:
        self._at = 0
        """Where the next line, or the body, begins."""
        self._looked = 0
        self._blank_bytes = 0
        self._first = ""
        self._http: re.Match[str] | None = None
        self._line_end = b"\n"
        self._given: dict[str, str] = {}
        self._body_bytes: int | None = None

    def _read_head(self) -> bool:
        """Read lines. True if the blank one was among them."""
        if not self._looked:
            self._skip_blank()
        for line in self._lines():
            if not self._first:
                self._read_first(line)
            elif line:
                self._read_parameter(line)
            else:
                self._body_bytes = self._length()
                return True
        return False

    def _skip_blank(self) -> None:
        """Blank lines before a command, which somebody types or sends after a body."""
        blank_bytes = len(self._buffer) - len(self._buffer.lstrip(b"\r\n"))
        self._blank_bytes += blank_bytes
        if self._blank_bytes > _BLANK_BYTES:
            raise Malformed(f"more than {_BLANK_BYTES} bytes of blank lines before a command")
        del self._buffer[:blank_bytes]

    def _lines(self) -> Iterator[str]:
        while True:
            end = self._buffer.find(b"\n", self._looked)
            self._looked = len(self._buffer) if end < 0 else end + 1
            most_bytes = self._settings.max_head_bytes if self._first else _COMMAND_BYTES
            if self._looked > most_bytes:
                what = "the command and its parameters are" if self._first else "the first line is"
                raise Malformed(f"{what} longer than {most_bytes} bytes", 413)
            if end < 0:
                return
            raw = self._buffer[self._at : end]
            self._at = self._looked
            if raw.endswith(b"\r"):
                del raw[-1]
                self._line_end = b"\r\n"
            try:
                yield raw.decode()
            except UnicodeDecodeError:
                raise Malformed("a line is not UTF-8 text") from None

    def _read_first(self, line: str) -> None:
        self._http = _HTTP.fullmatch(line)
        if self._http is None and _COMMAND.fullmatch(line.strip()) is None:
            raise Malformed("the first line must be a command such as GetJob, or that of an HTTP POST")
        self._first = line.strip()

    def _read_parameter(self, line: str) -> None:
        name, colon, value = line.partition(":")
        key = name.strip().lower()
        if not colon or _NAME.fullmatch(key) is None or line[0] in " \t":
            raise Malformed(f"{line[:60]!r} must read `name: value`; a blank line ends the parameters")
        if _CONTROL.search(value):
            raise Malformed(f"{key}: holds a control character")
        if key in self._given:
            if key in _ONCE:
                raise Malformed(f"{key}: is given twice")
            return  # as `Accept`, which no command reads
        if len(self._given) >= MAX_PARAMETERS:
            raise Malformed(f"more than {MAX_PARAMETERS} parameters")
        self._given[key] = value.strip(" \t")

    def _length(self) -> int:
        if "transfer-encoding" in self._given:
            raise Malformed("Transfer-Encoding is not supported: send a Content-Length", 501)
        text = self._given.get("content-length", "0")
        if _LENGTH.fullmatch(text) is None:
            raise Malformed("content-length: must be a whole number")
        settings, takes_data = self._settings, self._command().lower() in self._with_data
        limit_bytes = settings.max_body_bytes if takes_data else settings.max_small_body_bytes
        if int(text) > limit_bytes:
            raise Malformed(f"the body is longer than {limit_bytes} bytes", 413)
        return int(text)

    def _command(self) -> str:
        return self._first if self._http is None else unquote(self._http[2].partition("?")[0][1:])

    def _request(self, body: bytes) -> Request:
        given = dict(self._given)
        if self._http is None:
            given |= self._body_parameters(body)
            keeps_alive = given.get("connection", "").lower() != "close"
            return Request(self._first, given, line_end=self._line_end, keeps_alive=keeps_alive)
        method, target, minor = self._http.groups()
        given.pop("priority", None)  # of HTTP it says how urgent the answer is: RFC 9218
        given |= _form(target.partition("?")[2].encode())
        given |= self._body_parameters(body)
        keeps_alive = minor == "1" and self._given.get("connection", "").lower() != "close"
        return Request(self._command(), given, True, method, self._line_end, keeps_alive)

    def _body_parameters(self, body: bytes) -> dict[str, str]:
        start = body.lstrip()[:1]
        if start == b"{":
            return json_parameters(body)
        if start and len(body) > self._settings.max_form_bytes:
            raise Malformed(f"the form is longer than {self._settings.max_form_bytes} bytes: send JSON", 413)
        return _form(body) if start else {}


def json_parameters(text: bytes) -> dict[str, str]:
    """The fields of a JSON object, as they would stand in lines. Raises Malformed."""
    try:
        fields = msgspec.structs.asdict(_OBJECT.decode(text))
        return {name.lower(): _as_text(bytes(value)) for name, value in fields.items() if value is not msgspec.UNSET}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"Invalid JSON: {why_not_json(text, error)}", 401) from None


def _as_text(value: bytes) -> str:
    """A string is its text, null is nothing, anything else its JSON."""
    if value[:1] == b'"':
        return _TEXT.decode(value)
    return "" if value == b"null" else value.decode()


def _form(data: bytes) -> dict[str, str]:
    """Raises Malformed."""
    try:
        pairs = parse_form(data, MAX_PARAMETERS)
    except UnicodeDecodeError:
        raise Malformed("the form is not UTF-8 text") from None
    except ValueError as error:
        raise Malformed(f"the form cannot be read: {error}") from None
    return {name.lower(): value for name, value in pairs}
