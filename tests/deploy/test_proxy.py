"""Behind a real nginx with our configuration: TLS, kept connections, streams that are not held back, bounds, and whose
word on the client's address counts."""

import asyncio
import io
import json
import re
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector, web

from tests.support.command_line import functory
from tests.support.daemon_process import daemon, make_key
from tests.support.needs import need_command
from tests.support.nginx import Proxy, nginx

pytestmark = pytest.mark.slow


@pytest.fixture
def program() -> str:
    return need_command("nginx", "nginx-light")


@asynccontextmanager
async def through(proxy: Proxy, key: str = "") -> AsyncIterator[ClientSession]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    context = await asyncio.to_thread(proxy.trust)
    async with ClientSession(proxy.url, headers=headers, connector=TCPConnector(ssl=context)) as session:
        yield session


async def test_a_daemon_behind_it(tmp_path: Path, program: str) -> None:
    settings = {"trusted_proxies": "127.0.0.1"}
    async with daemon(tmp_path / "data", settings) as server:
        key, operator = await make_key(server, "acme"), await asyncio.to_thread(lambda: server.operator_key)
        address = server.url.removeprefix("http://")
        async with nginx(program, tmp_path, address) as proxy, through(proxy, key) as acme:
            # Jobs go in and their results come out, also by a long wait.
            async with acme.put("/acme/handler/x?lang=python", data=b"return payload") as answer:
                assert answer.status < 300
                assert answer.headers["Strict-Transport-Security"]
            async with acme.post("/acme/job/x/add", data=b"one\n") as answer:
                (id_,) = (await answer.json())["ids"]
            async with acme.get(f"/acme/job/{id_}?wait_s=50") as answer:
                assert (await answer.json())["code"] == "ok"

            asked = await functory("health", "--url", proxy.url, SSL_CERT_FILE=str(proxy.certificate))
            assert (asked.status, asked.out) == (0, "ok\n")

            # A page that is kept up to date: what happens shows in the stream while that is open.
            await _sign_in(acme, key)
            async with asyncio.timeout(60), acme.get("/ui/t/acme/~live") as live:
                assert live.headers["Content-Type"].startswith("text/event-stream")
                first = await live.content.readuntil(b"\n\n")
                async with acme.post("/acme/job/later/add?delay_s=3600", data=b"two\n") as answer:
                    assert answer.status == 200
                while b"later" not in await live.content.readuntil(b"\n\n"):
                    pass
                assert b"later" not in first

            # The bound on bodies holds at the proxy, and is told in our own form.
            async with acme.post("/acme/job/x/add", data=io.BytesIO(b"x" * (17 << 20))) as answer:
                assert (answer.status, (await answer.json())["error"]["code"]) == (413, "request_too_large")

            # What a client says about its own address is dropped; the proxy's word is taken.
            forged = {"X-Forwarded-For": "203.0.113.9", "Forwarded": "for=203.0.113.9"}
            async with through(proxy, operator) as boss:
                async with boss.post("/admin/tenants", json={"name": "shop"}, headers=forged) as answer:
                    assert answer.status < 300
                assert await _client_in_audit(boss) == "127.0.0.1"
            # The same claim by somebody who is a trusted proxy is believed: so the line above was nginx's doing.
            async with ClientSession(server.url, headers={"Authorization": f"Bearer {operator}"}) as near:
                async with near.patch("/admin/tenants/shop", json={"weight": 2}, headers=forged) as answer:
                    assert answer.status < 300
                assert await _client_in_audit(near) == "203.0.113.9"

        async with nginx(program, tmp_path, address) as proxy:
            assert await server.stop() == 0
            async with through(proxy, key) as acme, acme.get("/acme/scoreboard") as answer:
                assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
                assert (await answer.json())["error"]["code"] == "unavailable"


@asynccontextmanager
async def serving(app: web.Application) -> AsyncIterator[str]:
    """The address of a server of our own."""
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def _sign_in(browser: ClientSession, key: str) -> None:
    async with browser.get("/ui/signin") as answer:
        token = re.search(r'name="token" value="([^"]+)"', await answer.text())
        assert token
    form = {"token": token[1], "key": key, "next": ""}
    async with browser.post("/ui/signin", data=form, allow_redirects=False) as answer:
        assert answer.status == 303, await answer.text()


async def _client_in_audit(session: ClientSession) -> str:
    async with session.get("/admin/audit?tenant=shop&limit=1") as answer:
        (event,) = (await answer.json())["events"]
    client: str = json.loads(event["detail"])["client"]
    return client


