"""Who signs how. A scheme reads from a delivery what was signed, and the signatures that came with it.

github     X-Hub-Signature-256: sha256=HEX, of the body
slack      X-Slack-Signature: v0=HEX, of `v0:TIME:BODY`, with X-Slack-Request-Timestamp
stripe     Stripe-Signature: t=TIME,v1=HEX[,v1=HEX], of `TIME.BODY`
standard   Standard Webhooks: webhook-signature: v1,BASE64[ v1,BASE64], of `ID.TIME.BODY`, with webhook-id and
           webhook-timestamp; the same under the names that begin with `svix-`
hmac       a header, an algorithm, a form and a prefix of the tenant's choice, of the body
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from functory.webhooks.delivery import Delivery, as_sent
from functory.webhooks.terms import Algorithm, Digest, Terms
from vocabulary.signed_messages import VERSION, key_of, signed

DELIVERY_HEADERS: Final[Mapping[str, str]] = MappingProxyType(
    {"github": "X-GitHub-Delivery", "gitlab": "Idempotency-Key", "standard": "webhook-id"}
)
"""The header that names a delivery, and is the same when it is sent again."""
NAMED_INSIDE: Final = frozenset({"stripe", "slack"})
"""Those whose deliveries are named in the body."""
GITLAB_TOKEN: Final = "X-Gitlab-Token"  # noqa: S105 (the name of a header)
_STANDARD_FAMILIES: Final = ("webhook", "svix")


class Signed(NamedTuple):
    """What is to be compared: any of the signatures with that of `message`."""

    header: str
    """Where the signatures were."""
    message: bytes
    signatures: tuple[str, ...]
    """Without what stands before them."""
    time: str | None = None
    """Seconds since 1970, as the sender says. None: the scheme does not say when it was signed."""
    algorithm: Algorithm = "sha256"
    digest: Digest = "hex"
    key_of: Callable[[str], bytes] = str.encode


class _Event(msgspec.Struct):
    """What the body of a delivery may say of itself."""

    id: str | msgspec.UnsetType = msgspec.UNSET
    event_id: str | msgspec.UnsetType = msgspec.UNSET


def read_signed(terms: Terms, delivery: Delivery) -> Signed:
    """For a scheme that signs. A header that is not there has no signatures."""
    return _READERS[terms.verify](terms, delivery)


def naming_header(verify: str, delivery_header: str | None) -> str:
    """The header that names a delivery; empty if none does."""
    return DELIVERY_HEADERS.get(verify, "") if delivery_header is None else delivery_header


def is_named_inside(verify: str, delivery_header: str | None) -> bool:
    """Whether it is the body that names a delivery, by an id."""
    return delivery_header is None and verify in NAMED_INSIDE


def delivery_id(terms: Terms, delivery: Delivery) -> str:
    """What names the delivery, the same when it is sent again; empty if nothing does."""
    is_inside = is_named_inside(terms.verify, terms.delivery_header)
    return _id_inside(terms, delivery) if is_inside else id_in_header(terms, delivery)


def id_in_header(terms: Terms, delivery: Delivery) -> str:
    """The same, if it is in a header: it is found at once, whatever the body is."""
    if terms.delivery_header is None and terms.verify == "standard":
        return delivery.header(f"{_family(delivery)}-id")
    header = naming_header(terms.verify, terms.delivery_header)
    return delivery.header(header) if header else ""


def _id_inside(terms: Terms, delivery: Delivery) -> str:
    try:
        event = msgspec.json.decode(delivery.body, type=_Event)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    named = event.id if terms.verify == "stripe" else event.event_id
    return "" if isinstance(named, msgspec.UnsetType) else named


def _family(delivery: Delivery) -> str:
    """What the names of the headers that were signed begin with: those of the other family prove nothing."""
    return next((it for it in _STANDARD_FAMILIES if delivery.header(f"{it}-signature")), _STANDARD_FAMILIES[0])


def _github(_: Terms, delivery: Delivery) -> Signed:
    return _of_body("X-Hub-Signature-256", "sha256=", delivery)


def _hmac(terms: Terms, delivery: Delivery) -> Signed:
    signed = _of_body(terms.header, terms.prefix, delivery)
    return signed._replace(algorithm=terms.algorithm, digest=terms.digest)


def _of_body(header: str, prefix: str, delivery: Delivery) -> Signed:
    return Signed(header, delivery.body, _after(prefix, [delivery.header(header)]))


def _slack(_: Terms, delivery: Delivery) -> Signed:
    time = delivery.header("X-Slack-Request-Timestamp")
    message = b"v0:%b:%b" % (as_sent(time), delivery.body)
    return Signed("X-Slack-Signature", message, _after("v0=", [delivery.header("X-Slack-Signature")]), time)


def _stripe(_: Terms, delivery: Delivery) -> Signed:
    parts = [part.strip() for part in delivery.header("Stripe-Signature").split(",")]
    time = next(iter(_after("t=", parts)), "")
    return Signed("Stripe-Signature", b"%b.%b" % (as_sent(time), delivery.body), _after("v1=", parts), time)


def _standard(_: Terms, delivery: Delivery) -> Signed:
    family = _family(delivery)
    named, time = delivery.header(f"{family}-id"), delivery.header(f"{family}-timestamp")
    signatures = _after(VERSION, delivery.header(f"{family}-signature").split())
    message = signed(as_sent(named), as_sent(time), delivery.body)
    return Signed(f"{family}-signature", message, signatures, time, digest="base64", key_of=key_of)


def _after(prefix: str, texts: list[str]) -> tuple[str, ...]:
    """What stands behind the prefix, of the texts that have it."""
    return tuple(text[len(prefix) :] for text in texts if text.startswith(prefix) and len(text) > len(prefix))


_READERS: Final[Mapping[str, Callable[[Terms, Delivery], Signed]]] = MappingProxyType(
    {"github": _github, "hmac": _hmac, "slack": _slack, "stripe": _stripe, "standard": _standard}
)
