"""The edge, which every request passes. It gives each request an id, turns each error into JSON and counts each answer.
No exception reaches a client as it is.

It is not an aiohttp middleware: each endpoint is wrapped once, and unknown paths have a route of their own. That
costs least per request.
"""

import asyncio
import itertools
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from aiohttp import web

from functory.errors import Forbidden, Unauthorized
from functory.web.http.answers import error_answer
from functory.web.http.forwarded import Network, client_of
from functory.web.http.metrics import RequestCounts
from functory.web.http.outflow import Outflow

log = logging.getLogger("functory.web")

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)

Params = Mapping[str, str]
"""The variable parts of the path."""
TENANT: Final = web.RequestKey("tenant", str)
"""Where a request has the tenant of its key, when its path does not say it."""
REQUEST_ID: Final = web.RequestKey("request_id", str)
"""Where it has its id, for answers that are sent before they are finished."""

Trouble = Callable[[Exception, str, str], web.StreamResponse]
"""Makes the answer from an error, a request id and a client's address."""


class Edge:
    def __init__(self, counts: RequestCounts, trusted: Sequence[Network] = ()) -> None:
        self._counts = counts
        self._trusted = trusted
        self.outflow = Outflow()
        self._start = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    def request_id(self, given: str | None) -> str:
        """The caller's own id, if it is a plain word; otherwise a new one, unique across processes."""
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given
        return f"{self._start}-{next(self._numbers):x}"

    async def pass_through(
        self,
        request: web.Request,
        params: Params,
        call: Callable[[web.Request, Params], Awaitable[web.StreamResponse]],
        path: str,
        trouble: Trouble = error_answer,
    ) -> web.StreamResponse:
        """Call `call` and return its answer, or what `trouble` makes of the error that it raises. `path` is the path to
        count."""
        began_s = time.perf_counter()
        request[REQUEST_ID] = request_id = self.request_id(request.headers.get("X-Request-Id"))
        try:
            answer = await call(request, params)
            if not answer.prepared:
                answer.headers["X-Request-Id"] = request_id
            answer = await self.outflow.send(request, params.get("tenant") or request.get(TENANT, ""), answer)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 (whatever it is, the client gets an answer and the log the error)
            answer = self.refuse(request, error, trouble)
            answer.headers["X-Request-Id"] = request_id
        self.count(request.method, path, answer.status, began_s)
        return answer

    def refuse(self, request: web.Request, error: Exception, trouble: Trouble = error_answer) -> web.StreamResponse:
        """The answer for an error."""
        client, request_id = client_of(request, self._trusted).address, request[REQUEST_ID]
        if isinstance(error, Unauthorized | Forbidden):
            log.info("request.refused", extra={"client": client, "code": error.code, "request": request_id})
        return trouble(error, request_id, client)

    def count(self, method: str, path: str, status: int, began_s: float) -> None:
        """Count a request that has been answered. `began_s` is of `time.perf_counter`."""
        self._counts.count(method, path, status, time.perf_counter() - began_s)
