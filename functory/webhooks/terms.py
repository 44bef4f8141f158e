"""What a webhook takes, from whom, and what it answers: as the store keeps it."""

from typing import Literal

import msgspec

from functory.wire.webhooks import Verify

Algorithm = Literal["sha1", "sha256", "sha512"]
Digest = Literal["hex", "base64"]
Payload = Literal["body", "request"]
Reply = Literal["id", "result"]
ResultType = Literal["application/json", "text/plain", "text/xml"]


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a webhook. Fields that this version does not know are passed over."""

    type: str
    """The type of the jobs that deliveries become."""
    verify: Verify
    """How a delivery shows that it comes from who it says (schemes.py)."""
    secrets: tuple[str, ...] = ()
    """Names of the tenant's secrets: any of their values will do, so that one can be replaced by another."""
    header: str = ""
    """Of `hmac`, where the signature is; of `token`, where the token is: empty for `?token=` in the address."""
    algorithm: Algorithm = "sha256"
    digest: Digest = "hex"
    prefix: str = ""
    """Of `hmac`: what stands before the signature in its header."""
    delivery_header: str | None = None
    """The header that names a delivery, which is taken once a day. None: that of the scheme; empty: none."""
    payload: Payload = "body"
    """The body as it is, or a JSON object of the whole request."""
    answer: Reply = "id"
    """The id of the job, at once; or the job's result, if it comes within wait_s."""
    wait_s: float = 10.0
    result_type: ResultType | None = None
    """Of results, in answers. None: JSON if it is that, otherwise text."""
    takes_get: bool = False


def encode_terms(terms: Terms) -> str:
    return msgspec.json.encode(terms).decode()


def terms_from(text: str) -> Terms:
    """Raises msgspec.MsgspecError for what a newer version may have written."""
    return msgspec.json.decode(text, type=Terms)
