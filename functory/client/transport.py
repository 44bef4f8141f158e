"""One request and its answer: what every call of the client passes through."""

from collections.abc import Mapping
from types import TracebackType
from typing import NamedTuple, Self, TypeVar
from urllib.parse import quote

import msgspec
from aiohttp import ClientError as TransportError
from aiohttp import ClientSession, ClientTimeout, InvalidURL
from aiohttp.payload import Payload

from functory.errors import ClientError, InvalidInput, ServerUnreachable
from functory.wire.base import ErrorAnswer

_T = TypeVar("_T")


class Answer(NamedTuple):
    status: int
    body: bytes
    retry_after: str | None


class Transport:
    """The connection pool, and how a call is made."""

    def __init__(self, url: str, key: str, tenant: str = "", *, timeout_s: float = 90.0) -> None:
        self._url = url.rstrip("/")
        self._tenant = tenant
        self._session = ClientSession(
            headers={"Authorization": f"Bearer {key}"} if key else {}, timeout=ClientTimeout(total=timeout_s)
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
        return "/" + "/".join(quote(part, safe="") for part in (self._tenant, *parts))

    async def _call(
        self,
        method: str,
        path: str,
        answer: type[_T],
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        data: bytes | Payload | None = None,
    ) -> _T:
        return msgspec.json.decode(await self._fetch(method, path, query or {}, body, data), type=answer)

    async def _fetch(
        self, method: str, path: str, query: Mapping[str, object], body: object, data: bytes | Payload | None
    ) -> bytes:
        answer = await self._send(method, path, query, body, data)
        if answer.status >= 400:
            raise problem(answer)
        return answer.body

    async def _send(
        self, method: str, path: str, query: Mapping[str, object], body: object, data: bytes | Payload | None
    ) -> Answer:
        content = data if body is None else msgspec.json.encode(body)
        headers = {} if body is None else {"Content-Type": "application/json"}
        parameters = {name: str(value) for name, value in query.items() if value is not None}
        try:
            async with self._session.request(
                method, self._url + path, params=parameters, data=content, headers=headers
            ) as response:
                return Answer(response.status, await response.read(), response.headers.get("Retry-After"))
        except InvalidURL as error:
            raise InvalidInput(f"{self._url!r} is not the URL of a server, such as http://127.0.0.1:8484") from error
        except (TransportError, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            raise ServerUnreachable(f"{self._url} cannot be reached, does a daemon listen there? {reason}") from error


def problem(answer: Answer) -> ClientError:
    status, body, after = answer
    retry_after_s = float(after) if after and after.isdecimal() else None
    try:
        error = msgspec.json.decode(body, type=ErrorAnswer).error
    except msgspec.MsgspecError:
        message = f"the server answered {status} with something else than its own JSON"
        return ClientError(status, "unreadable", message, {}, retry_after_s)
    return ClientError(status, error.code, error.message, error.detail, retry_after_s)
