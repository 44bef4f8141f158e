"""The fast path of adding jobs: a POST of a few lines by a known key, without aiohttp's request, tasks and response.

Nearly all requests are like that, and those objects are two fifths of the cost of a request. It may wait for the jobs
to end (`?wait_s=`). Everything else takes the plain path through `Endpoint`: any other query, an idempotency key,
JSON, a body that is compressed, large or still arriving, HTTP/1.0, and everything that is refused because of the key or
its rate. Both paths give the same answers; tests/web/test_express.py compares them.
"""

import re
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import StreamReader
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE, HttpVersion11, RawRequestMessage

from functory.errors import FunctoryError
from functory.operations.principal import Principal
from functory.web.api.add import ADD_PATH, ADD_ROUTE, Waited, add_lines, begin_lines, describe_added
from functory.web.api.idempotency_key import HEADER as IDEMPOTENCY_KEY
from functory.web.api.submission import added_json, reading_of
from functory.web.http.answers import JSON_HEADERS, error_answer
from functory.web.http.endpoint import Web, bearer
from functory.web.http.forwarded import peer_of
from functory.web.http.outflow import LARGE_BYTES as LARGE_ANSWER_BYTES
from functory.web.http.turns import LARGE_BYTES
from functory.web.http_faults import has_unknown_coding

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

_WAIT: Final = re.compile(r"\?wait_s=([1-5]?[0-9](?:\.[0-9]{1,3})?)", re.ASCII)
"""The one query that the fast path takes, as it is usually written."""


class Express:
    def __init__(self, web: Web) -> None:
        self._web = web
        self._most_bytes = min(web.settings.max_body_bytes, LARGE_BYTES)

    def take(self, message: RawRequestMessage, payload: StreamReader) -> "PlainAdd | None":
        """The request, if it can take the fast path; None otherwise. Its body has been read then, and
        its key was charged."""
        if (
            message.method != "POST"
            or message.should_close
            or message.upgrade
            or message.version != HttpVersion11
            or not payload.is_eof()
            or payload.exception() is not None
            or payload.total_bytes > self._most_bytes
        ):
            return None
        path, headers = ADD_PATH.fullmatch(message.path), message.headers
        waiting = _WAIT.fullmatch(path[3]) if path is not None and path[3] is not None else None
        if (
            path is None
            or (path[3] is not None and waiting is None)
            or "Content-Encoding" in headers
            or "Expect" in headers
            or IDEMPOTENCY_KEY in headers
            or ("Transfer-Encoding" in headers and has_unknown_coding(headers))
            or reading_of(headers.get("Content-Type", "")) != "lines"
        ):
            return None
        try:
            principal = self._web.keys.recall(bearer(headers.get("Authorization")))
            if principal is None:
                return None
            principal.require_tenant(path[1])
            principal.require("submit")
            if waiting is not None:
                principal.require("read")
            self._web.charge(principal)
        except FunctoryError:
            return None  # the plain path finds the same, and reports it
        wait_s = 0.0 if waiting is None else float(waiting[1])
        return PlainAdd(self._web, principal, path[2], payload.read_nowait(), headers, wait_s)


class PlainAdd:
    """One request on the fast path."""

    __slots__ = ("_began_s", "_body", "_error", "_headers", "_ids", "_principal", "_type_name", "_wait_s", "_web")

    def __init__(
        self,
        web: Web,
        principal: Principal,
        type_name: str,
        body: bytes,
        headers: "CIMultiDictProxy[str]",
        wait_s: float,
    ) -> None:
        self._began_s = time.perf_counter()
        self._web = web
        self._principal = principal
        self._type_name = type_name
        self._body = body
        self._headers = headers
        self._wait_s = wait_s
        self._ids: list[str] | None = None
        self._error: Exception | None = None

    @property
    def tenant(self) -> str:
        return self._principal.tenant

    def begin(self, go_on: Callable[[], None]) -> bool:
        """Write the lines now, if that takes no more than that: `go_on` is called when they are durable, or are not
        taken. False: `answer` does all of it."""

        def told(error: Exception | None) -> None:
            self._error = error
            go_on()

        try:
            self._ids = begin_lines(self._web, self._principal, self._type_name, self._body, told)
        except Exception as error:  # noqa: BLE001 (`answer` says so)
            self._error = error
        return self._ids is not None

    def answer_now(self) -> bytes | None:
        """The answer's bytes, if nothing has to be waited for any more."""
        if self._ids is None or self._error is not None or self._wait_s:
            return None
        body = added_json(self._ids)
        return self._answered(body) if len(body) < LARGE_ANSWER_BYTES // 2 else None

    async def answer(self, remote: str, is_heard: Callable[[], bool]) -> bytes:
        """The answer's bytes: when the jobs are durable or have ended, or with the reason why they are not. is_heard:
        whether somebody still waits for it."""
        web, error = self._web, self._error
        self._error = None  # its traceback leads here: neither may keep the other, and the body, until a collection
        if error is None:
            try:
                ids = self._ids or await add_lines(web, self._principal, self._type_name, self._body)
                added = Waited(self._principal, self._type_name, ids, self._wait_s)
                return self._answered(await describe_added(web, added, is_heard=is_heard))
            except Exception as raised:  # noqa: BLE001 (as at the edge: the client gets an answer, the log the error)
                error = raised
        try:
            status, answer = self._refusal(error, self._request_id(), remote)
        finally:
            del error
        web.edge.count("POST", ADD_ROUTE, status, self._began_s)
        return answer

    def _answered(self, body: bytes) -> bytes:
        self._web.edge.count("POST", ADD_ROUTE, 200, self._began_s)
        return _raw("200 OK", _OK_HEADERS, body, self._request_id())

    def _request_id(self) -> str:
        return self._web.edge.request_id(self._headers.get("X-Request-Id"))

    def _refusal(self, error: Exception, request_id: str, remote: str) -> tuple[int, bytes]:
        forwarded_for = self._headers.getall("X-Forwarded-For", [])
        client = peer_of(remote, forwarded_for, None, self._web.settings.trusted_proxies).address
        answer = error_answer(error, request_id, client)
        headers = _lines({**answer.headers, "Server": SERVER_SOFTWARE})
        body = answer.body
        assert isinstance(body, bytes)
        return answer.status, _raw(f"{answer.status} {HTTPStatus(answer.status).phrase}", headers, body, request_id)


def _lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}: {text}\r\n" for name, text in headers.items())


_OK_HEADERS: Final = _lines({**JSON_HEADERS, "Server": SERVER_SOFTWARE})


def _raw(status: str, headers: str, body: bytes, request_id: str) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\n{headers}X-Request-Id: {request_id}\r\n"
        f"Content-Length: {len(body)}\r\nDate: {rfc822_formatted_time()}\r\n\r\n"
    )
    return head.encode() + body
