"""Types of the interface: webhooks of a tenant."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from functory.wire.base import Answer, Request, TypeName, whole

Verify = Literal["github", "gitlab", "hmac", "slack", "standard", "stripe", "token", "none"]
HeaderName = Annotated[str, Meta(min_length=1, max_length=100, pattern=whole(r"[A-Za-z0-9_-]+"))]
SecretName = Annotated[str, Meta(pattern=whole(r"[A-Za-z_][A-Za-z0-9_]{0,127}"))]


class WebhookBody(Request):
    """An address of its own, `/{tenant}/in/{webhook}`, to which others post without a key of the tenant: what they post
    becomes a job of the type.

    `verify`: how a delivery shows that it comes from who it says. `github`, `slack`, `stripe` and `standard` (Standard
    Webhooks) sign as these services do, `hmac` signs the body in the header of your choice, `gitlab` and `token` only
    send the secret, and with `none` anybody may post. `secrets` names secrets of the tenant: any of them will do.
    `delivery_header`: what names a delivery, which becomes one job however often it is sent within a day; the scheme
    has one of its own, and an empty text is none. `payload` of the job: the `body` as it is, or the `request` as JSON.
    `answer`: the `id` of the job at once, or its `result`, if it ends within `wait_s`.
    """

    type: TypeName
    verify: Verify
    secrets: Annotated[list[SecretName], Meta(max_length=4)] = msgspec.field(default_factory=list)
    header: HeaderName | None = None
    algorithm: Literal["sha1", "sha256", "sha512"] = "sha256"
    digest: Literal["hex", "base64"] = "hex"
    prefix: Annotated[str, Meta(max_length=50)] = ""
    delivery_header: Annotated[str, Meta(max_length=100, pattern=whole(r"[A-Za-z0-9_-]*"))] | None = None
    payload: Literal["body", "request"] = "body"
    answer: Literal["id", "result"] = "id"
    wait_s: Annotated[float, Meta(ge=0.1, le=60)] = 10.0
    result_type: Literal["application/json", "text/plain", "text/xml"] | None = None
    takes_get: bool = False


class Webhook(Answer):
    """`url` is the whole address if the daemon knows where it is reached from outside (`public_url`), otherwise the
    path."""

    name: str
    url: str
    type: str
    verify: str
    secrets: list[str]
    header: str | None
    algorithm: str
    digest: str
    prefix: str
    delivery_header: str | None
    payload: str
    answer: str
    wait_s: float
    result_type: str | None
    takes_get: bool
    changed_ms: int
    author: str


class TakenDelivery(Answer):
    """`outcome`: `accepted`, `repeated` (it was sent before, and is the same job) or `challenge` (of Slack). `sender`:
    the network address that it came from. `delivery`: what names it, if anything does."""

    at_ms: int
    outcome: str
    job: str | None
    sender: str
    delivery: str
    size_bytes: int | None


class RefusedDelivery(Answer):
    """The last of those that came from one address and were refused for one reason. What it says of itself is what a
    stranger says."""

    at_ms: int
    reason: str
    times: int
    sender: str
    delivery: str
    size_bytes: int | None


class Arrivals(Answer):
    """What came, as one daemon has seen it since `since_ms`: each of those that share a store counts for itself, and
    begins anew when it starts. `counts`: by outcome or reason. The last few of each, newest first."""

    daemon: str
    since_ms: int
    counts: dict[str, int]
    deliveries: list[TakenDelivery]
    refusals: list[RefusedDelivery]


class OneWebhook(Webhook):
    arrivals: Arrivals


class WebhookList(Answer):
    webhooks: list[Webhook]


class WebhookSet(Answer):
    created: bool
    url: str


class Delivered(Answer):
    """The job that a delivery has become."""

    id: str
