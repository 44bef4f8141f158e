"""The verbs on webhooks, checked."""

from store.checked.core import CheckedCore
from store.checks import check_author, check_text, check_time
from store.errors import InvalidValue
from store.names import check_tenant
from store.protocol.webhooks import WebhookShelf
from store.values.webhooks import WebhookRecord
from vocabulary.names import TYPE_RULE, is_type


class CheckedWebhooks(CheckedCore, WebhookShelf):
    async def put_webhook(self, webhook: WebhookRecord) -> bool:
        check_tenant(webhook.tenant)
        _check_name(webhook.name)
        check_time("created_ms", webhook.created_ms)
        check_author(webhook.author)
        check_text("settings", webhook.settings)
        return await self._back.put_webhook(webhook)

    async def get_webhook(self, tenant: str, name: str) -> WebhookRecord | None:
        check_tenant(tenant)
        _check_name(name)
        return await self._back.get_webhook(tenant, name)

    async def list_webhooks(self, tenant: str) -> list[WebhookRecord]:
        check_tenant(tenant)
        return await self._back.list_webhooks(tenant)

    async def delete_webhook(self, tenant: str, name: str) -> bool:
        check_tenant(tenant)
        _check_name(name)
        return await self._back.delete_webhook(tenant, name)


def _check_name(name: str) -> None:
    if not is_type(name):
        raise InvalidValue(f"{name!r:.80} is not the name of a webhook: {TYPE_RULE}")
