"""A handler as the document that the store keeps for it: the JSON of its fields. Written here and read here only.

A version that was stored before handlers had `returns` keeps the meaning that it was written for: a returned whole
number is a status. So does a copy of it that a rollback makes. Whoever saves the same text anew gets the new meaning.
"""

import json

from handlers.errors import InvalidHandlerError
from handlers.languages import LANGUAGES
from handlers.model import STATUS, Handler
from handlers.validation import parse_handler


def encode_handler(handler: Handler) -> bytes:
    return json.dumps(handler.to_json(), separators=(",", ":")).encode()


def decode_handler(data: bytes) -> Handler:
    """Raises InvalidHandlerError if a limit was tightened since it was stored, or it was not stored by us: by a newer
    version of this program, such as a daemon that was upgraded first."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise InvalidHandlerError("data", f"the stored handler is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise InvalidHandlerError("data", "the stored handler is not an object")
    language = LANGUAGES.get(str(document.get("lang")))
    if language is not None and language.returns_values:
        document.setdefault("returns", STATUS)
    try:
        return parse_handler(document)
    except InvalidHandlerError as error:
        reason = f"the stored handler cannot be read: {error}; a newer version of Functory may have stored it"
        raise InvalidHandlerError("data", reason) from error
