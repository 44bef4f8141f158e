"""The http engine: the handler is a URL, a batch is one POST. The only file of the runner that knows aiohttp.

Runs no tenant code, so there is no context; what has to be kept in is where the daemon connects to, by the same rules
as for the hosts that contexts call. Every name is resolved once per connection, every address it has must pass
`runner.targets`, and the socket is made for one of those addresses; redirects are followed here, one at a time, through
the same gate. No proxy, no cookies, no decompression.
"""

import asyncio
import errno
import functools
import hashlib
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from handlers.hosts import host_name, is_address
from handlers.model import Handler
from runner import outcome
from runner.batch import OnStopped
from runner.errors import TargetRefusedError
from runner.flow import Flow
from runner.launch import Level
from runner.limits import ContextLimits
from runner.outcome import Stopped
from runner.protocol import BatchJob
from runner.resolver import Resolver
from runner.status_lines import Line, is_one_status_line, parse_answer
from runner.targets import UNREACHABLE, check_address
from vocabulary.names import tenant_of, type_of
from vocabulary.signed_messages import headers_of

_MAX_CONNECTIONS: Final = 100
_MAX_REDIRECTS: Final = 5
_REPEATING: Final = frozenset({301, 302, 307, 308})
_SWITCHING: Final = 101
_TOO_MANY: Final = 429
_CHUNK_BYTES: Final = 64 * 1024
_PIECE_BYTES: Final = 8 * 1024
"""Of what a host sends, taken in before it is asked whether that was enough: it may be heads of twenty bytes."""
_MOST_INTERIM: Final = 8
"""Heads before the answer, such as 100 and 103."""
_LONGEST_MS: Final = 2**31


_tenant: ContextVar[str] = ContextVar("tenant", default="")
"""For whom a name is resolved: a connection is made within the request that wants it."""


