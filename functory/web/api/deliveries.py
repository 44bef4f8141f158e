"""The addresses that others post to. Who posts has no key: the webhook says how they show who they are."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple

from aiohttp import web

from functory.errors import FunctoryError
from functory.operations.jobs import is_over, wait_for_job
from functory.operations.webhooks import accept, check, find_webhook
from functory.web.api.incoming import Incoming
from functory.web.api.large_job import result_answer
from functory.web.http.answers import answer, json_answer, problem
from functory.web.http.body import read_body
from functory.web.http.body_room import most_bytes
from functory.web.http.endpoint import Call
from functory.web.http.outflow import LARGE_BYTES
from functory.web.http.routes import Routes
from functory.webhooks.delivery import Delivery
from functory.webhooks.payloads import challenge_of, result_type
from functory.webhooks.terms import Terms
from functory.wire.webhooks import Delivered
from store.base import Code, JobRecord
from store.errors import NotFound, StoreError
from vocabulary.sizes import MIB

routes = Routes()

WEBHOOK_BODY_BYTES: Final = 2 * MIB
"""Longest body of somebody without a key. A payload is no longer than this."""

_ADDRESS: Final = "/{tenant}/in/{webhook}"
_SANDBOX: Final = "default-src 'none'; frame-ancestors 'none'; sandbox"
"""What a handler has made is not to act for whoever is signed in here."""


@routes.add(
    "POST",
    _ADDRESS,
    scope="webhook",
    summary="What another service posts, which becomes a job",
    status=202,
    answer=Delivered,
    raw=("application/octet-stream",),
)
async def post_delivery(call: Call) -> web.StreamResponse:
    return await _answer(call, _receive)


@routes.add(
    "GET", _ADDRESS, scope="webhook", summary="The same without a body, where a webhook takes it", answer=Delivered
)
async def get_delivery(call: Call) -> web.StreamResponse:
    return await _answer(call, _take_get)


class _Accepted(NamedTuple):
    terms: Terms
    job_id: str


_What = _Accepted | web.StreamResponse
"""The job that a delivery is, or what is answered instead of one."""


async def _answer(call: Call, receive: Callable[[Call, Incoming], Awaitable[_What]]) -> web.StreamResponse:
    """Raises NotFound if there is no webhook (any more), and NotReadyYet if nobody knows. All else is noted."""
    name = call.param("webhook")
    incoming = Incoming(call, await find_webhook(call.service, call.tenant, name), name)
    try:
        incoming.webhook.who.require("submit")
        call.web.charge(incoming.webhook.who)
        what = await receive(call, incoming)
    except NotFound:
        raise
    except Exception as error:  # noqa: BLE001 (as at the edge: whatever it is, the sender gets an answer)
        return incoming.fail(error)
    return await _reply(call, what)


async def _receive(call: Call, incoming: Incoming) -> _What:
    """Room for the body is taken until it is a job, and not while its result is waited for."""
    limit_bytes = min(WEBHOOK_BODY_BYTES, call.web.settings.max_body_bytes)
    room = call.web.proved_bodies if incoming.has_proved else call.web.webhook_bodies
    async with room.growing(call.tenant, most_bytes(call.request, limit_bytes)) as grown:
        body = await read_body(call.request, call.web.settings, limit_bytes, grown)
        incoming.webhook = await find_webhook(call.service, call.tenant, incoming.name)  # as it is by now
        return await _deliver(call, incoming, body)


async def _take_get(call: Call, incoming: Incoming) -> _What:
    if incoming.webhook.terms.takes_get:
        return await _deliver(call, incoming, b"")
    incoming.refuse("method_not_allowed")
    refused = problem(405, "method_not_allowed", "this webhook takes POST only")
    refused.headers["Allow"] = "POST"
    return refused


async def _deliver(call: Call, incoming: Incoming, body: bytes) -> _What:
    request, webhook = call.request, incoming.webhook
    query = {option: request.query.getall(option) for option in request.query}
    headers = {header.lower(): ", ".join(request.headers.getall(header)) for header in request.headers}
    delivery = Delivery(request.method, query, headers, body)
    incoming.size_bytes = len(body)
    await check(call.service, webhook, delivery)
    challenge = challenge_of(webhook.terms, delivery)
    if challenge is not None:
        incoming.take("challenge", "")
        return json_answer({"challenge": challenge})
    accepted = await accept(call.service, webhook, incoming.name, delivery)
    incoming.take("repeated" if accepted.is_repeat else "accepted", accepted.delivery_id, accepted.job_id)
    return _Accepted(webhook.terms, accepted.job_id)


async def _reply(call: Call, what: _What) -> web.StreamResponse:
    """A delivery that is accepted is answered with the id, whatever keeps its result from being shown."""
    if not isinstance(what, _Accepted):
        return what
    terms, job_id = what
    accepted = json_answer(Delivered(job_id), 202)
    if terms.answer == "id":
        return accepted
    record = None
    with suppress(FunctoryError, StoreError):
        record = await wait_for_job(
            call.service, call.tenant, job_id, terms.wait_s, max_bytes=LARGE_BYTES, is_heard=call.is_heard
        )
    if not isinstance(record, JobRecord) or not is_over(record) or record.outcome is None:
        return accepted
    if record.outcome.code is not Code.OK:
        return problem(502, "job_failed", "the handler did not end well", {"id": job_id})
    if not record.result_bytes:
        return answer(b"", "text/plain", 204)
    content_type = result_type(terms, record.outcome.result or b"")
    shown = result_answer(call.service, call.tenant, record, content_type, "inline")
    shown.headers["Content-Security-Policy"] = _SANDBOX
    return shown
