"""From a route to what aiohttp calls. Checks key, rate, query and body, calls the route's function, and renders JSON.

Ensures: a route's function is only called with a principal that has the route's scope and, on a tenant's path, is of
that tenant; and only with a query and body of the declared types.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

import msgspec
from aiohttp import web

from functory.errors import BadRequest, InvalidInput, RequestTooLarge, Unauthorized
from functory.loops.tenant_looks import TenantLooks
from functory.loops.tenant_turns import TenantTurns
from functory.operations.audit import CLIENT
from functory.operations.keyring import KeyRing
from functory.operations.principal import Principal
from functory.operations.service import Service
from functory.operations.webhooks import find_webhook
from functory.tenant_limits import TenantLimits
from functory.web.http.answers import json_answer
from functory.web.http.body import read_body
from functory.web.http.body_room import BodyRoom, most_bytes
from functory.web.http.bounded_json import SMALL_BYTES, Fields, fields_of
from functory.web.http.description import Description
from functory.web.http.edge import TENANT, Edge, Params
from functory.web.http.event_streams import EventStreams
from functory.web.http.forwarded import client_of
from functory.web.http.json_faults import why_not_json
from functory.web.http.metrics import RequestCounts
from functory.web.http.presence import has_gone
from functory.web.http.progress import ProgressEvents, wants_progress
from functory.web.http.request_rates import RequestRates
from functory.web.http.routes import Route
from functory.web.http.settings import WebSettings
from functory.web.http.turns import Turns
from functory.web.http.validation_words import refusal
from functory.wire.untyped_json import json_decoder
from runner.packages.source import Tell, nobody
from store.errors import StoreUnavailable
from vocabulary.names import TYPE_RULE, is_type
from vocabulary.sizes import MIB

MAX_JSON_VALUES: Final = 500_000
"""In one body: so many are decoded in some tens of milliseconds, in which nobody else is served."""
FREE_JOB_BYTES: Final = MIB // 8
"""Jobs of a body that take up to this much memory need no room."""
NOBODY: Final = Principal("", "", frozenset(), TenantLimits())
"""The principal of requests to open routes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """What the routes share."""

    service: Service
    settings: WebSettings
    keys: KeyRing
    buckets: RequestRates
    counts: RequestCounts
    edge: Edge
    description: Description
    turns: Turns = field(default_factory=Turns)
    bodies: BodyRoom = field(default_factory=BodyRoom)
    streams: EventStreams = field(default_factory=EventStreams)
    webhook_bodies: BodyRoom = field(default_factory=lambda: BodyRoom(8 * MIB, 4 * MIB))
    """For those whose sender nobody knows yet (api/deliveries.py): they keep nobody from posting with a key."""
    proved_bodies: BodyRoom = field(default_factory=lambda: BodyRoom(8 * MIB, 4 * MIB))
    """For those from an address that has proved lately who it is: strangers cannot take it from them."""
    job_room: BodyRoom = field(default_factory=lambda: BodyRoom(48 * MIB, 24 * MIB, FREE_JOB_BYTES))
    """For the jobs that bodies become: they can be many times as large."""

    looks: TenantLooks[bytes] = field(default_factory=lambda: TenantLooks(_reading_turns(2)))
    """At all types of a tenant: the answers, as they are sent."""

    listings: TenantTurns = field(default_factory=lambda: _reading_turns(4))
    """For lists of jobs and failures: the store has few readers, and a single read waits for one list of a tenant, not
    for all."""

    def charge(self, principal: Principal) -> None:
        """Charge the key for one request. Raises RateLimited."""
        limits, settings = principal.limits, self.settings
        self.buckets.take(
            principal.key_id,
            time.monotonic(),
            rate_per_s=limits.requests_per_s or settings.requests_per_s,
            burst=limits.requests_burst or settings.requests_burst,
        )


Admit = Callable[[], Awaitable[Principal]]
"""Who makes a request, and whether they may. Raises Unauthorized, Forbidden, and NotReadyYet if nobody knows."""


