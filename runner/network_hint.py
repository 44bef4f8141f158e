"""A hint for jobs that fail because they call somebody although their handler has no network.

Each language says so in its own words, and none says what to do. They are looked for in what an error or a program of
the job says, of handlers that have neither `hosts` nor the network. So a name that really does not exist, asked for by
a handler that may call others, gets no hint.
"""

from typing import Final

from handlers.model import Handler
from runner.batch import OnStopped
from runner.launch import Level
from runner.limits import NO_NETWORK
from runner.outcome import BROKEN, Stopped

_LOOKED_AT_BYTES: Final = 4000
"""Of the end of each text: it is the tenant's, and everybody waits meanwhile."""
_LONGEST_BYTES: Final = 64 * 1024
"""Of an error text that gets a hint: what is larger may have no room for one."""
_SIGNS: Final = (
    b"Temporary failure in name resolution",
    b"Name or service not known",
    b"Could not resolve host",
    b"unable to resolve host",
    b"Couldn't connect to server",
    b"EAI_AGAIN",
    b"connect EPERM",
)
"""Looked for one by one: a pattern of them takes many times as long, for each job of a batch that fails."""
_MAKES_SOCKET: Final = b"_socket.socket.__init__"
_MAY_NOT: Final = b"Operation not permitted"
_FAR_BYTES: Final = 350
"""From the line of a trace that makes a socket to what python says of it."""
_JSON_BEGINS: Final = (b'"', b"{", b"[")


def with_hints(handler: Handler, on_stopped: OnStopped) -> OnStopped:
    """Hears how jobs of the handler stopped, and passes it on, with the hint where it helps."""
    if handler.network or handler.hosts:
        return on_stopped
    return lambda stopped: on_stopped([_hinted(one) if one.exitcode >= BROKEN else one for one in stopped])


def _hinted(one: Stopped) -> Stopped:
    if one.level is None or one.level < Level.L1:  # it has the network of the machine
        return one
    if len(one.result) > _LONGEST_BYTES or one.result.startswith(_JSON_BEGINS):
        return one
    if not any(_tells_of_network(text[-_LOOKED_AT_BYTES:]) for text in (one.result, one.log)):
        return one
    return one._replace(result=one.result.rstrip() + b"\n" + NO_NETWORK.encode())


def _tells_of_network(text: bytes) -> bool:
    if any(sign in text for sign in _SIGNS):
        return True
    at = text.rfind(_MAKES_SOCKET)
    return at >= 0 and _MAY_NOT in text[at : at + _FAR_BYTES]
