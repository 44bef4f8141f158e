"""Webhooks of a tenant: set, list, delete; and what others post to them, which become jobs."""

import asyncio
import hashlib
from typing import Final, NamedTuple

import msgspec

from functory.errors import InvalidInput, NotReadyYet, QuotaExceeded
from functory.operations.audit import audit
from functory.operations.idempotency import Fingerprint
from functory.operations.keyring import principal_of
from functory.operations.known_webhooks import KnownWebhook
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.submit import Submission, Submitted, submit_lines, submit_once
from functory.webhooks.arrivals import Place, Seen
from functory.webhooks.delivery import Delivery, as_sent
from functory.webhooks.payloads import payload_of
from functory.webhooks.schemes import delivery_id
from functory.webhooks.signatures import check_delivery
from functory.webhooks.terms import Terms, encode_terms, terms_from
from handlers.validation import secret_name_trouble
from runner.errors import SecretMissingError, SecretsLockedError
from store.base import WebhookRecord
from store.errors import NotFound, StoreUnavailable
from vocabulary.names import TYPE_RULE, is_tenant, is_type

MAX_WEBHOOKS: Final = 100
"""Of one tenant."""
MAX_SECRETS: Final = 4
"""Of one webhook."""
_UNSIGNED: Final = frozenset({"none", "token", "gitlab"})
"""What proves the sender of these says nothing of the body."""
_LARGE_BYTES: Final = 64 * 1024
"""Larger bodies are not hashed in the event loop."""
_NO_SUCH: Final = "there is no webhook at this address"
_SCOPES: Final = frozenset({"submit"})


class Accepted(NamedTuple):
    """A delivery that is a job. delivery_id: what names it; empty if nothing does. is_repeat: it was one before."""

    job_id: str
    delivery_id: str
    is_repeat: bool


class Webhook(NamedTuple):
    record: WebhookRecord
    terms: Terms

    @property
    def name(self) -> str:
        return self.record.name


async def list_webhooks(service: Service, tenant: str) -> list[Webhook]:
    """In order of name. What a newer version has set and this one cannot read is left out."""
    found = [_read(record) for record in await service.store.list_webhooks(tenant)]
    return [webhook for webhook in found if webhook is not None]


async def get_webhook(service: Service, tenant: str, name: str) -> Webhook:
    """Raises NotFound."""
    record = await service.store.get_webhook(tenant, name) if is_type(name) else None
    webhook = None if record is None else _read(record)
    if webhook is None:
        raise NotFound(f"tenant {tenant} has no webhook {name[:80]}")
    return webhook


def what_came(service: Service, who: Principal, name: str) -> Seen:
    """What this daemon has seen come to a webhook of the tenant's, also if it was refused."""
    return service.arrivals.seen(place_of(who, name))


async def put_webhook(service: Service, who: Principal, name: str, terms: Terms) -> bool:
    """Make a webhook, or change one. True if it is new. Raises InvalidInput, QuotaExceeded, Forbidden: who lets others
    add jobs, or read results, must be allowed to do so."""
    who.require("submit")
    if terms.answer == "result":
        who.require("read")
    check_terms(name, terms)
    if absent := await service.vault.missing(who.tenant, terms.secrets):
        raise InvalidInput(
            f"{', '.join(absent)} not set yet; first `functory secret set {absent[0]}`", detail={"field": "secrets"}
        )
    known = [record.name for record in await service.store.list_webhooks(who.tenant)]
    if name not in known and len(known) >= MAX_WEBHOOKS:
        raise _too_many()
    record = WebhookRecord(who.tenant, name, service.now_ms(), who.key_id, encode_terms(terms))
    is_new = await service.store.put_webhook(record)
    if is_new and len(await service.store.list_webhooks(who.tenant)) > MAX_WEBHOOKS:
        await service.store.delete_webhook(who.tenant, name)  # others were made since they were counted
        raise _too_many()
    service.known_webhooks.forget(who.tenant)
    await audit(service, who.key_id, "webhook.set", who.tenant, webhook=name, type=terms.type, verify=terms.verify)
    return is_new


async def delete_webhook(service: Service, who: Principal, name: str) -> None:
    """Raises NotFound."""
    is_gone = is_type(name) and await service.store.delete_webhook(who.tenant, name)
    service.known_webhooks.forget(who.tenant)
    service.arrivals.forget(place_of(who, name))
    if not is_gone:
        raise NotFound(f"tenant {who.tenant} has no webhook {name[:80]}")
    await audit(service, who.key_id, "webhook.delete", who.tenant, webhook=name)


def check_terms(name: str, terms: Terms) -> None:
    """Raises InvalidInput."""
    if not is_type(name):
        raise _invalid("name", f"{name[:80]!r} is not a name for a webhook: {TYPE_RULE}")
    if not is_type(terms.type):
        raise _invalid("type", f"{terms.type[:80]!r} is not a type: {TYPE_RULE}")
    for secret in terms.secrets:
        if trouble := secret_name_trouble(secret):
            raise _invalid("secrets", f"{secret!r:.80} {trouble}")
    if len(set(terms.secrets)) > MAX_SECRETS:
        raise _invalid("secrets", f"a webhook has at most {MAX_SECRETS} secrets")
    _check_proof(terms)
    if terms.takes_get and (terms.verify not in _UNSIGNED or terms.payload != "request"):
        raise _invalid(
            "takes_get",
            "GET has no body that could be signed or become a payload: it goes with payload request, and with verify"
            " token, gitlab or none",
        )