class Call:
    """One request, with who makes it."""

    __slots__ = ("_admit", "_body", "_changes", "params", "principal", "request", "room", "tell", "web")

    def __init__(
        self, web_: Web, request: web.Request, params: Params, principal: Principal, changes: int, admit: Admit
    ) -> None:
        """changes: of keys and tenants, as they were before the principal was found by `admit`."""
        self._admit = admit
        self._changes = changes
        self.web = web_
        self.request = request
        self.params = params
        self.principal = principal
        self.tell: Tell = nobody
        """Hears the steps of what takes long."""
        self.room = AsyncExitStack()
        """What the body has of `Web.bodies`."""
        self._body: bytes | None = None

    async def confirm(self) -> None:
        """Whether who asks may still have the answer, for which it has waited. Raises Unauthorized."""
        await self.web.keys.confirm(self.principal)

    @property
    def service(self) -> Service:
        return self.web.service

    @property
    def tenant(self) -> str:
        """The tenant of the key. On a tenant's path it is the tenant in the path."""
        return self.principal.tenant

    @property
    def type_name(self) -> str:
        """The type in the path. Raises InvalidInput."""
        return check_type_name(self.params["type"])

    def param(self, name: str) -> str:
        """A part of the path."""
        return self.params[name]

    async def read_body(self) -> bytes:
        """Raises what `stay_admitted` raises."""
        if self._body is not None:
            return self._body
        body = await read_body(self.request, self.web.settings)
        await self.stay_admitted()
        return body

    async def stay_admitted(self) -> None:
        """After a wait: whether who asks may still do so, if a key or a tenant was changed meanwhile. There may be
        another tenant of the name by now. Raises what `Admit` does."""
        changes = self.web.keys.changes
        if changes != self._changes:
            self.principal, self._changes = await self._admit(), changes

    def is_heard(self) -> bool:
        """Whether somebody still waits for the answer."""
        return not has_gone(self.request)

    def refuse_unheard(self) -> None:
        """After a wait: nobody hears of the answer any more, and it is not to take the turns of others. Raises
        BadRequest, to nobody."""
        if not self.is_heard():
            raise BadRequest("the client has gone")

    async def keep_body(self) -> None:
        """Have the body before the answer begins."""
        self._body = await self.read_body()

    async def forget_body(self) -> None:
        """It has been worked off, and others may have its room while this request waits for something else."""
        self._body = None
        await self.room.aclose()


class Endpoint:
    """What aiohttp calls for one route."""

    def __init__(self, web_: Web, route: Route) -> None:
        self._web = web_
        self._route = route
        self._is_of_tenant = route.is_of_tenant
        self._is_webhook = route.scope == "webhook"
        self._may_be_audited = route.method != "GET" and route.scope not in (None, "submit")
        self._no_query = route.query() if route.query is not None and not _required(route.query) else None
        self._decoder = json_decoder(route.body) if route.body is not None else None
        self._needs_room = (route.body is not None or bool(route.raw)) and not self._is_webhook

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Called by aiohttp's router."""
        return await self.handle(request, request.match_info)

    async def handle(self, request: web.Request, params: Params) -> web.StreamResponse:
        """Called when the path has been matched already."""
        return await self._web.edge.pass_through(request, params, self._answer, self._route.path)

    async def _answer(self, request: web.Request, params: Params) -> web.StreamResponse:
        route, changes = self._route, self._web.keys.changes
        principal = await self._admit(request, params, is_new=True)
        call = Call(self._web, request, params, principal, changes, partial(self._admit, request, params))
        if self._may_be_audited:
            CLIENT.set(client_of(request, self._web.settings.trusted_proxies).address)
        given: dict[str, Any] = {}
        if route.query is not None:
            given["query"] = self._query(request)
        elif request.query_string and not self._is_webhook:
            raise InvalidInput("this path takes no query options: leave them out")
        if not self._needs_room:
            return await self._call(call, given)
        body_room = self._web.bodies.of(call.tenant, most_bytes(request, self._web.settings.max_body_bytes))
        async with call.room:
            await call.room.enter_async_context(body_room)
            if self._decoder is None:
                return await self._call(call, given)
            body = await call.read_body() or b"{}"
            size_bytes = 0 if route.weigh is None else route.weigh(body)
            async with self._web.job_room.of(call.tenant, size_bytes) as has_waited:
                if has_waited:
                    call.refuse_unheard()
                    await call.stay_admitted()
                given["body"] = decode_json(self._decoder, body)
                return await self._call(call, given)

    async def _call(self, call: Call, given: dict[str, Any]) -> web.StreamResponse:
        if not self._route.progress or not self._is_streamed(call):
            return await self._plain(call, given)
        if self._route.raw:
            await call.keep_body()

        def work(tell: Tell) -> Awaitable[web.StreamResponse]:
            call.tell = tell
            return self._plain(call, given)

        key = bearer(call.request.headers.get("Authorization"))
        events = ProgressEvents(call.request, call.tenant, self._web.edge)
        return await self._web.streams.send(
            call.request, call.principal, events.of(work), lambda: self._web.keys.admit(key), math.inf, events.refuse
        )

    def _is_streamed(self, call: Call) -> bool:
        return wants_progress(call.request, has_room=self._web.streams.has_room(call.principal))

    async def _plain(self, call: Call, given: dict[str, Any]) -> web.StreamResponse:
        answer = await self._route.call(call, **given)
        if isinstance(answer, web.StreamResponse):
            return answer
        return json_answer(answer, self._route.status)

    async def _admit(self, request: web.Request, params: Params, *, is_new: bool = False) -> Principal:
        """is_new: it is charged."""
        route, state = self._route, self._web
        if route.scope is None or (route.scope == "metrics" and state.settings.is_metrics_public):
            return NOBODY
        if route.scope == "webhook":
            webhook = await find_webhook(state.service, params["tenant"], params["webhook"])
            return webhook.who  # who posts acts for its tenant, and has proved nothing yet
        principal = await state.keys.admit(bearer(request.headers.get("Authorization")))
        if is_new:
            state.charge(principal)
        if self._is_of_tenant:
            principal.require_tenant(params["tenant"])
        else:
            request[TENANT] = principal.tenant
        if route.scope != "any":
            principal.require(route.scope)
        return principal

    def _query(self, request: web.Request) -> Any:
        if not request.query_string and self._no_query is not None:
            return self._no_query
        given: dict[str, str] = {}
        for name, value in request.query.items():
            if name in given:
                raise InvalidInput(f"the query option {name[:40]!r} is given twice", detail={"field": name[:40]})
            given[name] = value
        try:
            return msgspec.convert(given, self._route.query, strict=False)
        except msgspec.ValidationError as error:
            raise refusal(error, self._route.query, "query") from None


