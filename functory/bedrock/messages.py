"""Requests and answers as values, and an answer as bytes.

An answer has the form and the line ends of its request: `200 OK`, `Content-Length` if there is a body, a blank line,
and the body.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

_REASON_CHARS: Final = 400


class Request(NamedTuple):
    """A command as it was sent. Names of parameters are in lower case."""

    command: str
    parameters: Mapping[str, str]
    is_http: bool = False
    method: str = "POST"
    """Of HTTP."""
    line_end: bytes = b"\n"
    keeps_alive: bool = True


class Answer(NamedTuple):
    status: int = 200
    reason: str = "OK"
    body: bytes = b""
    """JSON, or nothing."""


def render(answer: Answer, request: Request) -> bytes:
    head = [f"{answer.status} {one_line(answer.reason)}"]
    if request.is_http:
        head[0] = f"HTTP/1.1 {head[0]}"
        if answer.body:
            head.append("Content-Type: application/json")
        head += ["X-Content-Type-Options: nosniff", "Cache-Control: no-store"]
        if not request.keeps_alive:
            head.append("Connection: close")
    if answer.body or request.is_http:
        head.append(f"Content-Length: {len(answer.body)}")
    return b"".join([line.encode() + request.line_end for line in (*head, "")]) + answer.body


def one_line(text: str) -> str:
    """A text for a status line: no control characters, not too long."""
    return (
        "".join(char if char.isprintable() else " " for char in text[:_REASON_CHARS])
        .encode("utf-8", "replace")
        .decode()
    )
