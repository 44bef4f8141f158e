"""The webhooks of a tenant: the address of each, what it takes and answers, and forms to make, change and delete
one."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from functory.errors import InvalidInput
from functory.operations import secrets, webhooks
from functory.operations.principal import Principal
from functory.operations.webhooks import Webhook
from functory.setting_values import duration
from functory.web.api.webhooks import address_of, terms_of
from functory.web.http.validation_words import refusal
from functory.web.pages.call import PageCall
from functory.web.pages.declaration import Go, Page, Pages
from functory.webhooks.arrivals import Reason
from functory.webhooks.schemes import is_named_inside, naming_header
from functory.webhooks.terms import Terms
from functory.wire.webhooks import WebhookBody

pages = Pages()

VERIFY: Final = {
    "github": "GitHub: signs the body",
    "gitlab": "GitLab: sends the secret",
    "slack": "Slack: signs body and time",
    "stripe": "Stripe: signs body and time",
    "standard": "Standard Webhooks: signs ID, time and body",
    "hmac": "HMAC of the body, in a header",
    "token": "Token: sends the secret, in a header or ?token=",
    "none": "Nothing: anybody may post",
}
_CHOICES: Final = {
    "verify": VERIFY,
    "algorithm": {"sha1": "SHA-1", "sha256": "SHA-256", "sha512": "SHA-512"},
    "digest": {"hex": "hex", "base64": "Base64"},
    "payload": {"body": "the body as it is", "request": "the whole request, as JSON"},
    "answer": {"id": "the job's id, at once", "result": "the job's result"},
    "result_type": {
        "": "by its content",
        "application/json": "application/json",
        "text/plain": "text/plain",
        "text/xml": "text/xml",
    },
}
"""The fields that are chosen: each value with its words."""
MEANS: Final[Mapping[Reason, str]] = {
    "signature_missing": "The sender does not sign, or in another header: give it the secret, or choose how it signs.",
    "signature_wrong": "The sender has another secret, or something on the way changes the body.",
    "signature_too_old": "It was signed more than five minutes ago: check both clocks, or somebody sends it again.",
    "token_missing": "The sender sends no token, or in another place.",
    "token_wrong": "The sender has another token.",
    "secret_not_set": "The secret of this webhook is not set, or cannot be opened.",
    "method_not_allowed": "It was a GET, such as from a browser, and this webhook takes POST only.",
    "too_large": "The body is longer than a payload may be.",
    "too_slow": "The body did not come in time.",
    "unreadable": "The connection broke, or the body was packed in a way that cannot be read.",
    "busy": "Too many large bodies came at once. Senders try again.",
    "rate_limited": "More requests came in a second than the tenant may have.",
    "over_quota": "The tenant has as many jobs, or bytes, as it may.",
    "tenant_suspended": "The tenant is suspended.",
    "unavailable": "The store or the disk could not take it. Senders try again.",
    "failed": "It is a fault on our side. The log has it.",
}
"""What a reason says to who set the webhook up."""
_SECRET: Final = "secret-"  # noqa: S105 (what the name of a field begins with)
_EMPTY: Final = {
    "name": "",
    "type": "",
    "verify": "github",
    "header": "",
    "algorithm": "sha256",
    "digest": "hex",
    "prefix": "",
    "delivery_header": "",
    "no_delivery_header": "",
    "payload": "body",
    "answer": "id",
    "wait": "10s",
    "result_type": "",
    "takes_get": "",
}
"""The fields of the form for a new webhook, but for the secrets."""
_OF_PROOF: Final = ("header", "algorithm", "digest", "prefix")
_MORE: Final = ("result_type", "delivery_header", "no_delivery_header", "takes_get")
_WORDS: Final = {
    "verify": "verified by",
    "header": "the header of the signature or token",
    "prefix": "the text before the signature",
    "delivery_header": "the header that names a delivery",
    "wait_s": "the longest wait, in seconds,",
    "result_type": "the content type",
}


@pages.get("/ui/t/{tenant}/webhooks", scope="read")
async def list_webhooks(call: PageCall) -> Page:
    found = await webhooks.list_webhooks(call.service, call.tenant)
    known = await _set_secrets(call)
    values = {"rows": [_row(call, webhook, known) for webhook in found], **_form_values(call, _EMPTY, (), known)}
    return Page("webhooks.html", values)


@pages.post("/ui/t/{tenant}/webhooks", scope="manage", form=list_webhooks)
async def make_webhook(call: PageCall) -> Go:
    name = call.form.get("name", "").strip()
    await webhooks.put_webhook(call.service, _setter(call), name, _terms(call.form))
    return Go(f"{call.home}/webhooks/{name}", "webhook_set")


@pages.get("/ui/t/{tenant}/webhooks/{webhook}", scope="read", live="live/webhook.html")
async def show_webhook(call: PageCall) -> Page:
    webhook = await webhooks.get_webhook(call.service, call.tenant, call.params["webhook"])
    known = await _set_secrets(call)
    values = {
        "it": _row(call, webhook, known),
        "is_public": bool(call.tools.web.settings.public_url),
        "daemon": call.service.control.sysid,
        "means": MEANS,
        **_form_values(call, _fields(webhook), webhook.terms.secrets, known),
    }
    return Page("webhook.html", values, state=(webhook.record.created_ms, *values["it"]["absent"]))


@pages.post("/ui/t/{tenant}/webhooks/{webhook}", scope="manage", form=show_webhook)
async def change_webhook(call: PageCall) -> Go:
    name = (await webhooks.get_webhook(call.service, call.tenant, call.params["webhook"])).name
    await webhooks.put_webhook(call.service, _setter(call), name, _terms(call.form))
    return Go(f"{call.home}/webhooks/{name}", "webhook_set")


@pages.post("/ui/t/{tenant}/webhooks/{webhook}/delete", scope="manage")
async def delete_webhook(call: PageCall) -> Go:
    await webhooks.delete_webhook(call.service, call.who, call.params["webhook"])
    return Go(f"{call.home}/webhooks", "webhook_deleted")


def _may_set(call: PageCall) -> bool:
    return call.may("manage") and (call.is_operator or call.may("submit"))


def _setter(call: PageCall) -> Principal:
    """The operator manages what a tenant has, also while it is suspended. To let others add jobs is a part of that, as
    it is for alerts."""
    return call.who._replace(scopes=call.who.scopes | {"submit"}, suspended=False) if call.is_operator else call.who


async def _set_secrets(call: PageCall) -> list[str]:
    return [secret.name for secret in await secrets.list_secrets(call.service, call.tenant)]


def _row(call: PageCall, webhook: Webhook, known: list[str]) -> dict[str, Any]:
    record, terms = webhook
    address = address_of(call.tools.web.settings, call.tenant, webhook.name)
    seen = webhooks.what_came(call.service, call.who, webhook.name)
    taken_ms, refused_ms = (
        max((it.arrival.at_ms for it in some), default=0) for some in (seen.deliveries, seen.refusals)
    )
    return {
        "name": webhook.name,
        "address": address if "://" in address else call.place.origin + address,
        "type": terms.type,
        "payload": _CHOICES["payload"][terms.payload],
        "once": _once(terms),
        "proof": _proof(terms),
        "secrets": terms.secrets,
        "is_open": terms.verify == "none",
        "has_token_option": terms.verify == "token" and not terms.header,
        "absent": [name for name in terms.secrets if name not in known],
        "answer": "the job's id" if terms.answer == "id" else f"the job's result, within {_number(terms.wait_s)} s",
        "result_type": _CHOICES["result_type"][terms.result_type or ""] if terms.answer == "result" else "",
        "takes_get": terms.takes_get,
        "seen": seen,
        "last_ms": max(taken_ms, refused_ms),
        "was_refused": refused_ms > taken_ms,
        "changed_ms": record.created_ms,
        "author": record.author,
    }


def _proof(terms: Terms) -> str:
    """Without the secrets."""
    if terms.verify == "hmac":
        after = f", after {terms.prefix!r}" if terms.prefix else ""
        return f"HMAC in {terms.header} ({terms.algorithm}, {terms.digest}{after})"
    if terms.verify == "token":
        return f"token in {terms.header or '?token='}"
    return VERIFY[terms.verify].partition(":")[0]


def _once(terms: Terms) -> str:
    """What one job is made of, however often that is sent."""
    if is_named_inside(terms.verify, terms.delivery_header):
        return "each event, by the id in the body"
    header = naming_header(terms.verify, terms.delivery_header)
    return f"each {header}" if header else "each delivery, also if it is sent again"


def _form_values(call: PageCall, stored: dict[str, str], chosen: tuple[str, ...], known: list[str]) -> dict[str, Any]:
    """What the form shows: as it was typed, or as it is stored."""
    fields = {**_EMPTY, "name": stored["name"], **call.form} if call.form else stored
    typed = _named_secrets(call.form) if call.form else chosen
    return {
        "fields": fields,
        "choices": _CHOICES,
        "secrets": [
            {"field": _SECRET + name, "name": name, "is_chosen": name in typed, "is_set": name in known}
            for name in [*known, *(name for name in chosen if name not in known)]
        ],
        "shows_proof": fields["verify"] in {"hmac", "token"} or any(fields[name] != _EMPTY[name] for name in _OF_PROOF),
        "may_set": _may_set(call),
        "shows_more": any(fields[name] != _EMPTY[name] for name in _MORE),
        "now_ms": call.now_ms,
    }


def _fields(webhook: Webhook) -> dict[str, str]:
    """The form of a webhook as it is stored."""
    terms = webhook.terms
    return {
        "name": webhook.name,
        "type": terms.type,
        "verify": terms.verify,
        "header": terms.header,
        "algorithm": terms.algorithm,
        "digest": terms.digest,
        "prefix": terms.prefix,
        "delivery_header": terms.delivery_header or "",
        "no_delivery_header": "yes" if terms.delivery_header == "" else "",
        "payload": terms.payload,
        "answer": terms.answer,
        "wait": f"{_number(terms.wait_s)}s",
        "result_type": terms.result_type or "",
        "takes_get": "yes" if terms.takes_get else "",
    }


def _terms(form: dict[str, str]) -> Terms:
    """Raises InvalidInput."""
    typed = {**_EMPTY, **form}
    given: dict[str, Any] = {name: typed[name] for name in ("verify", "algorithm", "digest", "payload", "answer")}
    given |= {
        "type": typed["type"].strip(),
        "secrets": _named_secrets(form),
        "header": typed["header"].strip() or None,
        "prefix": typed["prefix"],
        "delivery_header": _delivery_header(typed),
        "wait_s": _seconds(typed["wait"].strip()),
        "result_type": typed["result_type"] or None,
        "takes_get": bool(typed["takes_get"]),
    }
    try:
        return terms_of(msgspec.convert(given, WebhookBody))
    except msgspec.ValidationError as error:
        refused = refusal(error, WebhookBody, "form")
        field = str(refused.detail.get("field", ""))
        words = _WORDS.get(field, field) + str(refused).removeprefix(field)  # as the form calls it
        raise InvalidInput(words, detail=refused.detail) from None


def _named_secrets(form: dict[str, str]) -> list[str]:
    return [field.removeprefix(_SECRET) for field in form if field.startswith(_SECRET)]


def _delivery_header(typed: dict[str, str]) -> str | None:
    """None: the scheme's own."""
    header = typed["delivery_header"].strip()
    if not typed["no_delivery_header"]:
        return header or None
    if header:
        raise InvalidInput(
            "either a header names a delivery, or each one becomes a job: choose one of them",
            detail={"field": "delivery_header"},
        )
    return ""


def _number(seconds: float) -> str:
    return repr(float(seconds)).removesuffix(".0")


def _seconds(text: str) -> float:
    try:
        return duration(text)
    except ValueError as error:
        raise InvalidInput(f"the longest wait: {error}", detail={"field": "wait"}) from None