async def test_streams_are_passed_on_as_they_come_and_connections_are_kept(tmp_path: Path, program: str) -> None:
    """A small server of our own behind it: it sends the next piece only after the last one has arrived."""
    arrived = asyncio.Event()
    peers: set[Any] = set()

    async def stream(request: web.Request) -> web.StreamResponse:
        headers = {"Content-Type": "text/event-stream"}
        if request.path != "/ui/t/acme/~live":
            headers["X-Accel-Buffering"] = "no"
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        for number in range(3):
            arrived.clear()
            await response.write(f"data: {number}\n\n".encode())
            await arrived.wait()
        return response

    async def plain(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return web.json_response(dict(request.headers))

    app = web.Application()
    app.router.add_get("/ui/t/acme/~live", stream)
    app.router.add_get("/acme/stream", stream)
    app.router.add_get("/plain", plain)
    async with serving(app) as address, nginx(program, tmp_path, address) as proxy, through(proxy) as session:
        for path in ("/ui/t/acme/~live", "/acme/stream"):
            async with asyncio.timeout(60), session.get(path) as answer:
                for number in range(3):
                    assert await answer.content.readuntil(b"\n\n") == f"data: {number}\n\n".encode()
                    arrived.set()
        seen: dict[str, str] = {}
        for _ in range(20):
            async with session.get("/plain", headers={"X-Forwarded-For": "1.2.3.4"}) as answer:
                seen = await answer.json()
        assert (seen["X-Forwarded-For"], seen["X-Forwarded-Proto"]) == ("127.0.0.1", "https")
        assert "Connection" not in seen
        assert len(peers) <= 2, "the proxy opens a connection for each request"
        async with session.get(f"http://127.0.0.1:{proxy.http_port}/x?y=1", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (308, "https://127.0.0.1/x?y=1")


async def test_no_request_takes_the_daemons_away_from_others(tmp_path: Path, program: str) -> None:
    """Long headers pass, and a connection that broke counts against the request alone. Each of them four times: there
    are two daemons, and one that nginx takes out stays out for seconds."""

    async def far(_: web.Request) -> web.Response:
        return web.Response(status=303, headers={"Location": f"/ui?x={'x' * 24_000}"})

    async def cut(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async def plain(_: web.Request) -> web.Response:
        return web.Response(text="here")

    app = web.Application()
    app.router.add_get("/ui", far)
    app.router.add_post("/acme/handler/x/invoke", cut)
    app.router.add_get("/plain", plain)
    async with serving(app) as address, nginx(program, tmp_path, address) as proxy, through(proxy) as session:
        for _ in range(4):
            async with session.get("/ui", allow_redirects=False, max_field_size=32_768) as answer:
                assert (answer.status, len(answer.headers["Location"])) == (303, 24_006)
            async with session.post("/acme/handler/x/invoke") as answer:
                assert answer.status == 503
            async with session.get("/plain") as answer:
                assert (answer.status, await answer.text()) == (200, "here")


async def test_an_answer_that_is_late_is_told_as_that_and_a_handler_may_take_its_time(
    tmp_path: Path, program: str
) -> None:
    gave_up = asyncio.Event()
    arrived: asyncio.Queue[str] = asyncio.Queue()

    async def slow(request: web.Request) -> web.Response:
        arrived.put_nowait(request.path)
        await gave_up.wait()
        return web.Response(text="done")

    app = web.Application()
    slow_paths = ["/acme/handler/x/invoke", "/ui/t/acme/new", "/ui/t/acme/type/x/edit", "/ui/t/acme/type/x/rollback"]
    for path in ["/acme/job/x/add", *slow_paths]:
        app.router.add_post(path, slow)
    impatient = {"proxy_read_timeout    75s;": "proxy_read_timeout 1ms;"}
    async with (
        serving(app) as address,
        nginx(program, tmp_path, address, changes=impatient) as proxy,
        through(proxy) as session,
    ):
        waiting = [asyncio.create_task(session.post(path)) for path in slow_paths]
        assert {await arrived.get() for _ in slow_paths} == set(slow_paths)
        async with session.post("/acme/job/x/add") as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (504, "gateway_timeout")
        gave_up.set()
        for task in waiting:
            async with await task as answer:
                assert (answer.status, await answer.text()) == (200, "done")


async def test_a_request_that_reached_no_daemon_may_be_sent_again(tmp_path: Path, program: str) -> None:
    """Nobody answers at its address, as when a machine is switched off."""
    with ExitStack() as sockets:
        full = sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        address = full.getsockname()
        for _ in range(4):  # more than the kernel takes for a server that accepts none
            one = sockets.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(address)
        impatient = {"proxy_connect_timeout 2s;": "proxy_connect_timeout 100ms;"}
        async with (
            nginx(program, tmp_path, f"127.0.0.1:{address[1]}", changes=impatient) as proxy,
            through(proxy) as session,
            session.post("/acme/job/x/add", data=b"x") as answer,
        ):
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert (await answer.json())["error"]["code"] == "unavailable"
