"""The payload that a delivery becomes, and the answer that a job's result becomes."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Final

import msgspec

from functory.webhooks.delivery import Delivery, as_sent
from functory.webhooks.signatures import token_places
from functory.webhooks.terms import Terms

_PRIVATE: Final = frozenset({"authorization", "cookie", "proxy-authorization"})
"""Headers that are no handler's business."""
_JSON: Final = "application/json"
_TEXT: Final = "text/plain; charset=utf-8"
_CHARSET: Final = "; charset=utf-8"
_CHALLENGE: Final = "url_verification"


class _Challenge(msgspec.Struct):
    type: str
    challenge: str


def payload_of(terms: Terms, delivery: Delivery) -> bytes:
    """The body as it came; or a JSON object with `method`, `query`, `headers` and the body: as `json` if it is that, as
    `body` if it is other text, as `body_base64` if it is no text. What proves the sender is left out."""
    if terms.payload == "body":
        return delivery.body
    header, option = token_places(terms)
    told = {
        "method": delivery.method,
        "query": {_text(name): _one_or_all(values) for name, values in delivery.query.items() if name != option},
        "headers": {
            name: _text(it) for name, it in delivery.headers.items() if name not in _PRIVATE and name != header
        },
        **_body(delivery),
    }
    return msgspec.json.encode(told)


def challenge_of(terms: Terms, delivery: Delivery) -> str | None:
    """What Slack wants to read back when an address is first given to it: it is no event, and no job's business."""
    if terms.verify != "slack" or _CHALLENGE.encode() not in delivery.body:
        return None
    try:
        asked = msgspec.json.decode(delivery.body, type=_Challenge)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return asked.challenge if asked.type == _CHALLENGE else None


def result_type(terms: Terms, result: bytes) -> str:
    """The content type of an answer that is a result."""
    if terms.result_type is not None:
        return terms.result_type + ("" if terms.result_type == _JSON else _CHARSET)
    return _JSON if _is_json(result) else _TEXT


def _body(delivery: Delivery) -> dict[str, object]:
    if "json" in delivery.header("content-type").lower() and _is_json(delivery.body):
        return {"json": msgspec.Raw(delivery.body)}
    try:
        return {"body": delivery.body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": b64encode(delivery.body).decode()}


def _one_or_all(values: Sequence[str]) -> str | list[str]:
    texts = [_text(value) for value in values]
    return texts[0] if len(texts) == 1 else texts


def _text(text: str) -> str:
    """Without what is no text."""
    return as_sent(text).decode("utf-8", "replace")


def _is_json(data: bytes) -> bool:
    try:
        data.decode()  # the codec does not look into texts that it only passes by
        msgspec.json.decode(data, type=msgspec.Raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True
