"""What each scope of a key is worth: the table of all routes, and a key without the scope at every one of them."""

import asyncio

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.streams import StreamReader
from aiohttp.test_utils import make_mocked_request

from functory.errors import RequestTooLarge
from functory.operations.keys import create_key
from functory.web.app import ROUTES
from functory.web.http.body import read_body
from functory.web.http.routes import Route
from functory.web.http.settings import WebSettings
from functory.web.pages.mount import PAGES
from tests.support.web import Site

SCOPES = ("submit", "read", "handlers", "manage", "work", "secrets")
SUBMIT = {"POST /{tenant}/job/{type}/add", "POST /{tenant}/jobs", "POST /jobber/queue"}
HANDLERS = {
    f"{method} /{{tenant}}/handler/{rest}"
    for method, rest in (
        ("PUT", "{type}"), ("POST", "add/{type}/add"), ("POST", "{type}/invoke"), ("POST", "{type}/rollback"),
        ("POST", "del/{type}/delete"), ("DELETE", "del/{type}/delete"), ("DELETE", "{type}"),
    )
}  # fmt: skip
SECRETS = {"PUT /{tenant}/secret/{secret}", "DELETE /{tenant}/secret/{secret}"}
WORK = {f"POST /{{tenant}}/work/{verb}" for verb in ("take", "renew", "report", "move", "return")}
OPEN = {"GET /healthz", "GET /readyz", "GET /openapi.json", "GET /docs"}
OTHER = {"POST /add": "any", "GET /metrics": "metrics", "POST /{tenant}/jobs/wait": "read"}
OTHER |= dict.fromkeys(("POST /{tenant}/in/{webhook}", "GET /{tenant}/in/{webhook}"), "webhook")
"""The first finds its tenant, and asks for the scope, in the query. The third has a body of many ids, and only reads.
Who comes to the last has no key."""


def name(route: Route) -> str:
    return f"{route.method} {route.path}"


def expected(route: Route) -> str | None:
    if name(route) in OPEN:
        return None
    if name(route) in OTHER:
        return OTHER[name(route)]
    for scope, paths in (("submit", SUBMIT), ("handlers", HANDLERS), ("work", WORK), ("secrets", SECRETS)):
        if name(route) in paths:
            return scope
    if not route.is_of_tenant:
        return "operator"
    return "read" if route.method == "GET" else "manage"


def test_every_route_asks_for_its_scope() -> None:
    assert {name(route): route.scope for route in ROUTES} == {name(route): expected(route) for route in ROUTES}


def test_every_page_asks_for_its_scope() -> None:
    for page in PAGES:
        if page.path.startswith("/ui/operator"):
            assert page.scope == "operator", page.path
        elif "{tenant}" in page.path:
            changes_code = page.path.endswith(("/rollback", "/new")) or (page.method, page.path[-5:]) == (
                "POST",
                "/edit",
            )
            wanted = "handlers" if changes_code else "read" if page.method == "GET" else "manage"
            sets_secrets = "/secrets" in page.path and page.method == "POST"
            needed = "submit" if page.path.endswith("/post") else "secrets" if sets_secrets else wanted
            assert page.scope == needed, page.path
        else:
            assert page.scope in {None, "signed_in"}, page.path


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_key_without_the_scope_is_refused(site: Site, scope: str) -> None:
    others = tuple(each for each in SCOPES if each != scope)
    _, key = await create_key(site.service, "test", "acme", scopes=others)
    asked = [route for route in ROUTES if route.is_of_tenant and route.scope == scope]
    assert asked
    values = {"type": "thumb", "id": "20270115T080000000Z-a7-000000", "domain": "api"}
    values |= {"consumer": "verify", "secret": "API_KEY", "alert": "mail-fails", "webhook": "github"}
    for route in asked:
        answer = await site.call(route.method, route.path.format(tenant="acme", **values), key=key, json={})
        assert (answer.status, answer.code) == (403, "forbidden"), name(route)


async def test_a_body_without_a_length_is_bounded_while_it_comes() -> None:
    """Chunk by chunk, and never ended: a limit that is looked at when all is there would be none."""
    loop = asyncio.get_running_loop()
    protocol = BaseProtocol(loop)
    protocol.connection_made(asyncio.Transport())
    content = StreamReader(protocol, 2**16, loop=loop)
    request = make_mocked_request("POST", "/", headers={"Transfer-Encoding": "chunked"}, payload=content)
    reading = asyncio.create_task(read_body(request, WebSettings(max_body_bytes=1000, body_timeout_s=20)))
    for _ in range(20):
        content.feed_data(b"x" * 100)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    with pytest.raises(RequestTooLarge):
        await asyncio.wait_for(reading, 5)
