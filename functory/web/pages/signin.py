"""Signing in and out, the theme, and the front page.

The form for a key is open to everybody, so it has no session token. It has a random value that is also in a cookie of
its own. Another site can neither read nor set that, so it cannot sign a visitor in as somebody else.
"""

import hmac
import logging
import secrets
import time
from typing import Final

from aiohttp import web

from functory.errors import Forbidden, FunctoryError, InvalidInput, Unauthorized
from functory.operations.audit import audit
from functory.operations.principal import OPERATOR, Principal
from functory.web.pages.call import THEME_COOKIE, PageCall
from functory.web.pages.cookies import cookie_of
from functory.web.pages.declaration import Go, Page, Pages
from functory.web.pages.endpoint import MAX_NEXT_BYTES, redirect, render_page

log = logging.getLogger("functory.web")

pages = Pages()

FORM_COOKIE: Final = "functory-signin"
_YEAR_S: Final = 31_536_000


@pages.get("/", scope=None)
async def front_door(_: PageCall) -> Go:
    return Go("/ui")


@pages.get("/ui/", scope="signed_in")
@pages.get("/ui", scope="signed_in")
async def go_home(call: PageCall) -> Go:
    return Go(_home(call.who))


@pages.get("/ui/signin", scope=None)
async def show_form(call: PageCall) -> web.StreamResponse:
    return await _form(call, call.query("next"))


@pages.post("/ui/signin", scope=None)
async def sign_in(call: PageCall) -> web.StreamResponse:
    try:
        principal = await _authenticate(call)
    except FunctoryError as error:
        status = 429 if error.code == "rate_limited" else 403
        return await _form(call, call.form.get("next", ""), str(error), status)
    if call.cookie is not None:
        await call.tools.sessions.close(call.cookie)  # signing in again ends the old session
    cookie, expires_ms = await call.tools.sessions.open(principal)
    await audit(call.service, principal.key_id, "session.open", principal.tenant)
    answer = redirect(_own_path(call.form.get("next", "")) or _home(principal))
    _set_cookie(answer, call, call.cookie_name, cookie, (expires_ms - call.now_ms) // 1000)
    answer.del_cookie(FORM_COOKIE, path="/ui")
    return answer


@pages.post("/ui/signout", scope="signed_in")
async def sign_out(call: PageCall) -> web.StreamResponse:
    if call.cookie is not None:
        await call.tools.sessions.close(call.cookie)
        await audit(call.service, call.who.key_id, "session.close", call.who.tenant)
    answer = redirect("/ui/signin?note=signed_out")
    answer.del_cookie(call.cookie_name, path="/", secure=call.place.is_secure, httponly=True, samesite="Strict")
    return answer


@pages.post("/ui/theme", scope=None)
async def set_theme(call: PageCall) -> web.StreamResponse:
    """The theme is kept by the browser alone and concerns nobody else, so this needs no token."""
    theme = call.form.get("theme", "")
    if theme not in {"auto", "light", "dark"}:
        raise InvalidInput("theme is auto, light or dark")
    answer = redirect(_own_path(call.form.get("next", "")) or "/ui")
    answer.set_cookie(THEME_COOKIE, theme, max_age=_YEAR_S, path="/ui", httponly=True, samesite="Strict")
    return answer


async def _authenticate(call: PageCall) -> Principal:
    expected = cookie_of(call.request, FORM_COOKIE)
    given = call.form.get("token", "")
    if not expected or not hmac.compare_digest(expected.encode("utf-8", "surrogatepass"), given.encode()):
        raise Forbidden("the form had expired: send it again")
    call.tools.throttle.take(call.client, time.monotonic())
    try:
        principal = await call.tools.web.keys.authenticate(call.form.get("key", "").strip())
    except Unauthorized:
        call.tools.throttle.failed(time.monotonic())
        log.info("session.refused", extra={"client": call.client})
        raise Unauthorized(
            "this key is not known, has expired or was revoked: check it, or ask for a new one"
        ) from None
    needed = "operator" if principal.tenant == OPERATOR else "read"
    if needed not in principal.scopes:
        raise Forbidden(f"this key lacks the scope {needed}, which the pages need: use another one")
    return principal


async def _form(call: PageCall, go_on_to: str, problem: str = "", status: int = 200) -> web.StreamResponse:
    token = secrets.token_urlsafe(24)
    is_exposed = not call.place.is_secure and not call.place.is_loopback
    page = Page(
        "signin.html",
        {"next": _own_path(go_on_to), "problem": problem, "signin_token": token, "is_exposed": is_exposed},
        status,
    )
    answer = await render_page(call, page)
    answer.set_cookie(
        FORM_COOKIE, token, max_age=3600, path="/ui", httponly=True, samesite="Strict", secure=call.place.is_secure
    )
    return answer


def _set_cookie(answer: web.Response, call: PageCall, name: str, value: str, max_age_s: int) -> None:
    answer.set_cookie(
        name, value, max_age=max_age_s, path="/", httponly=True, samesite="Strict", secure=call.place.is_secure
    )


def _home(principal: Principal) -> str:
    return "/ui/operator" if principal.tenant == OPERATOR else f"/ui/t/{principal.tenant}"


def _own_path(path: str) -> str:
    """The path, if it is one of our pages, not too long, and a browser cannot take it for another site."""
    is_own = path == "/ui" or path.startswith("/ui/")
    is_safe = "\\" not in path and "//" not in path and path.isprintable()
    return path if is_own and is_safe and len(path.encode()) <= MAX_NEXT_BYTES else ""
