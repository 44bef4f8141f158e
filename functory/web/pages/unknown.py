"""Addresses below /ui that no page has: a browser gets an error page, anybody else JSON as at any unknown path."""

from aiohttp import web

from functory.web.http.edge import Params
from functory.web.http.unknown_paths import as_problem, look_up
from functory.web.pages.call import PageCall, PageTools
from functory.web.pages.endpoint import frame, html


class UnknownPages:
    """The last route below /ui. It looks for no session, so it says the same to everybody."""

    def __init__(self, tools: PageTools) -> None:
        self._tools = tools

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        return await self._tools.web.edge.pass_through(request, request.match_info, self._answer, "")

    async def _answer(self, request: web.Request, params: Params) -> web.StreamResponse:
        unknown = await look_up(request)
        if "text/html" not in request.headers.get("Accept", ""):
            return as_problem(unknown)
        place = self._tools.origins.place(request.headers.get("Host", ""))
        values = frame(PageCall(self._tools, request, params, place)) | unknown._asdict()
        answer = html(self._tools.assets.render_small("trouble.html", values), unknown.status)
        if unknown.allowed:
            answer.headers["Allow"] = unknown.allowed
        return answer
