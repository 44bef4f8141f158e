"""A request to a webhook, until it is a job or refused: who sends it, and what is noted of it either way."""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, cast, get_args

from aiohttp import web

from functory.errors import FunctoryError
from functory.operations.known_webhooks import KnownWebhook
from functory.operations.webhooks import place_of
from functory.statuses import code_of, status_of
from functory.web.http.answers import error_answer
from functory.web.http.client_networks import counted_as
from functory.web.http.edge import REQUEST_ID
from functory.web.http.endpoint import Call
from functory.web.http.forwarded import client_of
from functory.webhooks.arrivals import Arrival, Reason, Taken
from functory.webhooks.delivery import Delivery
from functory.webhooks.schemes import id_in_header

log = logging.getLogger("functory.web")

_BY_CODE: Final[Mapping[str, Reason]] = MappingProxyType(
    {
        "rate_limited": "rate_limited",
        "quota_exceeded": "over_quota",
        "tenant_suspended": "tenant_suspended",
        "request_too_large": "too_large",
        "limit_exceeded": "too_large",
        "request_too_slow": "too_slow",
        "bad_request": "unreadable",
    }
)
_REASONS: Final = frozenset(get_args(Reason))


class Incoming:
    def __init__(self, call: Call, webhook: KnownWebhook, name: str) -> None:
        self.webhook = webhook
        self.name = name
        self.size_bytes = call.request.content_length if call.request.can_read_body else 0
        """Of the body: as it was announced, until it is there."""
        self._call = call
        self._client = client_of(call.request, call.web.settings.trusted_proxies).address
        self._sender = counted_as(self._client)
        self._place = place_of(webhook.who, name)

    @property
    def has_proved(self) -> bool:
        """Whether whoever sends from this address has proved lately who it is."""
        return self._call.service.arrivals.has_proved(self._place, self._sender)

    def take(self, outcome: Taken, delivery_id: str, job_id: str = "") -> None:
        is_proved = self.webhook.terms.verify != "none"
        self._call.service.arrivals.take(self._place, self._arrival(delivery_id), outcome, job_id, is_proved=is_proved)

    def refuse(self, reason: Reason) -> None:
        """Anybody may send any number that is refused: a line of the log tells of all those of a minute."""
        headers = cast("Mapping[str, str]", self._call.request.headers)
        named = id_in_header(self.webhook.terms, Delivery("", {}, headers, b""))
        count = self._call.service.arrivals.refuse(self._place, self._arrival(named), reason)
        if count:
            told = {"tenant": self._place.tenant, "webhook": self.name, "reason": reason}
            log.info("webhook.refused", extra={**told, "client": self._client, "count": count})

    def fail(self, error: Exception) -> web.Response:
        """The answer to a request that an error has ended."""
        self.refuse(_reason_of(error))
        return error_answer(error, self._call.request[REQUEST_ID], self._client)

    def _arrival(self, delivery_id: str) -> Arrival:
        return Arrival(self._call.service.now_ms(), self._sender, delivery_id, self.size_bytes)


def _reason_of(error: Exception) -> Reason:
    said = error.detail.get("reason") if isinstance(error, FunctoryError) else None
    if said in _REASONS:
        return cast("Reason", said)
    return _BY_CODE.get(code_of(error), "unavailable" if status_of(error) in {503, 507} else "failed")
