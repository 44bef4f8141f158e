"""Connections to one server, and one try to ask it something.

Ensures: a connection has one user at a time, and none that was made before a fork is used after it. There is no lock,
so a fork while another thread is in here leaves nothing locked. A connection that is idle for long is not used again:
the server, or something on the way, may have forgotten it.
"""

import os
import ssl
import time
import weakref
from collections import deque
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection, IncompleteRead
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from functory.errors import ServerUnreachable
from functory.wire.server_url import not_a_url

_MOST_KEPT: Final = 16
_IDLE_S: Final = 30.0
"""A server of ours closes connections after 75 s, a proxy often after 60."""
_LEAST_S: Final = 0.001
"""A socket with a time limit of nothing would not wait at all."""


class Reply(NamedTuple):
    status: int
    body: bytes
    retry_after: str | None


class NoReply(Exception):
    """is_sent: the server may have the request. is_stale: the connection was a kept one, and has been closed."""

    def __init__(self, reason: str, *, is_sent: bool, is_stale: bool = False) -> None:
        super().__init__(reason)
        self.is_sent = is_sent
        self.is_stale = is_stale


class _Kept(NamedTuple):
    connection: HTTPConnection
    process: int
    since_s: float


class Connections:
    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        """headers: of each request. Raises InvalidInput for a URL that has no host, or more than a path after it."""
        try:
            parts = urlsplit(url)
            self._host, port = parts.hostname or "", parts.port
        except ValueError:
            raise not_a_url(url) from None
        is_sendable = url.isprintable() and " " not in url and parts.path.isascii()
        if not self._host or not is_sendable or parts.query or parts.fragment:
            raise not_a_url(url)
        self._url = url
        self._port = port or (443 if parts.scheme == "https" else 80)
        self._path = parts.path.rstrip("/")
        self._headers = dict(headers)
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._kept: deque[_Kept] = deque()
        weakref.finalize(self, _close_all, self._kept)

    def ask(
        self,
        method: str,
        target: str,
        content: bytes | None,
        content_type: str,
        *,
        connect_s: float,
        within_s: float,
        is_fresh: bool,
    ) -> Reply:
        """One request. connect_s: for a connection, if a new one is needed; within_s: for each part of the answer.
        is_fresh: not over a connection that was used before. Raises NoReply, InvalidInput, and
        ServerUnreachable for a server that is not to be trusted."""
        kept = None if is_fresh else self._take()
        connection = kept or self._connect(connect_s)
        headers = self._headers | ({"Content-Type": content_type} if content_type else {})
        try:
            reply, is_whole = _exchange(connection, method, self._path + target, content, headers, within_s)
        except TimeoutError as error:
            connection.close()
            raise NoReply("no answer in time", is_sent=True) from error
        except (OSError, HTTPException) as error:
            connection.close()
            raise NoReply(str(error) or type(error).__name__, is_sent=True, is_stale=kept is not None) from error
        except BaseException:
            connection.close()  # it is in the middle of something
            raise
        if is_whole and connection.sock is not None and len(self._kept) < _MOST_KEPT:
            self._kept.append(_Kept(connection, os.getpid(), time.monotonic()))
        else:
            connection.close()
        return reply

    def close(self) -> None:
        """Those that are not in use. Another request opens a new one."""
        _close_all(self._kept)

    def _take(self) -> HTTPConnection | None:
        while self._kept:
            try:
                connection, process, since_s = self._kept.pop()
            except IndexError:  # another thread has taken the last one
                break
            if process == os.getpid() and time.monotonic() - since_s < _IDLE_S:
                return connection
            connection.close()  # of a parent's it is this process's end alone that is closed
        return None

    def _connect(self, within_s: float) -> HTTPConnection:
        within_s = max(within_s, _LEAST_S)
        if self._tls is None:
            connection = HTTPConnection(self._host, self._port, timeout=within_s)
        else:
            connection = HTTPSConnection(self._host, self._port, timeout=within_s, context=self._tls)
        try:
            connection.connect()
        except UnicodeError as error:  # a name that no host can have
            raise not_a_url(self._url) from error
        except ssl.SSLCertVerificationError as error:
            raise ServerUnreachable(f"{self._url}: its certificate is not trusted: {error}") from error
        except OSError as error:
            connection.close()
            raise NoReply(str(error), is_sent=False) from error
        return connection


def _exchange(
    connection: HTTPConnection,
    method: str,
    target: str,
    content: bytes | None,
    headers: Mapping[str, str],
    within_s: float,
) -> tuple[Reply, bool]:
    """Returns also whether the connection can be used again."""
    connection.sock.settimeout(max(within_s, _LEAST_S))
    is_whole = True
    try:
        connection.request(method, target, content, headers)
    except (BrokenPipeError, ConnectionResetError):
        is_whole = False  # a body that is too large is refused before all of it is sent: there may be an answer
    response = connection.getresponse()
    is_measured = response.length is not None or response.chunked
    body = response.read()
    if not body and not is_measured:  # its head was cut, for which http.client has no error
        raise IncompleteRead(body)
    return Reply(response.status, body, response.getheader("Retry-After")), is_whole


def _close_all(kept: deque[_Kept]) -> None:
    while kept:
        try:
            kept.pop().connection.close()
        except IndexError:  # another thread has taken the last one
            break
