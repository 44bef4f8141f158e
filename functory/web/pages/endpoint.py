"""From a page to what aiohttp calls: the host, the session, the tenant, the form; then the function; then HTML.

Ensures: a page's function is called only under a host that is ours and, unless the page is open, for a session whose
key has the scope and reaches the tenant in the path; a POST only with the session's token in its form and from our own
origin. Whoever may not see a tenant gets the same answer as for one that does not exist.
"""

import hmac
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

from aiohttp import web

from functory.errors import BadRequest, Forbidden, FunctoryError, InvalidInput, Missing, Unauthorized
from functory.operations.keyring import limits_of
from functory.operations.principal import OPERATOR, Principal
from functory.operations.service import Service
from functory.web.answers import describe_error
from functory.web.body import read_body
from functory.web.edge import Params
from functory.web.endpoint import NOBODY, Web, check_type_name
from functory.web.pages.assets import Assets, load_assets
from functory.web.pages.declare import Go, Page, PageRoute
from functory.web.pages.fence import Fence, Place
from functory.web.pages.live import LiveHub
from functory.web.pages.notes import NOTES
from functory.web.pages.recent import Recent
from functory.web.pages.sessions import Session, Sessions
from functory.web.pages.throttle import SignInThrottle
from store.errors import StoreError

SECURE_COOKIE: Final = "__Host-functory"
PLAIN_COOKIE: Final = "functory-session"
"""A browser sends the first over TLS only, and only to the very host that set it."""
THEME_COOKIE: Final = "functory-theme"
_FORM_FIELDS: Final = 60

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What the pages share."""

    web: Web
    fence: Fence
    sessions: Sessions
    throttle: SignInThrottle
    recent: Recent
    hub: LiveHub

    @property
    def assets(self) -> Assets:
        """Loaded by the application when it starts."""
        return load_assets()


class PageCall:
    """One request for a page: who makes it, for which tenant, and the form that came with it."""

    __slots__ = ("desk", "form", "params", "path", "place", "request", "session", "who")

    def __init__(self, desk: Desk, request: web.Request, params: Params, place: Place) -> None:
        self.desk = desk
        self.request = request
        self.params = params
        self.path = request.path
        """Of the page, also when its live part is asked for."""
        self.place = place
        self.session: Session | None = None
        self.who: Principal = NOBODY
        """On a tenant's page the principal of that tenant, for the operator too; elsewhere the session's."""
        self.form: dict[str, str] = {}

    @property
    def service(self) -> Service:
        return self.desk.web.service

    @property
    def now_ms(self) -> int:
        return self.service.now_ms()

    @property
    def tenant(self) -> str:
        return self.who.tenant

    @property
    def type_name(self) -> str:
        return check_type_name(self.params["type"])

    @property
    def jobtype(self) -> str:
        return f"{self.tenant}-{self.type_name}"

    @property
    def is_operator(self) -> bool:
        return self.session is not None and self.session.principal.tenant == OPERATOR

    @property
    def home(self) -> str:
        """The address of the tenant's pages."""
        return f"/ui/t/{self.tenant}"

    def query(self, name: str, default: str = "") -> str:
        return self.request.query.get(name, default)

    def number(self, name: str, default: int, low: int, high: int) -> int:
        """A whole number of the query; whatever is none is the default."""
        text = self.query(name)
        return min(max(int(text), low), high) if text.isascii() and text.isdigit() and len(text) < 16 else default

    def may(self, scope: str) -> bool:
        return scope in self.who.scopes and (scope == "read" or not self.who.suspended)

    def link(self, **changes: object) -> str:
        """This address with other query options; None leaves one out."""
        query = {name: value for name, value in self.request.query.items() if name != "note"}
        query |= {name: str(value) for name, value in changes.items() if value is not None}
        for name, value in changes.items():
            if value is None:
                query.pop(name, None)
        return self.path + (f"?{urlencode(query)}" if query else "")

    @property
    def cookie_name(self) -> str:
        return SECURE_COOKIE if self.place.is_secure else PLAIN_COOKIE

    @property
    def cookie(self) -> str | None:
        return self.request.cookies.get(self.cookie_name)


class PageEndpoint:
    """What aiohttp calls for one page."""

    def __init__(self, desk: Desk, route: PageRoute) -> None:
        self._desk = desk
        self._route = route

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        visit = _Visit(self._desk, self._route)
        edge = self._desk.web.edge
        return await edge.pass_through(request, request.match_info, visit.answer, self._route.path, visit.trouble)

    async def live(self, request: web.Request) -> web.StreamResponse:
        """The address of the page's part that is sent again and again."""
        visit = _Visit(self._desk, self._route)
        path = f"{self._route.path}/live"
        return await self._desk.web.edge.pass_through(request, request.match_info, visit.stream, path)


