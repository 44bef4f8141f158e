"""Messages that are signed as Standard Webhooks says: those that others post to us, and those that we post to others.

A signature is an HMAC-SHA256, in base64, of the message's id, its time in seconds and its body, with points between.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final

KEY_PREFIX: Final = "whsec_"
VERSION: Final = "v1,"
"""Stands before a signature."""


def key_of(secret: str) -> bytes:
    """The key that a text stands for: base64 behind the prefix; whatever is not that is the key itself."""
    if not secret.startswith(KEY_PREFIX):
        return secret.encode()
    try:
        key = base64.b64decode(secret.removeprefix(KEY_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    return key or secret.encode()


def signed(message_id: bytes, time: bytes, body: bytes) -> bytes:
    """What the signature is of."""
    return b"%b.%b.%b" % (message_id, time, body)


def headers_of(secrets: list[str], message_id: str, now_s: int, body: bytes) -> dict[str, str]:
    """Those of a message: with a signature for each of the secrets, so that one can be replaced by another."""
    message = signed(message_id.encode(), b"%d" % now_s, body)
    made = [hmac.new(key_of(secret), message, hashlib.sha256).digest() for secret in secrets]
    signatures = " ".join(VERSION + base64.b64encode(one).decode() for one in made)
    return {"webhook-id": message_id, "webhook-timestamp": f"{now_s}", "webhook-signature": signatures}
