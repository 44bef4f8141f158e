"""One request and its answer: what every call of the client passes through."""

import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Final, NamedTuple, Self, TypeVar

import msgspec
from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientResponse,
    ClientSession,
    ClientSSLError,
    ClientTimeout,
    InvalidURL,
    TCPConnector,
)
from aiohttp import ClientError as TransportError
from aiohttp.payload import Payload

from functory.client.events import EventReader
from functory.errors import ServerUnreachable
from functory.wire.refusals import problem
from functory.wire.requests import encode_body, encode_query, path_of
from functory.wire.server_url import check_key, check_url, not_a_url

_T = TypeVar("_T")

_CONNECTIONS: Final = 100

Tell = Callable[[str], None]
"""Hears the steps of what the server does: short lines, as they come."""


class Answer(NamedTuple):
    status: int
    body: bytes
    retry_after: str | None


class _Done(msgspec.Struct):
    status: int
    answer: msgspec.Raw


class _Failed(msgspec.Struct):
    status: int
    retry_after_s: int | None = None


class Transport:
    """The connection pool, and how a call is made."""

    def __init__(
        self, url: str, key: str, tenant: str = "", *, timeout_s: float = 90.0, connections: int = _CONNECTIONS
    ) -> None:
        """connections: so many requests are under way at once, and others wait for them; 0: all of them. Raises
        InvalidInput for a key or a URL that no request could carry."""
        check_key(key)
        check_url(url)
        self._url = url.rstrip("/")
        self._tenant = tenant
        self._session = ClientSession(
            connector=TCPConnector(limit=connections),
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=ClientTimeout(total=timeout_s),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._session.close()

    def _path(self, *parts: str) -> str:
        return path_of(self._tenant, *parts)

    async def _call(
        self,
        method: str,
        path: str,
        answer: type[_T],
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        data: bytes | Payload | None = None,
        tell: Tell | None = None,
    ) -> _T:
        reply = await self._send(method, path, query or {}, body, data, tell)
        if reply.status >= 400:
            raise problem(*reply)
        try:
            return msgspec.json.decode(reply.body, type=answer)
        except msgspec.MsgspecError:  # another program listens there
            raise problem(*reply) from None

    async def _fetch(
        self,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: object,
        data: bytes | Payload | None,
        tell: Tell | None = None,
    ) -> bytes:
        """With `tell`, which hears the steps, the time limit is for silence, and not for the whole request."""
        answer = await self._send(method, path, query, body, data, tell)
        if answer.status >= 400:
            raise problem(*answer)
        return answer.body

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, object],
        body: object,
        data: bytes | Payload | None,
        tell: Tell | None = None,
    ) -> Answer:
        content = data if body is None else encode_body(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        parameters = encode_query(query)
        timeout = self._session.timeout
        if tell is not None:
            headers["Accept"] = "text/event-stream, application/json"
            timeout = ClientTimeout(total=None, sock_read=timeout.total)
        try:
            async with self._session.request(
                method, self._url + path, params=parameters, data=content, headers=headers, timeout=timeout
            ) as response:
                if tell is not None and response.content_type == "text/event-stream":
                    return await _last_of(response, tell)
                return Answer(response.status, await response.read(), response.headers.get("Retry-After"))
        except InvalidURL as error:
            raise not_a_url(self._url) from error
        except ClientConnectorCertificateError as error:
            reason = str(error.certificate_error)
            raise ServerUnreachable(f"{self._url}: its certificate is not trusted: {reason}") from error
        except (TransportError, TimeoutError) as error:
            reason = _reason(error)
            raise ServerUnreachable(f"{self._url} cannot be reached, does a daemon listen there? {reason}") from error


def _reason(error: Exception) -> str:
    """What the system says, where it is the one who says something: the address stands before it already."""
    if isinstance(error, ClientConnectorError) and not isinstance(error, ClientSSLError):
        number = error.os_error.errno or 0
        return os.strerror(number) if number > 0 else str(error.os_error.strerror or error.os_error)
    return str(error) or "no answer in time"


async def _last_of(response: ClientResponse, tell: Tell) -> Answer:
    """What the plain answer would have been. Raises ServerUnreachable if the events end without it."""
    async for name, data in EventReader(response.content.iter_any()):
        if name == "progress":
            tell(msgspec.json.decode(data, type=str))
        elif name == "done":
            done = msgspec.json.decode(data, type=_Done)
            return Answer(done.status, bytes(done.answer), None)
        elif name == "error":
            return failed(data)
    raise ServerUnreachable(
        "the server ended its answer before it was complete: look whether it was done, and try again"
    )


def failed(data: bytes) -> Answer:
    """The plain answer that an event `error` stands for."""
    told = msgspec.json.decode(data, type=_Failed)
    return Answer(told.status, data, None if told.retry_after_s is None else str(told.retry_after_s))
