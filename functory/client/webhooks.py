"""The calls about webhooks."""

from functory.client.transport import Transport
from functory.wire import webhooks


class WebhookCalls(Transport):
    async def list_webhooks(self) -> webhooks.WebhookList:
        return await self._call("GET", self._path("webhook"), webhooks.WebhookList)

    async def get_webhook(self, name: str) -> webhooks.OneWebhook:
        return await self._call("GET", self._path("webhook", name), webhooks.OneWebhook)

    async def set_webhook(self, name: str, **settings: object) -> webhooks.WebhookSet:
        """Make a webhook, or change one. The settings are those of `WebhookBody`."""
        return await self._call("PUT", self._path("webhook", name), webhooks.WebhookSet, body=settings)

    async def delete_webhook(self, name: str) -> None:
        await self._fetch("DELETE", self._path("webhook", name), {}, None, None)
