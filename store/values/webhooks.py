"""Webhooks of tenants, as the store keeps them."""

from typing import NamedTuple


class WebhookRecord(NamedTuple):
    """An address that others post to, under a name. settings are the application's own text; the store never reads
    them. created_ms and author are of the last change."""

    tenant: str
    name: str
    created_ms: int
    author: str
    settings: str