def _reading_turns(seats: int) -> TenantTurns:
    """While the store is away, a tenant's readers do not wait for one timeout after the other."""
    return TenantTurns(asyncio.Semaphore(seats), of_one=1, shared=(StoreUnavailable,))


def bearer(header: str | None) -> str:
    """The key in an Authorization header."""
    if header is None:
        raise Unauthorized("a key is needed: send the header Authorization: Bearer fk_...")
    scheme, _, text = header.partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise Unauthorized("the Authorization header must read: Bearer fk_...")
    return text.strip()


def decode_json(decoder: "msgspec.json.Decoder[Any]", body: bytes, field: str = "", parts: Fields | None = None) -> Any:
    """Decode a body, or a field of it. `parts`: how it is taken apart if it is large, unless its type says it. Raises
    BadRequest if it is not JSON, InvalidInput if it does not fit, RequestTooLarge, LimitExceeded."""
    check_json_size(body, field or "the body")
    parts = None if len(body) <= SMALL_BYTES else parts or fields_of(cast("Hashable", decoder.type))
    try:
        return decoder.decode(body) if parts is None else parts.decode(decoder, body)
    except msgspec.ValidationError as error:
        raise refusal(error, decoder.type if parts is None else parts.kind, "body", field) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = {"in": "body", **({"field": field} if field else {})}
        raise BadRequest(f"{field or 'the body'} is not JSON: {why_not_json(body, error)}", detail=detail) from None


def check_json_size(body: bytes, what: str = "the body") -> None:
    """Count before anything is built: a few bytes of JSON can be a value, and a value costs fifty bytes and more.

    Text that looks like JSON is counted as well, which is why the limit is high. Raises RequestTooLarge.
    """
    if len(body) > MAX_JSON_VALUES:
        values = body.count(b",") + body.count(b"[") + body.count(b"{")
        if values > MAX_JSON_VALUES:
            raise RequestTooLarge(
                f"{what} holds about {values} JSON values, at most {MAX_JSON_VALUES}: split it, or send lines",
                detail={"limit": "json_values"},
            )


def check_type_name(name: str, where: str = "path", field: str = "type") -> str:
    if not is_type(name):
        raise InvalidInput(f"{name[:80]!r} is not a type: {TYPE_RULE}", detail={"in": where, "field": field})
    return name


def _required(struct: Any) -> bool:
    return any(field.required for field in msgspec.structs.fields(struct))
