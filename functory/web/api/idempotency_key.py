"""The idempotency key of a request that adds jobs: an option of the query, a field of the body, or a header.

Other services take the header, so programs that send them one send it here, too. A header that was passed over would
have a repeated request add its jobs twice, without a word.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from functory.errors import InvalidInput
from functory.operations.idempotency import key_of_caller
from functory.web.http.validation_words import refusal
from functory.wire.base import check_text
from functory.wire.jobs import AddQuery

HEADER: Final = "Idempotency-Key"


def idempotency_key_of(headers: Mapping[str, str], said: str | None) -> str | None:
    """The key of a request, as operations take it. said: that of its query or body. Raises InvalidInput for a header
    that is no key, or is another one."""
    key = _said_by(headers, said)
    return None if key is None else key_of_caller(key)


def _said_by(headers: Mapping[str, str], said: str | None) -> str | None:
    if HEADER not in headers:
        return said
    text = check_text(headers[HEADER], HEADER)
    try:
        key = msgspec.convert({"idempotency_key": text}, AddQuery).idempotency_key
    except msgspec.ValidationError as error:
        raise refusal(error, AddQuery, "header") from None
    if said not in {None, key}:
        raise InvalidInput(
            f"the header {HEADER} and idempotency_key are two different keys: send one of them",
            detail={"in": "header", "field": "idempotency_key"},
        )
    return key