def _check_proof(terms: Terms) -> None:
    """Whether it says what its way of verifying needs."""
    if terms.verify == "none" and terms.secrets:
        raise _invalid("secrets", "with verify none, anybody may post: leave the secrets out")
    if terms.verify != "none" and not terms.secrets:
        raise _invalid("secrets", f"to verify by {terms.verify}, name the secret that the sender has, too")
    if terms.verify == "hmac" and not terms.header:
        raise _invalid("header", "to verify by hmac, name the header in which the signature is")


# Deliveries


async def find_webhook(service: Service, tenant: str, name: str) -> KnownWebhook:
    """The webhook at an address. Raises NotFound, the same whether there is such a tenant or not; NotReadyYet."""
    if not (is_tenant(tenant) and is_type(name)):
        raise NotFound(_NO_SUCH)
    now_ms = service.now_ms()
    try:
        webhook = service.known_webhooks.recent(tenant, name, now_ms, service.verified_keys.changes)
    except KeyError:
        webhook = await _look_up(service, tenant, name, now_ms)
    if webhook is None:
        raise NotFound(_NO_SUCH)
    return webhook


def place_of(who: Principal, name: str) -> Place:
    """Where it is noted what comes to a webhook."""
    return Place(who.tenant, who.tenant_since_ms, name)


async def check(service: Service, webhook: KnownWebhook, delivery: Delivery) -> None:
    """Whether a delivery is of who may post to the webhook. Raises Unauthorized, TenantSuspended, NotReadyYet."""
    webhook.who.require("submit")
    if webhook.trouble:
        raise NotReadyYet(f"{webhook.trouble}: nothing was accepted", detail={"reason": "secret_not_set"})
    if len(delivery.body) > _LARGE_BYTES:
        await asyncio.to_thread(check_delivery, webhook.terms, webhook.values, delivery, service.now_ms())
    else:
        check_delivery(webhook.terms, webhook.values, delivery, service.now_ms())


async def accept(service: Service, webhook: KnownWebhook, name: str, delivery: Delivery) -> Accepted:
    """Make a delivery that was checked a job; one that is sent again is the job that it was. Raises what submitting
    raises."""
    who, terms = webhook.who, webhook.terms
    payload = payload_of(terms, delivery)
    named = delivery_id(terms, delivery)
    if not named:
        done = Submitted(await submit_lines(service, who, terms.type, [payload]), is_repeat=False)
    else:
        digest = hashlib.sha256(as_sent(named)).hexdigest()
        # Its name identifies it: when it is sent again, headers differ, and some senders make the body anew.
        done = await submit_once(
            service,
            who,
            terms.type,
            [Submission(payload)],
            key=f"webhook:{name}:{digest}",
            fingerprint=Fingerprint(digest),
        )
    return Accepted(done.ids[0], named, done.is_repeat)


async def _look_up(service: Service, tenant: str, name: str, now_ms: int) -> KnownWebhook | None:
    known, keys, changes = service.known_webhooks, service.verified_keys.changes, service.known_webhooks.changes

    async def look() -> KnownWebhook | None:
        webhook = await _load(service, tenant, name)
        known.keep(tenant, name, webhook, now_ms, keys, changes)
        return webhook

    last = known.last(tenant, name, now_ms, keys)
    try:
        return await known.looks.ask((tenant, name, keys + changes), look, known=last)
    except StoreUnavailable:
        if last is None:
            raise NotReadyYet(
                "the store is away, and this daemon has not seen the webhook lately: nothing was accepted; try again"
                " later"
            ) from None
        known.asked_in_vain(tenant, name, service.now_ms())
        return last


async def _load(service: Service, tenant: str, name: str) -> KnownWebhook | None:
    record = await service.store.get_webhook(tenant, name)
    webhook = None if record is None else _read(record)
    if webhook is None:
        return None
    who = await principal_of(service, tenant, f"webhook:{tenant}/{name}", _SCOPES)
    if who is None:
        return None
    try:
        given = await service.vault.read(tenant, webhook.terms.secrets) if webhook.terms.secrets else None
    except SecretMissingError:
        return KnownWebhook(who, webhook.terms, (), "the secret of this webhook is not set")
    except SecretsLockedError:
        return KnownWebhook(who, webhook.terms, (), "the secret of this webhook cannot be opened here")
    return KnownWebhook(who, webhook.terms, tuple(given.values.values()) if given else ())


def _read(record: WebhookRecord) -> Webhook | None:
    try:
        return Webhook(record, terms_from(record.settings))
    except (msgspec.MsgspecError, RecursionError):
        return None


def _too_many() -> QuotaExceeded:
    return QuotaExceeded(f"a tenant has at most {MAX_WEBHOOKS} webhooks", detail={"limit": MAX_WEBHOOKS})


def _invalid(field: str, message: str) -> InvalidInput:
    return InvalidInput(message, detail={"field": field})
