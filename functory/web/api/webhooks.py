"""Routes of webhooks: set, list, delete. deliveries.py has the addresses themselves."""

from msgspec.structs import asdict

from functory.operations import webhooks as operations
from functory.operations.webhooks import Webhook as Known
from functory.web.http.endpoint import Call
from functory.web.http.routes import Routes
from functory.web.http.settings import WebSettings
from functory.webhooks.terms import Terms
from functory.wire.base import Done
from functory.wire.webhooks import (
    Arrivals,
    OneWebhook,
    RefusedDelivery,
    TakenDelivery,
    Webhook,
    WebhookBody,
    WebhookList,
    WebhookSet,
)

routes = Routes()


@routes.add("GET", "/{tenant}/webhook", scope="read", summary="The webhooks")
async def list_webhooks(call: Call) -> WebhookList:
    found = await operations.list_webhooks(call.service, call.tenant)
    return WebhookList([_show(call, webhook) for webhook in found])


@routes.add("GET", "/{tenant}/webhook/{webhook}", scope="read", summary="One webhook, and what came to it")
async def get_webhook(call: Call) -> OneWebhook:
    webhook = await operations.get_webhook(call.service, call.tenant, call.param("webhook"))
    return OneWebhook(**asdict(_show(call, webhook)), arrivals=_show_arrivals(call, webhook.name))


@routes.add("PUT", "/{tenant}/webhook/{webhook}", scope="manage", summary="Make a webhook, or change one")
async def set_webhook(call: Call, body: WebhookBody) -> WebhookSet:
    name = call.param("webhook")
    created = await operations.put_webhook(call.service, call.principal, name, terms_of(body))
    return WebhookSet(created, address_of(call.web.settings, call.tenant, name))


@routes.add("DELETE", "/{tenant}/webhook/{webhook}", scope="manage", summary="Delete a webhook")
async def delete_webhook(call: Call) -> Done:
    await operations.delete_webhook(call.service, call.principal, call.param("webhook"))
    return Done()


def terms_of(body: WebhookBody) -> Terms:
    return Terms(
        type=body.type,
        verify=body.verify,
        secrets=tuple(dict.fromkeys(body.secrets)),
        header=body.header or "",
        algorithm=body.algorithm,
        digest=body.digest,
        prefix=body.prefix,
        delivery_header=body.delivery_header,
        payload=body.payload,
        answer=body.answer,
        wait_s=body.wait_s,
        result_type=body.result_type,
        takes_get=body.takes_get,
    )


def address_of(settings: WebSettings, tenant: str, name: str) -> str:
    """Where others post to: the path alone if nobody has said where this service is reached."""
    return f"{settings.public_url.rstrip('/')}/{tenant}/in/{name}"


def _show(call: Call, webhook: Known) -> Webhook:
    record, terms = webhook
    return Webhook(
        name=record.name,
        url=address_of(call.web.settings, record.tenant, record.name),
        type=terms.type,
        verify=terms.verify,
        secrets=list(terms.secrets),
        header=terms.header or None,
        algorithm=terms.algorithm,
        digest=terms.digest,
        prefix=terms.prefix,
        delivery_header=terms.delivery_header,
        payload=terms.payload,
        answer=terms.answer,
        wait_s=terms.wait_s,
        result_type=terms.result_type,
        takes_get=terms.takes_get,
        changed_ms=record.created_ms,
        author=record.author,
    )


def _show_arrivals(call: Call, name: str) -> Arrivals:
    seen = operations.what_came(call.service, call.principal, name)
    return Arrivals(
        daemon=call.service.control.sysid,
        since_ms=seen.since_ms,
        counts=seen.counts,
        deliveries=[
            TakenDelivery(outcome=it.outcome, job=it.job_id or None, **it.arrival._asdict()) for it in seen.deliveries
        ],
        refusals=[RefusedDelivery(reason=it.reason, times=it.times, **it.arrival._asdict()) for it in seen.refusals],
    )
