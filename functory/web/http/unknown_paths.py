"""Paths that no route has: 404, or 405 with the allowed methods where only the method is wrong."""

from typing import NamedTuple

from aiohttp import web

from functory.web.http.answers import problem
from functory.web.http.edge import Params
from functory.web.http.endpoint import Web


class Unknown(NamedTuple):
    status: int
    code: str
    message: str
    allowed: str
    """The methods that the path has, with commas; empty if it has none."""


async def look_up(request: web.Request) -> Unknown:
    """What is wrong with a request that no route took."""
    allowed: set[str] = set()
    for resource in request.app.router.resources():
        found, methods = await resource.resolve(request)
        if found is None:
            allowed |= methods
    if not allowed:
        return Unknown(404, "no_such_path", "there is nothing at this path", "")
    names = ", ".join(sorted(allowed))
    return Unknown(405, "method_not_allowed", f"{request.method[:20]} is not allowed here: {names}", names)


def as_problem(unknown: Unknown) -> web.Response:
    answer = problem(unknown.status, unknown.code, unknown.message)
    if unknown.allowed:
        answer.headers["Allow"] = unknown.allowed
    return answer


class UnknownPaths:
    """The last route. It gets what no other route took."""

    def __init__(self, state: Web) -> None:
        self._state = state

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        return await self._state.edge.pass_through(request, request.match_info, self._answer, "")

    async def _answer(self, request: web.Request, _: Params) -> web.StreamResponse:
        return as_problem(await look_up(request))
