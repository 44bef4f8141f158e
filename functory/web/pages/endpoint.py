"""From a page to what aiohttp calls: checks host, session, tenant and form, calls the function, renders HTML.

Ensures: a page's function is called only under a host of ours and, unless the page is open, for a session whose key has
the scope and reaches the tenant in the path. A POST also needs the session's token in its form, and our own origin.
Whoever may not see a tenant gets the same answer as for one that does not exist.
"""

import asyncio
import hmac
import math
import time
from typing import Any, Final
from urllib.parse import quote

from aiohttp import web

from functory.errors import BadRequest, Forbidden, FunctoryError, InvalidInput, Missing, Unauthorized
from functory.operations.audit import CLIENT
from functory.operations.principal import OPERATOR, Principal
from functory.operations.tenants import find_tenant
from functory.tenant_limits import limits_from
from functory.web.http.answers import describe_error, json_answer
from functory.web.http.body import read_body
from functory.web.http.body_room import most_bytes
from functory.web.http.edge import REQUEST_ID, Params
from functory.web.http.endpoint import Web
from functory.web.http.form import parse_form
from functory.web.http.progress import ProgressEvents, wants_progress
from functory.web.pages import inert_text
from functory.web.pages.call import THEME_COOKIE, PageCall, PageTools
from functory.web.pages.cookies import cookie_of
from functory.web.pages.declaration import LIVE, Go, Page, PageRoute
from functory.web.pages.notices import NOTES
from journal import JournalError
from runner.packages.source import Tell
from store.errors import StoreError
from vocabulary.sizes import MIB

_FORM_FIELDS: Final = 60
_FORM_BYTES: Final = 8 * MIB
"""Code and a payload, each of a MiB, and every byte of them written with three."""
_OPEN_FORM_BYTES: Final = 16 * 1024
"""Of a form that needs no session: a key and a path."""

HEADERS: Final = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


MAX_NEXT_BYTES: Final = 2000
"""Of the path to go on to after a form. It becomes a header of the answer, and many proxies take 4 KiB of headers."""


class PageEndpoint:
    """What aiohttp calls for one page."""

    def __init__(self, tools: PageTools, route: PageRoute, parts_beyond: int = 0) -> None:
        """parts_beyond: how many parts at the end of the path are a form's alone. Without them it is a page's path."""
        self._tools = tools
        self._route = route
        self._parts_beyond = parts_beyond

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        visit = _Visit(self._tools, self._route, self._parts_beyond)
        edge = self._tools.web.edge
        return await edge.pass_through(request, request.match_info, visit.answer, self._route.path, visit.trouble)

    async def live(self, request: web.Request) -> web.StreamResponse:
        """The address of the page's live part."""
        visit = _Visit(self._tools, self._route)
        path = self._route.path + LIVE
        return await self._tools.web.edge.pass_through(request, request.match_info, visit.stream, path)