class _CheckedResolver(AbstractResolver):
    """Names to addresses that all pass: one bad address among good ones is an attack, not bad luck."""

    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002 (the protocol's)
    ) -> list[ResolveResult]:
        name = _spelled(host)
        try:
            addresses = await self._resolver.resolve(_tenant.get(), name, port)
        except TimeoutError:  # or it would read as if the handler's own time were up
            raise OSError(errno.EHOSTUNREACH, "the name was not resolved in time") from None
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Nothing is held."""


class _Answers(ResponseHandler):
    """A connection to a host. Of a request it takes in one answer, and no more than a few heads before it: a host could
    send them without end, faster than they can be read. It knows more of aiohttp than that promises: what it does with
    heads is in `feed_data`, and pyproject.toml pins its version."""

    _heads = 0
    _is_answered = False

    def set_response_params(self, **params: Any) -> None:
        """A request begins."""
        self._heads, self._is_answered = 0, False
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        for at in range(0, len(data), _PIECE_BYTES):
            if self.exception() is None:
                super().data_received(data[at : at + _PIECE_BYTES])

    def feed_data(self, data: Any, size: int = 0) -> None:
        message, _ = data
        is_interim = message.code < outcome.OK and message.code != _SWITCHING
        if self._is_answered or (is_interim and self._heads == _MOST_INTERIM):
            if self.exception() is None:
                self.set_exception(aiohttp.ClientError(f"it sent more than {_MOST_INTERIM} heads before its answer"))
            if self.transport is not None:
                self.transport.abort()
            return
        self._heads += 1
        self._is_answered = not is_interim
        super().feed_data(data, size)


class _Connector(aiohttp.TCPConnector):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        kind: type[ResponseHandler] = _Answers
        self._factory = functools.partial(kind, loop=self._loop)


def _spelled(host: str) -> str:
    """Raises TargetRefusedError for what only some programs take for an address."""
    try:
        return host_name(host)
    except ValueError as error:
        raise TargetRefusedError(UNREACHABLE) from error


class HttpEngine:
    """`close` is idempotent. The resolver knows what the operator allows."""

    def __init__(self, limits: ContextLimits, *, flow: Flow, resolver: Resolver) -> None:
        self._limits = limits
        self._flow = flow
        self._resolver = resolver
        self._session: aiohttp.ClientSession | None = None

    async def run(
        self,
        jobtype: str,
        handler: Handler,
        jobs: Sequence[BatchJob],
        on_stopped: OnStopped,
        secrets: Sequence[str] = (),
    ) -> None:
        """Post these jobs, which share a POST, and report every one. secrets: to sign with; they are not sent."""
        started_at = time.monotonic()
        lines, after_ms = await self._post(jobtype, handler, jobs, secrets)
        duration_ms = (time.monotonic() - started_at) * 1000 / len(jobs)
        on_stopped(
            [
                Stopped(
                    job.id,
                    outcome.name_of(line.exitcode),
                    line.exitcode,
                    line.result,
                    b"",
                    duration_ms,
                    line.new_jobs,
                    Level.L3,  # none of the tenant's code ran on this machine
                    after_ms if line.exitcode < outcome.OK else None,
                    line.carried,
                )
                for job, line in zip(jobs, lines, strict=True)
            ]
        )

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _post(
        self, jobtype: str, handler: Handler, batch: Sequence[BatchJob], secrets: Sequence[str]
    ) -> tuple[list[Line], int | None]:
        count = len(batch)
        timeout_s = handler.timeout_s * count
        try:
            async with asyncio.timeout(timeout_s):
                status, headers, body = await self._follow(jobtype, handler, batch, secrets)
        except TimeoutError:
            return [Line(outcome.TIMED_OUT, f"timed out after {timeout_s:g} s".encode())] * count, None
        except TargetRefusedError as err:
            return [Line(403, f"the URL may not be called: {err}".encode())] * count, None
        except _TooBigError as err:
            return [Line(outcome.TOO_BIG, str(err).encode())] * count, None
        except Exception as err:  # noqa: BLE001 (libraries raise more than they promise over what a host sends)
            text = f"the URL could not be called: {_reason(err)}"
            return [Line(outcome.CRASHED, text.encode("utf-8", "replace"))] * count, None
        return await self._judge(status, headers, body, count, makes_jobs=handler.prints_jobs)

    async def _judge(
        self, status: int, headers: dict[str, str], body: bytes, count: int, *, makes_jobs: bool
    ) -> tuple[list[Line], int | None]:
        if status == _TOO_MANY:  # the one 4xx that asks to come again
            return [Line(100, body[: self._limits.log_bytes])] * count, after_ms(headers, time.time())
        if not outcome.is_status(status):
            return [Line(outcome.BROKEN, f"answered with the status {status}".encode())] * count, None
        if status == outcome.OK and (count > 1 or is_one_status_line(body)):
            return await parse_answer(body, count, self._limits, makes_jobs=makes_jobs), None
        if count == 1:
            return [Line(status, body)], None
        if status >= 400:  # said once, recorded with every job
            return [Line(status, body[: self._limits.log_bytes])] * count, None
        return await parse_answer(body, count, self._limits, makes_jobs=makes_jobs), None

    async def _follow(
        self, jobtype: str, handler: Handler, batch: Sequence[BatchJob], secrets: Sequence[str]
    ) -> tuple[int, dict[str, str], bytes]:
        url = URL(handler.body)
        body = b"".join([job.data + b"\n" for job in batch])
        headers = {
            "Content-Type": "text/plain; charset=utf-8",
            "Accept-Encoding": "identity",
            "Functory-Type": type_of(jobtype),
            "Functory-Jobs": str(len(batch)),
        }
        if secrets:
            headers |= headers_of(list(secrets), _message_id(batch), int(time.time()), body)
        _tenant.set(tenant_of(jobtype))
        for _ in range(_MAX_REDIRECTS + 1):
            if url.scheme not in {"http", "https"} or url.host is None or url.user is not None:
                raise TargetRefusedError(f"{str(url)[:200]} is not a plain http or https URL")
            self._check_address(url.host, url.port or 0)
            async with self._open().post(url, data=body, headers=headers, allow_redirects=False) as answer:
                location = answer.headers.get("Location")
                if answer.status not in _REPEATING or location is None:
                    return answer.status, dict(answer.headers), await self._read(answer, tenant_of(jobtype))
                url = _redirected(url, location)
        raise aiohttp.ClientError(f"more than {_MAX_REDIRECTS} redirects")

    def _check_address(self, host: str, port: int) -> None:
        """A URL with an address instead of a name: nothing will be resolved. Raises TargetRefusedError."""
        if is_address(host):
            self._resolver.targets.check(host_name(host), port, [host])

    async def _read(self, answer: aiohttp.ClientResponse, tenant: str) -> bytes:
        body = bytearray()
        try:
            async for chunk in answer.content.iter_chunked(_CHUNK_BYTES):
                body += chunk
                if len(body) > self._limits.result_bytes:
                    raise _TooBigError(f"the answer has more than {self._limits.result_bytes} bytes")
                self._flow.hold_unfinished(answer, tenant, len(body))
                await self._flow.room(tenant, answer)
        finally:
            self._flow.forget(answer)
        return bytes(body)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = _Connector(
                limit=_MAX_CONNECTIONS,
                resolver=_CheckedResolver(self._resolver),
                use_dns_cache=False,
                socket_factory=self._make_socket,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session

    def _make_socket(self, info: Any) -> socket.socket:
        """The last gate: whatever led here, this is the address that is going to be called."""
        family, kind, proto, _, address = info
        check_address(str(address[0]), self._resolver.targets.networks)
        made = socket.socket(family, kind, proto)
        made.setblocking(False)
        return made


def posted_together(jobs: Sequence[BatchJob]) -> Iterator[Sequence[BatchJob]]:
    """A payload with a newline cannot share a POST and goes alone."""
    if together := [job for job in jobs if b"\n" not in job.data]:
        yield together
    yield from ([job] for job in jobs if b"\n" in job.data)


def _redirected(url: URL, location: str) -> URL:
    try:
        return url.join(URL(location))
    except (ValueError, IndexError):  # the latter for `//[]@`, and it promises neither
        raise ValueError(f"it redirects to {location[:200]!r}, which is no URL") from None


def _message_id(batch: Sequence[BatchJob]) -> str:
    """The same when the same jobs are posted again: that of the job, or one for all of them."""
    if len(batch) == 1:
        return batch[0].id
    return "batch-" + hashlib.sha256(" ".join([job.id for job in batch]).encode()).hexdigest()[:32]


class _TooBigError(Exception):
    pass


def _reason(err: Exception) -> str:
    """In words that do not tell which address a name has: it may be one of the operator's own network."""
    if isinstance(err, aiohttp.ClientConnectorError):
        number = err.os_error.errno
        return f"no connection to {err.host}:{err.port}{f': {os.strerror(number)}' if number and number > 0 else ''}"
    return str(err) or type(err).__name__


def after_ms(headers: Mapping[str, str], now_s: float) -> int | None:
    """What Retry-After asks for: seconds, or a date. None if it is neither."""
    text = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    if text.isascii() and text.isdigit():
        return min(int(text) * 1000, _LONGEST_MS) if len(text) < 8 else None
    try:
        at = parsedate_to_datetime(text)
        wait_s = (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - now_s
    except (ValueError, OverflowError):
        return None
    return min(max(int(wait_s * 1000), 0), _LONGEST_MS)
