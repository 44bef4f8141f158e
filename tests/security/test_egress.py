"""A context with hosts calls them through the daemon's proxy, and reaches nothing else in any way."""

import asyncio
import ipaddress
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from functory.egress.proxy import EgressProxy
from handlers.hosts import parse_patterns
from handlers.model import Handler
from runner.errors import LaunchError
from runner.launch import LaunchSpec, Level
from runner.plain import PlainLauncher
from runner.resolver import Resolver
from runner.runner import Runner
from runner.sandbox.launcher import SandboxLauncher
from runner.sandbox.layers import Layer
from runner.targets import Targets
from tests.support.contexts import LIMITS
from tests.support.egress import PUBLIC, Host, Names, certificate, host
from tests.support.engines import jobs, run
from tests.support.needs import need_command
from tests.support.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
TRIED = """\
import socket
def tried(what):
    try:
        return str(what())
    except OSError as error:
        return type(error).__name__
"""


@dataclass
class Place:
    runner: Runner
    proxy: EgressProxy
    host: Host

    def handler(self, lang: str, body: str, *hosts: str, **more: Any) -> Handler:
        return Handler(lang, body, hosts=hosts or (f"api.example.org:{self.host.port}",), **more)

    async def result_of(self, handler: Handler, payload: str = "", jobtype: str = "acme-call") -> Any:
        seen = await run(self.runner, handler, jobs(payload or str(self.host.port)), jobtype=jobtype)
        assert seen.exitcodes == [200], seen.results
        return json.loads(seen.results[0])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place() -> AsyncIterator[Place]:
    need_command("bwrap", "bubblewrap")
    names = Names(api_example_org=[PUBLIC], other_example_org=[PUBLIC])
    targets = Targets(parse_patterns("*:*"), (ipaddress.ip_network(PUBLIC),))
    proxy = EgressProxy(Resolver(targets, names))
    runner = Runner(SandboxLauncher(), egress=proxy)
    await runner.start()
    async with host(answer=ANSWER) as server:
        yield Place(runner, proxy, server)
        await runner.close()
        await proxy.close()


CALLS = {
    "python": (
        "import urllib.request\n"
        "url = f'http://{{}}:{payload}/x'\n"
        "try:\n  urllib.request.urlopen('https://other.example.org/', timeout=20)\n"
        "except OSError as error: refused = str(error)\n"
        "return [urllib.request.urlopen(url.format('api.example.org'), timeout=20).read().decode(), refused]"
    ),
    "node": (
        "let refused; try { await fetch('https://other.example.org/'); } catch (e) { refused = String(e.cause); }\n"
        "const by = (path) => new Promise((done, failed) => require('http').get(\n"
        "  `http://api.example.org:${payload}/${path}`, { agent: new (require('http').Agent)() },\n"
        "  (got) => { let t = ''; got.on('data', (d) => { t += d; }); got.on('end', () => done(t)); })\n"
        "  .on('error', failed));\n"
        "const text = await (await fetch(`http://api.example.org:${payload}/x`)).text();\n"
        "return [text === await by('y') ? text : 'differs', refused];"
    ),
}


@pytest.mark.parametrize("lang", ["python", "node"])
async def test_the_usual_ways_to_call_go_through_the_proxy(place: Place, lang: str) -> None:
    seen = await run(place.runner, place.handler(lang, CALLS[lang]), jobs(str(place.host.port)))
    text, refused = json.loads(seen.results[0])
    assert text == "hello"
    words = "other.example.org is not in this handler's `hosts`"
    assert words in refused
    assert f"[network] {words}" in seen.stopped[0].log.decode()


TLS_CALLS = {
    "python": (
        "import json, ssl, urllib.request\n"
        "port, ca = json.loads(payload)\n"
        "trusting = ssl.create_default_context(cadata=ca)\n"
        "url = f'https://api.example.org:{port}/'\n"
        "return urllib.request.urlopen(url, timeout=20, context=trusting).read().decode()"
    ),
    "node": (
        "const [port, ca] = JSON.parse(payload);\n"
        "const url = `https://api.example.org:${port}/`;\n"
        "const text = await new Promise((done, failed) => require('https').get(url, { ca }, (got) => {\n"
        "  let t = ''; got.on('data', (d) => { t += d; }); got.on('end', () => done(t)); }).on('error', failed));\n"
        "let stranger; try { await fetch(url); } catch (e) { stranger = e.cause.code; }\n"
        "return stranger === 'DEPTH_ZERO_SELF_SIGNED_CERT' ? text : String(stranger);"
    ),
}


@pytest.mark.parametrize("lang", list(TLS_CALLS))
async def test_tls_is_between_the_handler_and_the_host(place: Place, lang: str, tmp_path: Path) -> None:
    """The certificate is judged inside the context: where it is known the call works, elsewhere it is refused."""
    text, tls = await asyncio.to_thread(certificate, "api.example.org", tmp_path)
    async with host(answer=ANSWER, tls=tls) as server:
        handler = place.handler(lang, TLS_CALLS[lang], f"api.example.org:{server.port}")
        assert await place.result_of(handler, json.dumps([server.port, text])) == "hello"


