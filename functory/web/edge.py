"""The edge: the one middleware. Every request gets an id, every answer its headers, every error its JSON, every route
its count. Nothing that is raised below it reaches a client as it is."""

import asyncio
import itertools
import re
import secrets
import time
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from functory.web.answers import error_answer, problem
from functory.web.metrics import RequestCounts

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)

SECURITY_HEADERS: Final = (
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
)
CONTENT_POLICY: Final = "default-src 'none'; frame-ancestors 'none'"


class Edge:
    def __init__(self, counts: RequestCounts) -> None:
        self._counts = counts
        self._start = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    def request_id(self, given: str | None) -> str:
        """The caller's own, if it is a plain word; otherwise one that no other process makes."""
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given
        return f"{self._start}-{next(self._numbers):x}"

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        began = time.perf_counter()
        request_id = self.request_id(request.headers.get("X-Request-Id"))
        try:
            answer = await handler(request)
        except web.HTTPException as error:
            answer = _from_aiohttp(error)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 (whatever it is, the client gets an answer and the log the error)
            answer = error_answer(error, request_id)
        finish(answer, request_id)
        route = request.match_info.route.resource
        path = route.canonical if route is not None else ""
        self._counts.count(request.method, path, answer.status, time.perf_counter() - began)
        return answer


def finish(answer: web.StreamResponse, request_id: str) -> None:
    """The headers that every answer has."""
    headers = answer.headers
    headers.extend(SECURITY_HEADERS)
    headers["X-Request-Id"] = request_id
    if "Content-Security-Policy" not in headers:
        headers["Content-Security-Policy"] = CONTENT_POLICY


def _from_aiohttp(error: web.HTTPException) -> web.Response:
    """What the router and the server raise themselves: no such path, method not allowed, body too large."""
    if isinstance(error, web.HTTPMethodNotAllowed):
        allowed = ", ".join(sorted(error.allowed_methods))
        answer = problem(405, "method_not_allowed", f"{error.method} is not allowed here: {allowed}")
        answer.headers["Allow"] = allowed
        return answer
    code = {404: "no_such_path", 413: "request_too_large"}.get(error.status, "bad_request")
    return problem(error.status, code, {404: "there is nothing at this path"}.get(error.status, error.reason))
