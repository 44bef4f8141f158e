"""A hint for jobs that fail because they call somebody although their handler has no network.

Each language says so in its own words, and none says what to do. They are looked for in what an error or a program of
the job says, of handlers that have neither `hosts` nor the network. So a name that really does not exist, asked for by
a handler that may call others, gets no hint.
"""

import re
from typing import Final

from handlers.model import Handler
from runner.batch import OnStopped
from runner.launch import Level
from runner.limits import NO_NETWORK
from runner.outcome import BROKEN, Stopped

_LOOKED_AT_BYTES: Final = 8000
"""Of the end of each text: it is the tenant's, and everybody waits meanwhile."""
_LONGEST_BYTES: Final = 64 * 1024
"""Of an error text that gets a hint: what is larger may have no room for one."""
_SIGNS: Final = re.compile(
    rb"Temporary failure in name resolution|Name or service not known|Could not resolve host|unable to resolve host"
    rb"|Couldn't connect to server|\bEAI_AGAIN\b|\bconnect EPERM\b"
    rb"|_socket\.socket\.__init__.{,300}Operation not permitted",
    re.DOTALL,
)
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
    if not any(_SIGNS.search(text[-_LOOKED_AT_BYTES:]) for text in (one.result, one.log)):
        return one
    return one._replace(result=one.result.rstrip() + b"\n" + NO_NETWORK.encode())
