"""A visitor of the pages without a browser: cookies kept, forms sent with the token that stands in them."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html import unescape
from typing import NamedTuple, Protocol

import aiohttp
from multidict import CIMultiDictProxy

from tests.support.web import Site

NOTHING: Mapping[str, str] = {}
_TOKEN = re.compile(r'name="token" value="([^"]*)"')


class Shown(NamedTuple):
    status: int
    headers: CIMultiDictProxy[str]
    text: str

    @property
    def location(self) -> str:
        return self.headers["Location"]


class Place(Protocol):
    """Where the pages are."""

    @property
    def url(self) -> str: ...


class Visitor:
    def __init__(self, site: Place, session: aiohttp.ClientSession) -> None:
        self.site = site
        self.session = session
        self.token = ""

    async def get(self, path: str, /, **headers: str) -> Shown:
        return await self._ask("GET", path, headers, None)

    async def post(self, path: str, form: Mapping[str, str] = NOTHING, /, **headers: str) -> Shown:
        """With the session's token, unless the form brings one."""
        return await self._ask("POST", path, headers, {"token": self.token, **form})

    async def sign_in(self, key: str, go_on_to: str = "") -> Shown:
        """By the form; the session's token is then known."""
        page = await self.get("/ui/signin")
        token = unescape(_TOKEN.findall(page.text)[-1])
        answer = await self.post("/ui/signin", {"token": token, "key": key, "next": go_on_to})
        if answer.status == 303:
            self.token = _TOKEN.findall((await self.get(answer.location)).text)[0]
        return answer

    def cookie(self, name: str = "functory-session") -> str:
        return next((it.value for it in self.session.cookie_jar if it.key == name), "")

    async def _ask(self, method: str, path: str, headers: dict[str, str], form: Mapping[str, str] | None) -> Shown:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(
            method, self.site.url + path, headers=named, data=form, allow_redirects=False
        ) as answer:
            return Shown(answer.status, answer.headers, await answer.text())


@asynccontextmanager
async def visitor(site: Place, who: str = "") -> AsyncIterator[Visitor]:
    """Somebody new; with `who` signed in with that key of the site's."""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        made = Visitor(site, session)
        if who:
            assert isinstance(site, Site)
            assert (await made.sign_in(site.keys[who])).status == 303
        yield made


async def next_part(answer: aiohttp.ClientResponse) -> str:
    """The HTML of the next event."""
    text = await heard(answer)
    assert text, "the stream ended"
    return text


async def heard(answer: aiohttp.ClientResponse) -> str:
    """The text of the next event; empty when the stream has ended."""
    async with asyncio.timeout(30):
        while line := await answer.content.readline():
            if line.startswith(b"data: "):
                text: str = json.loads(line[6:])
                return text
    return ""
