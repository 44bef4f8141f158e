"""A handler as the document that the store keeps for it: the JSON of its fields. Written here and read here only."""

import json

from handlers.model import Handler
from handlers.validation import parse_handler


def encode_handler(handler: Handler) -> bytes:
    return json.dumps(handler.to_json(), separators=(",", ":")).encode()


def decode_handler(data: bytes) -> Handler:
    """Raises InvalidHandlerError if a limit was tightened since it was stored."""
    return parse_handler(json.loads(data))
