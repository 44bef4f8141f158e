"""What anybody can ask without a key costs little, and is answered in our words."""

import asyncio

import pytest
from aiohttp import web

from tests.support.web import Site

ADD = "/acme/job/thumb/add"


@pytest.mark.parametrize(
    "path", ["/" * 8000, "/a" * 4000, "/acme/job/" + "a/" * 3900, "/ui/" + "a/" * 3900, "/%41" * 1900]
)
async def test_a_path_that_no_route_can_have_is_not_looked_for(
    site: Site, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    resolve = web.UrlDispatcher.resolve

    async def counted(router: web.UrlDispatcher, request: web.Request) -> web.UrlMappingMatchInfo:
        asked.append(request.path)
        return await resolve(router, request)

    monkeypatch.setattr(web.UrlDispatcher, "resolve", counted)
    answer = await asyncio.wait_for(
        site.raw(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()), 20
    )
    assert b" 404 " in answer.partition(b"\r\n")[0]
    assert b'"code":"no_such_path"' in answer
    assert b"X-Request-Id: " in answer
    assert asked == []
    await site.raw(b"GET /a/b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert asked == ["/a/b"], "the router is asked here"


@pytest.mark.parametrize("path", ["/healthz", "/nowhere", "/ui", ADD])
async def test_an_expectation_that_nobody_fulfils_is_refused_in_our_words(site: Site, path: str) -> None:
    answer = await asyncio.wait_for(site.raw(f"GET {path} HTTP/1.1\r\nHost: x\r\nExpect: foo\r\n\r\n".encode()), 20)
    assert b" 417 " in answer.partition(b"\r\n")[0]
    assert b'{"error":{"code":"bad_expectation","message":"Expect must be 100-continue' in answer
    assert b"X-Request-Id: " in answer
