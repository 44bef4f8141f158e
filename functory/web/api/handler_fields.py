"""A handler as JSON, decoded. Its values are checked later, with the handler."""

from typing import Any, Final

from functory.errors import InvalidInput
from functory.web.http.bounded_json import Fields
from functory.web.http.endpoint import decode_json
from functory.wire.handlers import HandlerBody
from functory.wire.untyped_json import json_decoder
from handlers.validation import check_field_names

_HANDLER: Final = json_decoder(dict[str, Any])
_LISTS_BYTES: Final = 256 * 1024
_LOCK_BYTES: Final = 768 * 1024
_FIELDS: Final = Fields(
    HandlerBody, {"env": _LISTS_BYTES, "secrets": _LISTS_BYTES, "hosts": _LISTS_BYTES, "lock": _LOCK_BYTES}
)
"""The bounds are above those of a handler, with blanks and escapes: they are what is decoded to say what is wrong."""


def decode_handler_fields(text: bytes, what: str = "") -> dict[str, Any]:
    """`what` is read, if it is not the body. Raises BadRequest, InvalidInput, InvalidHandlerError, RequestTooLarge."""
    try:
        fields: dict[str, Any] = decode_json(_HANDLER, text, what, parts=_FIELDS)
    except InvalidInput as error:
        check_field_names([error.detail.get("field", "lang")])  # of a large text, others are found before it is decoded
        raise
    return fields
