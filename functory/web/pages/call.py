"""One request for a page, and what all pages share."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from aiohttp import web

from functory.operations.principal import OPERATOR, Principal
from functory.operations.service import Service
from functory.operations.sessions import Session, Sessions
from functory.web.http.edge import Params
from functory.web.http.endpoint import NOBODY, Web, check_type_name
from functory.web.http.forwarded import client_of
from functory.web.http.presence import has_gone
from functory.web.pages.allowed_origins import AllowedOrigins, Place
from functory.web.pages.assets import Assets, load_assets
from functory.web.pages.cookies import cookie_of
from functory.web.pages.live import LiveHub
from functory.web.pages.recent import Recent
from functory.web.pages.throttle import SignInThrottle
from runner.packages.source import Tell, nobody
from vocabulary.names import jobtype_of

SECURE_COOKIE: Final = "__Host-functory"
PLAIN_COOKIE: Final = "functory-session"
"""A browser sends the first only over TLS, and only to the host that set it."""
THEME_COOKIE: Final = "functory-theme"


def whole_number(text: str) -> int | None:
    """Digits as a number, None for anything else. `²` is a digit to Python, and no number."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageTools:
    """What the pages share."""

    web: Web
    origins: AllowedOrigins
    sessions: Sessions
    throttle: SignInThrottle
    recent: Recent
    hub: LiveHub

    @property
    def assets(self) -> Assets:
        """The application loads them when it starts."""
        return load_assets()


class PageCall:
    """One request for a page: who makes it, for which tenant, and the form that came with it."""

    __slots__ = ("form", "params", "path", "place", "refusal", "request", "session", "tell", "tools", "who")

    def __init__(self, tools: PageTools, request: web.Request, params: Params, place: Place) -> None:
        self.tools = tools
        self.request = request
        self.params = params
        self.path = request.path
        """The path of the page: also when its live part is asked for, or when a form was sent that leads back to it."""
        self.place = place
        self.session: Session | None = None
        self.who: Principal = NOBODY
        """On a tenant's page the principal of that tenant, also for the operator; elsewhere the session's."""
        self.form: dict[str, str] = {}
        self.refusal = ""
        """Why the form, or what the query asks for, was refused. The frame shows it above the page."""
        self.tell: Tell = nobody
        """Hears the steps of what takes long."""

    @property
    def service(self) -> Service:
        return self.tools.web.service

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
        return jobtype_of(self.tenant, self.type_name)

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
        """A whole number from the query; the default if it is not one."""
        number = whole_number(self.query(name))
        return default if number is None else min(max(number, low), high)

    def start(self, count: int, page_rows: int) -> int:
        """The first row of a list of `count` that this page shows (`from`): its last page if there is none so late."""
        start = self.number("from", 0, 0, 1_000_000)
        return start if start < count else max(count - 1, 0) // page_rows * page_rows

    def is_heard(self) -> bool:
        """Whether somebody still waits for the page."""
        return not has_gone(self.request)

    def may(self, scope: str) -> bool:
        return scope in self.who.scopes and (scope == "read" or self.is_operator or not self.who.suspended)

    def link(self, **changes: object) -> str:
        """This address with other query options; None leaves one out."""
        query = {name: value for name, value in self.request.query.items() if name != "note"}
        query |= {name: str(value) for name, value in changes.items() if value is not None}
        for name, value in changes.items():
            if value is None:
                query.pop(name, None)
        return self.path + (f"?{urlencode(query)}" if query else "")

    @property
    def client(self) -> str:
        """The address of the browser, also behind a proxy that we trust."""
        return client_of(self.request, self.tools.web.settings.trusted_proxies).address

    @property
    def cookie_name(self) -> str:
        return SECURE_COOKIE if self.place.is_secure else PLAIN_COOKIE

    @property
    def cookie(self) -> str | None:
        return cookie_of(self.request, self.cookie_name)
