"""What a client sends: paths, queries, bodies. Ensures: what HTTP and JSON cannot say is refused here.

Otherwise a lone surrogate would be left out of a query, and nan would arrive as null.
"""

import math
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from functory.errors import InvalidInput
from functory.wire.base import check_text
from functory.wire.payloads import encode


def path_of(*parts: str) -> str:
    """Ensures: each part is one part of the path, whatever is in it. Raises InvalidInput."""
    for part in parts:
        if not isinstance(part, str):
            raise InvalidInput(f"{part!r:.60} is not text, as the id of a job or a name is")
        if check_text(part, "the path") in {".", ".."}:  # they would be resolved, in any spelling
            raise InvalidInput(f"{part!r} is not a name")
    return "/" + "/".join(quote(part, safe="") for part in parts)


def encode_query(query: Mapping[str, object]) -> dict[str, str]:
    """Without what is None. Raises InvalidInput."""
    given = {name: value for name, value in query.items() if value is not None}
    for name, value in given.items():
        _check(value, name)
    return {name: str(value) for name, value in given.items()}


def encode_body(body: object) -> bytes:
    """As JSON. Raises InvalidInput."""
    try:
        content = msgspec.json.encode(body)
    except RecursionError:
        raise InvalidInput("the body is nested too deep") from None
    except UnicodeEncodeError:
        _check(body, "the body")
        raise
    if b"null" in content:  # that is also how nan would be written
        _check(body, "the body")
    return content


class Adding(NamedTuple):
    """A request that adds jobs of one type. `rows` is None if `lines` are its body; otherwise it is these as JSON."""

    query: dict[str, object]
    lines: bytes
    rows: list[dict[str, object]] | None


def add_request(payloads: Iterable[object], options: Mapping[str, object]) -> Adding:
    """One job for each payload, all with the same options. Payloads that a body of lines cannot carry travel as JSON,
    and options of jobs with them. Raises InvalidInput, and TypeError for one payload in place of several."""
    if isinstance(payloads, str | bytes | bytearray | Mapping):  # each of its parts would be a job
        raise TypeError(f"payloads must be a list of payloads, not {type(payloads).__name__}: write [payload]")
    lines = [encode(payload) for payload in payloads]
    fit_lines = all(line and b"\n" not in line and not line.startswith(b"#") and line.strip() for line in lines)
    if fit_lines and "options" not in options:
        return Adding(dict(options), b"\n".join(lines), None)
    of_request = {"ack", "ids", "idempotency_key", "wait_s"}
    query = {name: value for name, value in options.items() if name in of_request}
    shared = {
        name: str(value) if name == "dt" else value
        for name, value in options.items()
        if value is not None and name not in of_request
    }
    return Adding(query, b"", [{**shared, "payload_base64": b64encode(line).decode()} for line in lines])


def _check(value: object, name: str) -> None:
    """A value, and all inside of it."""
    if isinstance(value, str):
        check_text(value, name)
    elif isinstance(value, float) and not math.isfinite(value):
        raise InvalidInput(f"{name} must be a finite number, not {value}", detail={"field": name})
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            check_text(str(key), "the name of a field")
            _check(inner, str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            _check(inner, name)
