"""Which failed jobs get the hint that their handler has no network."""

from typing import Any

import pytest

from handlers.model import Handler
from runner.launch import Level
from runner.limits import NO_NETWORK, PAST_PROXY
from runner.network_hint import with_hints
from runner.outcome import Stopped

UNRESOLVED = b"socket.gaierror: [Errno -3] Temporary failure in name resolution"
NO_SOCKET = b"""\
  File "socket.py", line 232, in __init__
    _socket.socket.__init__(self, family, type, proto, fileno)
PermissionError: [Errno 1] Operation not permitted"""

NOT_CONNECTED = b"""\
  File "socket.py", line 836, in create_connection
    sock.connect(sa)
PermissionError: [Errno 13] Permission denied"""
HOSTS = ("smtp.example.org:587",)


def told(result: bytes, log: bytes = b"", *, code: int = 500, level: Level | None = Level.L1, **fields: Any) -> bytes:
    """The result as it is passed on."""
    seen: list[Stopped] = []
    stopped = [Stopped(str(number), "error", code, result, log, 1.0, (), level) for number in range(2)]
    with_hints(Handler("python", "pass", **fields), seen.extend)(stopped)
    assert [one._replace(result=b"") for one in seen] == [one._replace(result=b"") for one in stopped]
    assert seen[0].result == seen[1].result
    return seen[0].result


@pytest.mark.parametrize(
    ("result", "log"),
    [
        (UNRESOLVED, b""),
        (NO_SOCKET, b""),
        (b"TypeError: fetch failed\nCaused by: Error: getaddrinfo EAI_AGAIN example.org\n    at oncomplete", b""),
        (b"Error: connect EPERM 93.184.216.34:80 - Local (undefined:undefined)\n    at connect", b""),
        (b"exit status 6", b"curl: (6) Could not resolve host: example.org\n"),
        (b"exit status 7", b"curl: (7) Failed to connect to 93.184.216.34 port 80: Couldn't connect to server\n"),
        (b"exit status 4", b"wget: unable to resolve host address 'example.org'\n"),
        (b"ErrorException: getaddrinfo for example.org failed: Name or service not known in line 1", b""),
    ],
)
def test_a_call_without_network_gets_the_hint(result: bytes, log: bytes) -> None:
    assert told(result, log) == result + b"\n" + NO_NETWORK.encode()


@pytest.mark.parametrize(
    ("result", "log"),
    [
        (UNRESOLVED, b""),
        (NOT_CONNECTED, b""),
        (b"OSError: [Errno 101] Network is unreachable", b""),
        (b"Error: getaddrinfo EAI_AGAIN db.example.org\n    at oncomplete", b""),
        (b"Error: connect EACCES 127.0.0.1:5432 - Local (undefined:undefined)\n    at connect", b""),
        (b"Error: connect ENETUNREACH 93.184.216.34:5432\n    at connect", b""),
        (b"exit status 2", b"psql: error: could not translate host name: Temporary failure in name resolution\n"),
    ],
)
def test_a_call_that_goes_past_the_proxy_is_told_of_it(result: bytes, log: bytes) -> None:
    assert told(result, log, hosts=HOSTS) == result + b"\n" + PAST_PROXY.encode()


@pytest.mark.parametrize(
    ("result", "more"),
    [
        (NO_SOCKET, {"hosts": HOSTS}),
        (b"PermissionError: [Errno 13] Permission denied: '/etc/shadow'", {"hosts": HOSTS}),
        (
            b"urllib.error.HTTPError: HTTP Error 403: mail.example.org is not in this handler's `hosts`",
            {"hosts": HOSTS},
        ),
        (NOT_CONNECTED, {}),
        (NOT_CONNECTED, {"hosts": HOSTS, "network": True}),
        (UNRESOLVED, {"network": True}),
        (UNRESOLVED, {"level": Level.L0}),
        (UNRESOLVED, {"level": None}),
        (UNRESOLVED, {"code": 400}),
        (b'{"error":"Temporary failure in name resolution"}', {}),
        (b"x" * 100_000 + UNRESOLVED, {}),
        (UNRESOLVED + b"x" * 9000, {}),
        (b"PermissionError: [Errno 1] Operation not permitted: 'file'", {}),
    ],
)
def test_nothing_else_does(result: bytes, more: dict[str, Any]) -> None:
    assert told(result, **more) == result