class _Visit:
    """One request, from the host's name to the answer."""

    def __init__(self, tools: PageTools, route: PageRoute, parts_beyond: int = 0) -> None:
        self._tools = tools
        self._route = route
        self._parts_beyond = parts_beyond
        self._call: PageCall | None = None

    async def answer(self, request: web.Request, params: Params) -> web.StreamResponse:
        keys = self._tools.web.keys
        changes = keys.changes
        try:
            call = await self._enter(request, params)
        except Unauthorized:
            if request.method != "GET":
                raise
            return redirect(_sign_in_address(request.path_qs))
        if self._route.method == "POST":
            CLIENT.set(call.client)
            await _take_form(call)
            if keys.changes != changes:  # it may have come slowly, and there may be another tenant of the name by now
                await admit(call, self._route)
            try:
                _check_token(call)
            except Forbidden as error:
                return await _finish(call, self._route, await self._refused(call, error))
        has_room = self._tools.web.streams.has_room(call.who)
        if self._route.progress and wants_progress(request, has_room=has_room):
            return await self._stream_steps(call)
        return await self._finished(call)

    async def _finished(self, call: PageCall) -> web.StreamResponse:
        if self._route.method == "GET" and call.tenant and call.query("note") in NOTES:
            self._tools.recent.renew(call.who)
        try:
            answer = await self._route.call(call)
        except (FunctoryError, StoreError, JournalError) as error:
            answer = await self._refused(call, error)
        if self._route.method == "POST" and call.tenant:
            self._tools.recent.forget(call.who)
        return await _finish(call, self._route, answer)

    async def _refused(self, call: PageCall, error: Exception) -> Page:
        """The page that the form is on, with what was typed and the reason. Raises the error if it is on none,
        or on one of something that is not there."""
        if self._route.form is None:
            raise error
        problem = describe_error(error, call.request[REQUEST_ID], call.client)
        call.refusal = problem.message
        try:
            page = await self._route.form(call)
        except (Missing, StoreError):
            raise error from None
        return page._replace(status=problem.status)

    async def _stream_steps(self, call: PageCall) -> web.StreamResponse:
        """The same, as events: steps, and at last the page, or the address to go to."""

        async def work(tell: Tell) -> web.StreamResponse:
            call.tell = tell
            return _as_json(await self._finished(call))

        def trouble(error: Exception, request_id: str, client: str) -> web.StreamResponse:
            return _as_json(self.trouble(error, request_id, client))

        state = self._tools.web
        events = ProgressEvents(call.request, call.tenant, state.edge, trouble)
        return await state.streams.send(
            call.request, call.who, events.of(work), lambda: admit(call, self._route), math.inf, events.refuse
        )

    async def stream(self, request: web.Request, params: Params) -> web.StreamResponse:
        call = await self._enter(request, params)
        call.path = request.path.removesuffix(LIVE)

        async def make() -> str:
            page = await self._route.call(call)
            assert isinstance(page, Page)
            if page.status == 404:  # another page, about what is gone
                raise Missing("what the page shows does not exist any more")
            values = {**frame(call), **page.values, "page_state": _page_state(call, page)}
            return await self._tools.assets.render(self._route.live, values)

        joined = call.who

        async def is_welcome() -> bool:
            """Who may do something else by now sees something else: their browser asks again."""
            try:
                await admit(call, self._route)
            except (FunctoryError, StoreError):
                return False
            return (call.who.scopes, call.who.suspended) == (joined.scopes, joined.suspended)

        session = call.session.form_token if call.session else ""
        return await self._tools.hub.stream(request, call.who, session, call.place.origin, make, is_welcome)

    def trouble(self, error: Exception, request_id: str, client: str) -> web.StreamResponse:
        """An error as a page."""
        problem = describe_error(error, request_id, client)
        values: dict[str, Any] = {"status": problem.status, "code": problem.code, "message": problem.message}
        if self._call is None:
            text = self._tools.assets.render_small("bare_trouble.html", values)
        else:
            text = self._tools.assets.render_small("trouble.html", {**frame(self._call), **values})
        answer = html(text, problem.status)
        if problem.retry_after_s is not None:
            answer.headers["Retry-After"] = str(problem.retry_after_s)
        return answer

    async def _enter(self, request: web.Request, params: Params) -> PageCall:
        place = self._tools.origins.place(request.headers.get("Host", ""))
        self._call = call = PageCall(self._tools, request, params, place)
        call.path = request.path.rsplit("/", self._parts_beyond)[0] if self._parts_beyond else request.path
        await admit(call, self._route)
        if call.session is not None:
            _count(self._tools.web, call.session.principal)
        return call


def _sign_in_address(go_on_to: str) -> str:
    """Without the way back if that is long: whoever asks has shown no key."""
    encoded = quote(go_on_to, safe="")
    return f"/ui/signin?next={encoded}" if len(encoded) <= MAX_NEXT_BYTES else "/ui/signin"


def _count(state: Web, principal: Principal) -> None:
    """Charge the key for a page, like any request. Raises RateLimited."""
    limits, settings = principal.limits, state.settings
    state.buckets.take(
        principal.key_id,
        time.monotonic(),
        rate_per_s=limits.requests_per_s or settings.requests_per_s,
        burst=limits.requests_burst or settings.requests_burst,
    )


async def _take_form(call: PageCall) -> None:
    call.tools.origins.check_origin(call.place, call.request.headers)
    call.form = await read_form(call)


def _check_token(call: PageCall) -> None:
    if call.session is not None and not hmac.compare_digest(
        call.form.pop("token", "").encode(), call.session.form_token.encode()
    ):
        raise Forbidden("the form is from another session, and nothing was done: send it again")


async def admit(call: PageCall, route: PageRoute) -> None:
    """Find out who asks and whether they may see the page. Raises Unauthorized, Forbidden, Missing."""
    if route.scope is None:
        return
    call.session = await call.tools.sessions.find(call.cookie)
    principal = call.session.principal
    call.who = principal
    if "tenant" in call.params:
        call.who = await _of_tenant(call, principal, call.params["tenant"])
    if route.scope != "signed_in":
        if route.scope == "operator" and principal.tenant != OPERATOR:
            raise Missing("there is nothing at this address")
        who = call.who._replace(suspended=False) if call.is_operator else call.who
        who.require(route.scope)


