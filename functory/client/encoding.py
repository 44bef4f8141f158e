"""What a client sends, as text and JSON. Ensures: what HTTP and JSON cannot say is refused here.

Otherwise a lone surrogate would be left out of a query, and nan would arrive as null.
"""

import math
from collections.abc import Mapping

import msgspec

from functory.errors import InvalidInput
from functory.wire.base import check_text


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
