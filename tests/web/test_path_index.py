"""The index of paths finds what aiohttp's router finds, and leaves to it what it does not know."""

import itertools
from typing import Final

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st

from functory.web.app import ROUTES
from functory.web.http.path_index import PathIndex
from functory.web.http.routes import Route
from functory.web.pages.mount import PAGES

INDEX: Final = PathIndex[Route]()
ROUTER: Final = web.UrlDispatcher()
HANDLERS: Final[dict[object, Route]] = {}


async def nothing(_: web.Request) -> web.Response:
    return web.Response()


for one in ROUTES:
    INDEX.add(one.method, one.path, one)
    HANDLERS[ROUTER.add_route(one.method, one.path, nothing)] = one

WORDS: Final = sorted({part for route in ROUTES for part in route.path.split("/")[1:] if not part.startswith("{")})
NAMES: Final = st.one_of(st.sampled_from(WORDS), st.text("aZ0_.:-", min_size=1, max_size=4))


async def routed(method: str, path: str) -> tuple[Route, dict[str, str]] | None:
    match = await ROUTER.resolve(make_mocked_request(method, path))
    return None if match.http_exception is not None else (HANDLERS[match.route], dict(match))


@st.composite
def paths(draw: st.DrawFn) -> tuple[str, str]:
    """Of a route, with anything where anything may be; sometimes with a part too many or too few."""
    route = draw(st.sampled_from(ROUTES))
    parts = [draw(NAMES) if part.startswith("{") else part for part in route.path.split("/")[1:]]
    change = draw(st.sampled_from(["", "", "", "more", "less", "other"]))
    if change == "more":
        parts.append(draw(NAMES))
    elif change == "less":
        parts.pop()
    elif change == "other":
        parts[draw(st.integers(0, len(parts) - 1))] = draw(NAMES)
    method = draw(st.sampled_from([route.method, "GET", "POST", "HEAD"]))
    return method, "/" + "/".join(parts)


@given(paths())
async def test_it_finds_the_route_that_the_router_finds(asked: tuple[str, str]) -> None:
    method, path = asked
    found, wanted = INDEX.find(method, path), await routed(method, path)
    if found is None and "/." in path:
        return
    assert found == wanted


@pytest.mark.parametrize(
    "path",
    [
        "/acme/job/%61/why",
        "/acme/job//why",
        "/acme/job/a/why/",
        "/acme/job/../why",
        "/acme/job/a b/why",
        "/acme/job/é/why",
        "/acme/job/a/why\n",
        "/acme/job/{id}/why",
        "http://host/acme/job/a/why",
        "*",
        "",
    ],
)
def test_what_is_not_plain_is_left_to_the_router(path: str) -> None:
    assert INDEX.find("GET", path) is None


def test_every_route_is_found() -> None:
    for route in ROUTES:
        path = route.path.replace("{", "").replace("}", "")
        names = {
            name: name
            for name in (
                "tenant",
                "type",
                "id",
                "domain",
                "consumer",
                "secret",
                "alert",
                "webhook",
                "name",
                "key_id",
                "sysid",
            )
        }
        expected = {name: value for name, value in names.items() if f"{{{name}}}" in route.path}
        assert INDEX.find(route.method, path) == (route, expected)


def test_no_page_is_hidden() -> None:
    """What the index finds never reaches the router, which has the pages."""
    for page in PAGES:
        parts = page.path.split("/")[1:]
        for words in itertools.product(*([part] if not part.startswith("{") else ("x", *WORDS) for part in parts)):
            assert INDEX.find(page.method, "/" + "/".join(words)) is None
