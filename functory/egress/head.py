"""The head of a request to the proxy: where it wants to go, and what is sent there. Pure.

Two forms are taken: `CONNECT host:port`, and a plain request for an absolute `http://` URL. The head that goes on is
written anew: its `Host` is the host of the URL, whatever the request said, and only one request is made per connection.
Anything that two readers could read differently is refused.
"""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from functory.egress.request_body import ChunkedBody, RequestBody, SizedBody
from handlers.hosts import host_name, parse_port

END: Final = b"\r\n\r\n"
MAX_BYTES: Final = 32 * 1024

_MAX_LINES: Final = 200
_MAX_LENGTH_DIGITS: Final = 15
_METHOD: Final = re.compile(r"[A-Z][A-Z-]{0,31}")
_FIELD: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*)")
_PATH: Final = re.compile(r"[!-~]*")
_VERSIONS: Final = ("HTTP/1.1", "HTTP/1.0")
_OF_THIS_CONNECTION: Final = frozenset({"host", "connection", "keep-alive", "te", "trailer", "upgrade"})
_HTTP_PORT: Final = 80


class BadRequest(Exception):
    """The message is for whoever wrote the program that sent it. It says where the fault is and repeats nothing of the
    request: a part of a secret would not be recognised as one."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One request: `host` in the spelling of `handlers.hosts`. A tunnel has neither head nor body."""

    host: str
    port: int
    head: bytes = b""
    body: RequestBody | None = None

    @property
    def is_tunnel(self) -> bool:
        return not self.head


def parse_head(data: bytes) -> Wanted:
    """`data` ends with an empty line. Raises BadRequest."""
    if b"\0" in data or b"\r" in data.replace(b"\r\n", b"") or b"\n" in data.replace(b"\r\n", b""):
        raise BadRequest("the lines of a request end with CR and LF, and have no control characters")
    first, *fields = data[: -len(END)].decode("latin-1").split("\r\n")
    if len(fields) > _MAX_LINES:
        raise BadRequest(f"a request has at most {_MAX_LINES} header fields")
    words = first.split(" ")
    if len(words) != 3 or not _METHOD.fullmatch(words[0]) or words[2] not in _VERSIONS:
        raise BadRequest("this is an HTTP proxy: send CONNECT host:port HTTP/1.1, or GET http://host/path HTTP/1.1")
    method, target, version = words
    if method == "CONNECT":
        return Wanted(*_authority(target, None))
    host, port, path = _absolute(target)
    return Wanted(host, port, *_rewritten(method, path, version, _place(host, port), fields))


def _authority(text: str, default: int | None) -> tuple[str, int]:
    if "@" in text:
        raise BadRequest("the target must not have user:password@ before its host")
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", text)
    if bracketed:
        name, port = bracketed[1], bracketed[2]
    else:
        name, _, port = text.partition(":")
    try:
        if not port and default is not None:
            return host_name(name), default
        return host_name(name), parse_port(port or "")
    except ValueError as error:
        raise BadRequest(f"the target is not a host and a port: {error}") from None


def _absolute(target: str) -> tuple[str, int, str]:
    if target.startswith("https://"):
        raise BadRequest("for https:// a proxy is asked with CONNECT host:port")
    if not target.startswith("http://"):
        raise BadRequest("this is an HTTP proxy: ask for an absolute URL, such as http://example.org/")
    try:
        parts = urlsplit(target)
    except ValueError:
        raise BadRequest("the host of the URL cannot be read") from None
    host, port = _authority(parts.netloc, _HTTP_PORT)
    path = (parts.path or "/") + (f"?{parts.query}" if "?" in target.partition("#")[0] else "")
    if not _PATH.fullmatch(path):
        raise BadRequest("the path of the URL must be ASCII without blanks")
    return host, port, path


def _place(host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return shown if port == _HTTP_PORT else f"{shown}:{port}"


def _rewritten(method: str, path: str, version: str, place: str, lines: list[str]) -> tuple[bytes, RequestBody | None]:
    """The head to send, and the body that follows it. The version stays: the answer goes back as it is, and to a
    program of HTTP/1.0 nobody may send chunks."""
    fields = []
    for number, line in enumerate(lines, 1):
        match = _FIELD.fullmatch(line)
        if match is None:
            raise BadRequest(f"line {number} after the first is not a header field")
        fields.append((match[1].lower(), match[2].strip(" \t"), line))
    named = {word.strip().lower() for name, value, _ in fields if name == "connection" for word in value.split(",")}
    dropped = (_OF_THIS_CONNECTION | named) - {"content-length", "transfer-encoding"}
    kept = [line for name, _, line in fields if name not in dropped and not name.startswith("proxy-")]
    head = "\r\n".join([f"{method} {path} {version}", f"Host: {place}", *kept, "Connection: close", "", ""])
    return head.encode("latin-1"), _body([(name, value) for name, value, _ in fields], version)


def _body(fields: list[tuple[str, str]], version: str) -> RequestBody | None:
    lengths = [value for name, value in fields if name == "content-length"]
    codings = [value for name, value in fields if name == "transfer-encoding"]
    if len(lengths) + len(codings) > 1:
        raise BadRequest("a request has one Content-Length or one Transfer-Encoding")
    if codings and version != "HTTP/1.1":
        raise BadRequest("a request with a Transfer-Encoding is of HTTP/1.1")
    if codings:
        if codings[0].lower() != "chunked":
            raise BadRequest("the only Transfer-Encoding of requests is chunked")
        return ChunkedBody()
    if not lengths:
        return None
    text = lengths[0]
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_LENGTH_DIGITS):
        raise BadRequest("Content-Length is not a number")
    return SizedBody(int(text))