async def _of_tenant(call: PageCall, principal: Principal, name: str) -> Principal:
    """The operator may look at every tenant's pages and manage its jobs, also while it is suspended, but not change
    its code."""
    if principal.tenant == name:
        return principal
    unknown = Missing("there is nothing at this address for you")
    if principal.tenant != OPERATOR or "operator" not in principal.scopes:
        raise unknown
    tenant = await find_tenant(call.service, name) if name.isascii() and len(name) <= 32 else None
    if tenant is None:
        raise unknown
    await call.service.control.meet_tenant(tenant.name, tenant.created_ms)  # before it gets a job
    scopes = frozenset({"read", "manage"})
    return Principal(
        principal.key_id,
        tenant.name,
        scopes,
        limits_from(tenant.limits),
        tenant.suspended,
        tenant_since_ms=tenant.created_ms,
    )


async def read_form(call: PageCall) -> dict[str, str]:
    if call.request.content_type != "application/x-www-form-urlencoded":
        raise BadRequest("this address takes a form")
    state = call.tools.web
    limit_bytes = min(_FORM_BYTES, state.settings.max_body_bytes)
    if call.session is None:
        if "Content-Encoding" in call.request.headers:
            raise BadRequest("this address takes no compressed form: send it without Content-Encoding")
        limit_bytes = _OPEN_FORM_BYTES
    async with state.bodies.of(call.tenant, most_bytes(call.request, limit_bytes)):
        body = await read_body(call.request, state.settings, limit_bytes)
        return _fields(body) if len(body) <= _OPEN_FORM_BYTES else await asyncio.to_thread(_fields, body)


def _fields(body: bytes) -> dict[str, str]:
    try:
        pairs = parse_form(body, _FORM_FIELDS)
    except ValueError as error:
        raise BadRequest(f"the form cannot be read: {error}") from None
    form: dict[str, str] = {}
    for name, value in pairs:
        if name in form:
            raise InvalidInput(f"the form has two fields {name[:40]!r}")
        form[name] = value.replace("\r\n", "\n")
    return form


async def _finish(call: PageCall, route: PageRoute, answer: Page | Go | web.StreamResponse) -> web.StreamResponse:
    if isinstance(answer, web.StreamResponse):
        return answer
    if isinstance(answer, Go):
        mark = "&" if "?" in answer.path else "?"
        return redirect(answer.path + (f"{mark}note={answer.note}" if answer.note else ""))
    live_url = ""
    if route.live and not call.refusal:
        path, mark, query = call.link().partition("?")
        live_url = f"{path}{LIVE}{mark}{query}"
    return await render_page(call, answer, live_url)


async def render_page(call: PageCall, page: Page, live_url: str = "") -> web.Response:
    values = {**frame(call), "live_url": live_url, **page.values, "page_state": _page_state(call, page)}
    return html(await call.tools.assets.render(page.template, values), page.status)


def _page_state(call: PageCall, page: Page) -> str:
    return " ".join(str(it) for it in (call.who.suspended, *page.state))


def frame(call: PageCall) -> dict[str, Any]:
    """Values for the frame around every page."""
    theme = cookie_of(call.request, THEME_COOKIE)
    return {
        "path": call.path,
        "path_qs": call.link(),
        "theme": theme if theme in {"light", "dark"} else "auto",
        "token": call.session.form_token if call.session else "",
        "is_signed_in": call.session is not None,
        "is_operator": call.is_operator,
        "tenant": call.who.tenant,
        "is_suspended": call.who.suspended,
        "note": NOTES.get(call.query("note"), ""),
        "refusal": inert_text.line(call.refusal, 600),
        "now_ms": call.now_ms,
        "call": call,
        "live_url": "",
    }


def _as_json(answer: web.StreamResponse) -> web.StreamResponse:
    """A page, or where to go, for the page's script."""
    assert isinstance(answer, web.Response)
    if "Location" in answer.headers:
        shown: dict[str, object] = {"location": answer.headers["Location"]}
    else:
        shown = {"html": answer.text}
    told = json_answer(shown, answer.status)
    if "Retry-After" in answer.headers:
        told.headers["Retry-After"] = answer.headers["Retry-After"]
    return told


def html(text: str, status: int = 200) -> web.Response:
    return web.Response(body=text.encode("utf-8", "replace"), status=status, headers=HEADERS)


def redirect(path: str) -> web.Response:
    return web.Response(status=303, headers={**HEADERS, "Location": path})
