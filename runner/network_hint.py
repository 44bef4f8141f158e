"""A hint for jobs that fail because they call somebody although their handler has no network, or not that way.

Each language says so in its own words, and none says what to do. They are looked for in what an error or a program of
the job says. A handler without `hosts` is told of them. One that has some reaches them through the proxy, which
resolves names: what looks one up itself, or connects by itself, went past the proxy, and is told how to go through it.
A name that really does not exist is refused by the proxy, in other words. A handler with the network gets no hint.
"""

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Final

from handlers.model import Handler
from runner.batch import OnStopped
from runner.launch import Level
from runner.limits import NO_NETWORK, PAST_PROXY
from runner.outcome import BROKEN, Stopped

_LOOKED_AT_BYTES: Final = 4000
"""Of the end of each text: it is the tenant's, and everybody waits meanwhile."""
_LONGEST_BYTES: Final = 64 * 1024
"""Of an error text that gets a hint: what is larger may have no room for one."""
_UNRESOLVED: Final = (
    b"Temporary failure in name resolution",
    b"Name or service not known",
    b"Could not resolve host",
    b"unable to resolve host",
    b"Couldn't connect to server",
    b"EAI_AGAIN",
)
_NO_NETWORK: Final = (*_UNRESOLVED, b"connect EPERM")
_PAST_PROXY: Final = (*_UNRESOLVED, b"connect EACCES", b"connect ENETUNREACH", b"Network is unreachable")
"""Looked for one by one: a pattern of them takes many times as long, for each job of a batch that fails."""
_MAKES_SOCKET: Final = b"_socket.socket.__init__"
_MAY_NOT: Final = b"Operation not permitted"
_CONNECTS: Final = b".connect("
_IS_DENIED: Final = b"[Errno 13] Permission denied"
_FAR_BYTES: Final = 350
"""From the line of a trace that makes or connects a socket to what python says of it."""
_EXITCODE: Final = attrgetter("exitcode")
_JSON_BEGINS: Final = (b'"', b"{", b"[")


def with_hints(handler: Handler, on_stopped: OnStopped) -> OnStopped:
    """Hears how jobs of the handler stopped, and passes it on, with the hint where it helps."""
    if handler.network:
        return on_stopped
    hint = (
        partial(_hinted, _went_past_proxy, PAST_PROXY)
        if handler.hosts
        else partial(_hinted, _lacks_network, NO_NETWORK)
    )

    def hear(stopped: Sequence[Stopped]) -> None:
        if max(map(_EXITCODE, stopped), default=0) >= BROKEN:
            stopped = [hint(one) if one.exitcode >= BROKEN else one for one in stopped]
        on_stopped(stopped)

    return hear


def _hinted(tells: Callable[[bytes], bool], hint: str, one: Stopped) -> Stopped:
    if one.level is None or one.level < Level.L1:  # it has the network of the machine
        return one
    if len(one.result) > _LONGEST_BYTES or one.result.startswith(_JSON_BEGINS):
        return one
    if not any(tells(text[-_LOOKED_AT_BYTES:]) for text in (one.result, one.log)):
        return one
    return one._replace(result=one.result.rstrip() + b"\n" + hint.encode())


def _lacks_network(text: bytes) -> bool:
    return any(sign in text for sign in _NO_NETWORK) or _follows(text, _MAKES_SOCKET, _MAY_NOT)


def _went_past_proxy(text: bytes) -> bool:
    return any(sign in text for sign in _PAST_PROXY) or _follows(text, _CONNECTS, _IS_DENIED)


def _follows(text: bytes, call: bytes, error: bytes) -> bool:
    """Whether the last such call in a trace of python ended so."""
    at = text.rfind(call)
    return at >= 0 and error in text[at : at + _FAR_BYTES]
