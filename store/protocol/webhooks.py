"""Verbs on webhooks: addresses of a tenant that other services post to."""

import abc

from store.values.webhooks import WebhookRecord


class WebhookShelf(abc.ABC):
    """Webhooks by tenant and name."""

    @abc.abstractmethod
    async def put_webhook(self, webhook: WebhookRecord) -> bool:
        """Write it, over the one of its name if there is one. True if there was none. Atomic, idempotent. Raises
        InvalidValue."""

    @abc.abstractmethod
    async def get_webhook(self, tenant: str, name: str) -> WebhookRecord | None:
        """None if there is none."""

    @abc.abstractmethod
    async def list_webhooks(self, tenant: str) -> list[WebhookRecord]:
        """In order of name."""

    @abc.abstractmethod
    async def delete_webhook(self, tenant: str, name: str) -> bool:
        """False if there was none. Atomic."""