@pytest.fixture(scope="module")
def curl() -> None:
    need_command("curl", "curl")


@pytest.mark.usefixtures("curl")
async def test_curl_goes_through_the_proxy(place: Place) -> None:
    body = "curl -sS http://api.example.org:$(cat)/x; curl -sS https://other.example.org/; true"
    seen = await run(place.runner, place.handler("sh", body), jobs(str(place.host.port)))
    log = seen.stopped[0].log.decode()
    assert "hello" in log
    assert "403" in log
    assert "other.example.org is not in this handler's `hosts`" in log


async def test_every_other_socket_is_refused(place: Place) -> None:
    body = TRIED + (
        "S = socket\n"
        "kinds = [(S.AF_INET, S.SOCK_DGRAM, 0), (S.AF_INET, S.SOCK_RAW, 1), (S.AF_INET, S.SOCK_STREAM, 262),\n"
        "         (S.AF_INET6, S.SOCK_STREAM, 0), (S.AF_INET6, S.SOCK_DGRAM, 0), (S.AF_NETLINK, S.SOCK_RAW, 0),\n"
        "         (S.AF_PACKET, S.SOCK_RAW, 0), (40, S.SOCK_STREAM, 0)]\n"
        "targets = [('127.0.0.1', int(payload)), ('127.0.0.2', int(payload)), ('10.0.0.1', 80), ('8.8.8.8', 53)]\n"
        "return {'sockets': [tried(lambda: S.socket(*kind)) for kind in kinds],\n"
        "        'names': tried(lambda: S.getaddrinfo('api.example.org', 80)),\n"
        "        'direct': [tried(lambda: S.create_connection(to, 5)) for to in targets]}"
    )
    found = await place.result_of(place.handler("python", body))
    assert set(found["sockets"]) == {"PermissionError"}
    assert found["names"] == "gaierror"
    assert set(found["direct"]) <= {"PermissionError", "OSError", "ConnectionRefusedError"}


async def test_the_place_of_the_proxy_cannot_be_taken(place: Place) -> None:
    body = TRIED + "return tried(lambda: socket.socket().bind(('127.0.0.1', 3128)))"
    assert await place.result_of(place.handler("python", body)) in {"PermissionError", "OSError"}


async def test_a_context_has_its_own_proxy_and_no_other(place: Place) -> None:
    """The same address in both, and each is let out to its own hosts only: nothing that one knows helps the other."""
    body = (
        "import urllib.request\n"
        "try:\n  return urllib.request.urlopen(f'http://{payload}/x', timeout=20).read().decode()\n"
        "except OSError as error: return str(error)"
    )
    port = place.host.port
    mine = place.handler("python", body, f"api.example.org:{port}")
    theirs = place.handler("python", body, f"other.example.org:{port}")
    assert await place.result_of(mine, f"api.example.org:{port}", "acme-call") == "hello"
    assert "not in this handler" in await place.result_of(theirs, f"api.example.org:{port}", "globex-call")
    assert await place.result_of(theirs, f"other.example.org:{port}", "globex-call") == "hello"
    assert place.proxy.by_tenant()["globex"]["refused_total"] == 1


async def test_tunnels_end_with_their_context(place: Place) -> None:
    body = (
        "import socket\n"
        "global kept\n"
        "kept = socket.create_connection(('127.0.0.1', 3128))\n"
        "kept.sendall(f'CONNECT api.example.org:{payload} HTTP/1.1\\r\\n\\r\\n'.encode())\n"
        "return kept.recv(1000).decode()"
    )
    async with host() as server:
        handler = place.handler("python", body, f"api.example.org:{server.port}")
        assert "200 Connection established" in await place.result_of(handler, str(server.port), "initech-call")
        assert place.proxy.by_tenant()["initech"]["connections"] == 1
        assert not server.ended.is_set()
        await place.runner.retire("initech-call", handler)
        async with asyncio.timeout(30):
            await server.ended.wait()

        async def none_is_open() -> bool:
            gates = [gate for gate in place.proxy._gates if gate.tenant == "initech"]
            return not gates and place.proxy.by_tenant()["initech"]["connections"] == 0

        assert await until(none_is_open, 30)


async def test_without_a_network_of_its_own_the_handler_is_not_run() -> None:
    spec = LaunchSpec("acme", ("/bin/true",), {}, LIMITS, egress=True)
    with pytest.raises(LaunchError, match="isolation L2"):
        await PlainLauncher().launch(spec)
    launcher = SandboxLauncher(frozenset(Layer) - {Layer.NAMESPACES, Layer.CGROUP, Layer.UID, Layer.LANDLOCK})
    await launcher.start()
    try:
        with pytest.raises(LaunchError, match="isolation L2"):
            await launcher.launch(spec)
    finally:
        await launcher.close()
    runner = Runner(PlainLauncher())
    handler = Handler("python", "return 1", hosts=("api.example.org",))
    try:
        assert not runner.can_run("acme-call", handler, {"python"})
        assert runner.level < Level.L2
        seen = await run(runner, handler, jobs("x"))
        assert seen.exitcodes == [503]
        assert b"a handler with `hosts` runs only where contexts have a network of their own" in seen.results[0]
    finally:
        await runner.close()