class _Visit:
    """One request, from the host's name to the answer."""

    def __init__(self, desk: Desk, route: PageRoute) -> None:
        self._desk = desk
        self._route = route
        self._call: PageCall | None = None

    async def answer(self, request: web.Request, params: Params) -> web.StreamResponse:
        try:
            call = await self._enter(request, params)
        except Unauthorized:
            if request.method != "GET":
                raise
            return redirect(f"/ui/signin?next={quote(request.path_qs, safe='')}")
        if self._route.method == "POST":
            await _take_form(call)
        answer = await self._route.call(call)
        if self._route.method == "POST" and call.tenant:
            self._desk.recent.forget(call.tenant)
        return _finish(call, self._route, answer)

    async def stream(self, request: web.Request, params: Params) -> web.StreamResponse:
        call = await self._enter(request, params)
        call.path = request.path.removesuffix("/live")

        async def make() -> str:
            page = await self._route.call(call)
            assert isinstance(page, Page)
            return self._desk.assets.render(self._route.live, {**frame(call), **page.values})

        async def is_welcome() -> bool:
            try:
                await admit(call, self._route)
            except (FunctoryError, StoreError):
                return False
            return True

        return await self._desk.hub.stream(request, make, is_welcome)

    def trouble(self, error: Exception, request_id: str, client: str) -> web.StreamResponse:
        """An error as a page."""
        problem = describe_error(error, request_id, client)
        values: dict[str, Any] = {"status": problem.status, "code": problem.code, "message": problem.message}
        if self._call is None:
            text = self._desk.assets.render("bare_trouble.html", values)
        else:
            text = self._desk.assets.render("trouble.html", {**frame(self._call), **values})
        answer = html(text, problem.status)
        if problem.retry_after_s is not None:
            answer.headers["Retry-After"] = str(problem.retry_after_s)
        return answer

    async def _enter(self, request: web.Request, params: Params) -> PageCall:
        place = self._desk.fence.place(request.headers.get("Host", ""))
        self._call = call = PageCall(self._desk, request, params, place)
        await admit(call, self._route)
        return call


async def _take_form(call: PageCall) -> None:
    call.desk.fence.check_origin(call.place, call.request.headers)
    call.form = await read_form(call)
    if call.session is not None and not hmac.compare_digest(
        call.form.pop("token", "").encode(), call.session.form_token.encode()
    ):
        raise Forbidden("the form is from another session: go back, reload the page, and send it again")


async def admit(call: PageCall, route: PageRoute) -> None:
    """Who asks, and whether the page is theirs. Raises Unauthorized, Forbidden, Missing."""
    if route.scope is None:
        return
    call.session = await call.desk.sessions.find(call.cookie)
    principal = call.session.principal
    call.who = principal
    if "tenant" in call.params:
        call.who = await _of_tenant(call, principal, call.params["tenant"])
    if route.scope != "signed_in":
        if route.scope == "operator" and principal.tenant != OPERATOR:
            raise Missing("there is nothing at this address")
        call.who.require(route.scope)


async def _of_tenant(call: PageCall, principal: Principal, name: str) -> Principal:
    """The operator may look at every tenant's pages and manage its jobs, and does not change its code."""
    if principal.tenant == name:
        return principal
    unknown = Missing("there is nothing at this address for you")
    if principal.tenant != OPERATOR or "operator" not in principal.scopes:
        raise unknown
    tenant = await call.service.store.get_tenant(name) if name.isascii() and len(name) <= 32 else None
    if tenant is None:
        raise unknown
    return Principal(principal.key_id, tenant.name, frozenset({"read", "manage"}), limits_of(tenant))


async def read_form(call: PageCall) -> dict[str, str]:
    if call.request.content_type != "application/x-www-form-urlencoded":
        raise BadRequest("this address takes a form")
    body = await read_body(call.request, call.desk.web.settings)
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_FORM_FIELDS, errors="strict")
    except ValueError as error:
        raise BadRequest(f"the form cannot be read: {error}") from None
    form: dict[str, str] = {}
    for name, value in pairs:
        if name in form:
            raise InvalidInput(f"the form has two fields {name[:40]!r}")
        form[name] = value.replace("\r\n", "\n")
    return form


def _finish(call: PageCall, route: PageRoute, answer: Page | Go | web.StreamResponse) -> web.StreamResponse:
    if isinstance(answer, web.StreamResponse):
        return answer
    if isinstance(answer, Go):
        mark = "&" if "?" in answer.path else "?"
        return redirect(answer.path + (f"{mark}note={answer.note}" if answer.note else ""))
    live_url = ""
    if route.live:
        path, mark, query = call.link().partition("?")
        live_url = f"{path}/live{mark}{query}"
    return render_page(call, answer, live_url)


def render_page(call: PageCall, page: Page, live_url: str = "") -> web.Response:
    values = {**frame(call), "live_url": live_url, **page.values}
    return html(call.desk.assets.render(page.template, values), page.status)


def frame(call: PageCall) -> dict[str, Any]:
    """What the frame around every page needs."""
    theme = call.request.cookies.get(THEME_COOKIE, "auto")
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
        "now_ms": call.now_ms,
        "call": call,
        "live_url": "",
    }


def html(text: str, status: int = 200) -> web.Response:
    return web.Response(body=text.encode("utf-8", "replace"), status=status, headers=HEADERS)


def redirect(path: str) -> web.Response:
    return web.Response(status=303, headers={**HEADERS, "Location": path})
