"""One call to a server: asked, and asked again where that is safe, until its time is up.

Ensures: what may not be done twice is sent again only if the server cannot have it, or has said that it did nothing. It
gets a connection of its own: of one that was kept, and is closed by the server at this moment, nobody could tell.
"""

import math
import random
import time
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec

from functory.errors import ClientError, FunctoryError, InvalidInput, ServerUnreachable
from functory.sync.connections import Connections, NoReply, Reply
from functory.wire.refusals import may_pass, problem, refusal_of
from functory.wire.requests import encode_body, encode_query, path_of
from functory.wire.server_url import check_key, check_url
from vocabulary.names import is_tenant

_T = TypeVar("_T")

_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0
_MOST_DOUBLED: Final = 16
_LOOK_S: Final = 30.0
"""How long the server is asked to wait for the end of a job in one request: proxies give up after a minute."""
_ANSWER_S: Final = 5.0
"""For the answer when that is over."""
_OK: Final = range(200, 300)
_TOO_MANY: Final = 429


class Call(NamedTuple):
    """What is asked. `lines` are sent if `body` is None. is_repeatable: asking twice is as good as asking once. waits:
    the server may wait for the end of a job for as long as there is time."""

    method: str
    path: tuple[str, ...]
    query: Mapping[str, object] | None = None
    body: object = None
    lines: bytes | None = None
    is_repeatable: bool = True
    waits: bool = False


class Server:
    def __init__(self, url: str, key: str, tenant: str, timeout_s: float) -> None:
        """timeout_s: of a call that does not say otherwise. Raises InvalidInput."""
        check_key(key)
        check_url(url)
        if not is_tenant(tenant):
            raise InvalidInput(f"{tenant[:80]!r} is not the name of a tenant", detail={"field": "tenant"})
        self._url = url.rstrip("/")
        self._tenant = tenant
        self._timeout_s = check_timeout(timeout_s)
        self._connections = Connections(self._url, {"Authorization": f"Bearer {key}"})

    def ask(self, call: Call, answer: type[_T], timeout_s: float | None = None) -> _T:
        """Raises what `functory.wire.refusals` lists, any other ClientError, ServerUnreachable."""
        deadline_s = time.monotonic() + (self._timeout_s if timeout_s is None else check_timeout(timeout_s))
        content = call.lines if call.body is None else encode_body(call.body)
        failures, is_fresh = 0, not call.is_repeatable
        while True:
            try:
                reply = self._try(call, content, deadline_s - time.monotonic(), is_fresh=is_fresh)
                return _read(reply, answer)
            except NoReply as none:
                if none.is_stale and not is_fresh:
                    is_fresh = True
                    continue
                error: FunctoryError = self._unreachable(none)
                may_repeat = call.is_repeatable or not none.is_sent
            except ClientError as refused:
                error = refusal_of(refused)
                may_repeat = may_pass(refused) if call.is_repeatable else refused.status == _TOO_MANY
            pause_s = pause_after(failures, error.retry_after_s, random.random())  # noqa: S311 (not a secret)
            if not may_repeat or time.monotonic() + pause_s >= deadline_s:
                raise error
            failures += 1
            time.sleep(pause_s)

    def close(self) -> None:
        self._connections.close()

    def _try(self, call: Call, content: bytes | None, left_s: float, *, is_fresh: bool) -> Reply:
        query, within_s = dict(call.query or {}), left_s
        if call.waits:
            look_s = math.ceil(min(max(left_s, 0.0), _LOOK_S) * 1000) / 1000
            query["wait_s"], within_s = look_s, look_s + _ANSWER_S
        target = path_of(self._tenant, *call.path)
        parameters = urlencode(encode_query(query))
        return self._connections.ask(
            call.method,
            f"{target}?{parameters}" if parameters else target,
            content,
            "application/json" if call.body is not None else "",
            connect_s=left_s,
            within_s=within_s,
            is_fresh=is_fresh,
        )

    def _unreachable(self, none: NoReply) -> ServerUnreachable:
        if none.is_sent:
            return ServerUnreachable(f"{self._url} did not answer, and may have done what was asked: {none}")
        return ServerUnreachable(f"{self._url} cannot be reached, does a daemon listen there? {none}")


def check_timeout(timeout_s: object) -> float:
    """Raises InvalidInput."""
    if not isinstance(timeout_s, int | float) or not 0 <= timeout_s < math.inf:
        raise InvalidInput(f"timeout_s must be a number of seconds, 0 or more, not {timeout_s!r}")
    return timeout_s


def pause_after(failures: int, asked_s: float | None, drawn: float) -> float:
    """Before another try: a pause that grows, differs from one caller to the next (drawn: from 0 to 1), and is at least
    what the server asks for."""
    half_s = min(_FIRST_PAUSE_S * 2.0 ** min(failures, _MOST_DOUBLED), _LONGEST_PAUSE_S) / 2
    return max(asked_s or 0.0, half_s) + half_s * drawn


def _read(reply: Reply, answer: type[_T]) -> _T:
    """Raises ClientError."""
    if reply.status not in _OK:
        raise problem(*reply)
    try:
        return msgspec.json.decode(reply.body, type=answer)
    except msgspec.MsgspecError:
        raise problem(*reply) from None
