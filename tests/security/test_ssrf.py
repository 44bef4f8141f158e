"""The http engine does not connect to this machine or to the network behind it, however it is asked.

Real connections are tried against a server on the loopback interface that counts its visitors: there must be
none.
"""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.errors import InvalidHandlerError
from handlers.hosts import parse_patterns
from handlers.model import Handler
from handlers.validation import parse_handler
from runner.errors import TargetRefusedError
from runner.plain import PlainLauncher
from runner.runner import Runner, RunnerSettings
from runner.targets import check_address
from tests.support.engines import jobs, run


@dataclass
class Trap:
    port: int = 0
    visitors: int = 0


@pytest.fixture
async def trap() -> AsyncIterator[Trap]:
    made = Trap()

    async def visit(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.visitors += 1
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n200\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(visit, "127.0.0.1")
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()
    await server.wait_closed()


@pytest.fixture
async def runner() -> AsyncIterator[Runner]:
    made = Runner(PlainLauncher())
    yield made
    await made.close()


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "0",
        "0.0.0.0",  # noqa: S104  a target, not an address to listen on
        "127.0.0.1.",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "①②⑦.0.0.1",
        "127。0。0。1",
        "127.0.0.1%20",
        "localhost.",
        "LOCALHOST",
    ],
)
async def test_the_loopback_interface_in_every_spelling(runner: Runner, trap: Trap, host: str) -> None:
    seen = await run(runner, Handler("http", f"http://{host}:{trap.port}/"), jobs("a"))
    assert trap.visitors == 0
    assert seen.stopped[0].code in {"failed", "error"}


@pytest.mark.parametrize(
    "host",
    [
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "[fe80::1]",
        "[fd00::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "[2002:a9fe:a9fe::]",
        "[64:ff9b::a9fe:a9fe]",
    ],
)
async def test_private_and_link_local_addresses(runner: Runner, host: str) -> None:
    seen = await run(runner, Handler("http", f"http://{host}/latest/meta-data/"), jobs("a"))
    assert seen.exitcodes == [403]
    assert b"may not be called" in seen.results[0]


async def test_a_name_with_one_bad_address_among_good_ones(
    runner: Runner, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolve(*addresses: str) -> None:
        def getaddrinfo(*_args: Any, **_more: Any) -> list[Any]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, trap.port)) for one in addresses]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    for addresses in (("93.184.216.34", "127.0.0.1"), ("127.0.0.1", "93.184.216.34"), ("127.0.0.1",)):
        resolve(*addresses)
        seen = await run(runner, Handler("http", f"http://innocent.example:{trap.port}/"), jobs("a"))
        assert seen.exitcodes == [403]
    assert trap.visitors == 0


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1:{port}/",
        "//127.0.0.1:{port}/",
        "http://2130706433:{port}/",
        "http://x@127.0.0.1:{port}/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:{port}/",
        "ftp://127.0.0.1/",
    ],
)
async def test_a_redirect_is_checked_again(trap: Trap, location: str) -> None:
    """The first server stands on an address that is allowed; where it sends us is not."""
    visited = asyncio.Event()

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        visited.set()
        target = location.format(port=trap.port)
        writer.write(f"HTTP/1.1 307 Moved\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(redirect, "127.0.0.2")
    port = server.sockets[0].getsockname()[1]
    allowed = (ipaddress.ip_network("127.0.0.2/32"),)
    runner = Runner(PlainLauncher(), RunnerSettings(http_allowed=allowed))
    try:
        seen = await run(runner, Handler("http", f"http://127.0.0.2:{port}/"), jobs("a"))
    finally:
        await runner.close()
        server.close()
        await server.wait_closed()
    assert visited.is_set()
    assert trap.visitors == 0
    assert seen.stopped[0].exitcode in {403, 502}


@pytest.mark.parametrize(
    "url",
    [
        "http://user@127.0.0.1/",
        "http://good.example@127.0.0.1/",
        "ftp://x.example/",
        "http://",
        "//x.example/",
        "x",
        "http://x.example/ y",
        "http://x.example/\ny",
        "http://x.example:99999/",
        "file:///etc/passwd",
    ],
)
def test_urls_that_are_refused_at_registration(url: str) -> None:
    with pytest.raises(InvalidHandlerError) as caught:
        parse_handler({"lang": "http", "body": url})
    assert caught.value.field == "body"


@given(st.ip_addresses())
def test_only_public_addresses_pass(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    try:
        check_address(str(address))
    except TargetRefusedError:
        return
    assert address.is_global
    assert not any((address.is_loopback, address.is_private, address.is_link_local, address.is_multicast))


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_inside_ipv6_is_judged_as_what_it_is(address: ipaddress.IPv4Address) -> None:
    def passes(text: str) -> bool:
        try:
            check_address(text)
        except TargetRefusedError:
            return False
        return True

    number = int(address)
    forms = [f"::ffff:{address}", f"64:ff9b::{address}", f"::{address}"]
    forms.append(str(ipaddress.IPv6Address((0x2002 << 112) | (number << 80))))
    for form in forms:
        assert not passes(form) or passes(str(address)), form


@pytest.mark.parametrize(
    ("hosts", "networks", "exitcode"),
    [
        ("", "", 403),
        ("other.example", "", 403),
        ("*:8080", "", 403),
        ("innocent.example", "", 403),  # at ports 80 and 443
        ("*:*", "", 403),  # by its name, but the address is this machine's
        ("", "127.0.0.1/32", 200),  # the address was opened as it is
    ],
)
async def test_the_operators_list_of_hosts_holds_for_http_handlers_too(
    trap: Trap, monkeypatch: pytest.MonkeyPatch, hosts: str, networks: str, exitcode: int
) -> None:
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda *_, **__: [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", trap.port))]
    )
    allowed = tuple(map(ipaddress.ip_network, networks.split()))
    runner = Runner(PlainLauncher(), RunnerSettings(http_allowed=allowed, hosts_allowed=parse_patterns(hosts)))
    try:
        for name in ("innocent.example", "127.0.0.1"):
            seen = await run(runner, Handler("http", f"http://{name}:{trap.port}/"), jobs("a"))
            assert seen.exitcodes == [exitcode]
    finally:
        await runner.close()
    assert trap.visitors == (2 if exitcode == 200 else 0)


async def test_the_answer_does_not_tell_what_an_internal_name_resolves_to(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its address nor whether there is such a name: both read the same."""
    answers = []
    for known in (True, False):

        def getaddrinfo(*_args: Any, known: bool = known, **_more: Any) -> list[Any]:
            if not known:
                raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.20.30.40", 80))]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        seen = await run(runner, Handler("http", "http://db.internal/"), jobs("a"))
        answers.append((seen.exitcodes, seen.results))
    assert answers[0] == answers[1]
    assert answers[0][0] == [403]
    assert b"10.20.30.40" not in answers[0][1][0]


async def test_a_connection_that_fails_does_not_tell_the_address_either() -> None:
    allowed = (ipaddress.ip_network("127.0.0.3/32"),)
    runner = Runner(PlainLauncher(), RunnerSettings(http_allowed=allowed))

    def getaddrinfo(*_args: Any, **_more: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.3", 1))]

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(socket, "getaddrinfo", getaddrinfo)
            seen = await run(runner, Handler("http", "http://db.internal:1/"), jobs("a"))
    finally:
        await runner.close()
    assert seen.exitcodes == [502]
    assert b"127.0.0.3" not in seen.results[0]
    assert b"db.internal:1" in seen.results[0]
