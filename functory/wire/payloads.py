"""Values of a Python program as the bytes of a payload or a result. The client and both kinds of queue agree."""

import json
from typing import Any

from functory.errors import InvalidInput
from functory.wire.base import check_text


def encode(value: object, what: str = "the payload") -> bytes:
    """A payload or a result as bytes: text and bytes as they are, nothing as nothing, anything else as JSON. Raises
    InvalidInput."""
    if value is None:
        return b""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return check_text(value, what).encode()
    return to_json(value, what)


def decode(data: bytes) -> Any:
    """What a payload or a result says: what JSON says if it is JSON, otherwise the text, otherwise bytes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def to_json(value: object, what: str) -> bytes:
    """Raises InvalidInput for what JSON cannot say, such as nan."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} cannot be written as JSON: {error}") from error
