"""A whole daemon with its HTTP side inside the test's own event loop, and a client that is not in it."""

import http.client
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from functory.daemon.daemon import Daemon
from functory.daemon.service import service_of
from functory.operations.keys import create_key
from functory.operations.service import Service
from functory.operations.tenants import create_tenant
from functory.tenant_limits import TenantLimits
from functory.web.app import make_app
from functory.web.http.settings import WebSettings
from functory.web.listener import Listener
from store.errors import Conflict
from tests.support.pages import visitor
from tests.support.service import running_daemon

_TIMEOUT_S: Final = 120.0


class Reply(NamedTuple):
    status: int
    body: bytes


class Client:
    """Blocking, for threads: what it costs is not the event loop's."""

    def __init__(self, port: int, key: str, cookie: str = "") -> None:
        self._port = port
        self._headers = {"Authorization": f"Bearer {key}"}
        self.cookie = cookie
        """Of somebody who is signed in to the pages."""

    def ask(self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, body, {**self._headers, **(headers or {})})
            answer = connection.getresponse()
            return Reply(answer.status, answer.read())
        finally:
            connection.close()

    def add(self, body: bytes, type_name: str = "x", query: str = "", **headers: str) -> Reply:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        return self.ask("POST", f"/acme/job/{type_name}/add{query}", body, named)

    def register(self, body: str, type_name: str = "x", lang: str = "python", **fields: object) -> Reply:
        document = json.dumps({"lang": lang, "body": body, **fields}).encode()
        return self.ask("PUT", f"/acme/handler/{type_name}", document, {"Content-Type": "application/json"})

    def run(self, body: str, payloads: bytes = b"x", type_name: str = "x") -> Reply:
        """Register a handler, add jobs, and wait for the last of them."""
        assert self.register(body, type_name).status < 300
        ids = json.loads(self.add(payloads, type_name).body)["ids"]
        return self.ask("GET", f"/acme/job/{ids[-1]}?wait_s=60")


class Served(NamedTuple):
    daemon: Daemon
    service: Service
    listener: Listener
    client: Client
    key: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.port}"

    async def signed_in(self) -> Client:
        """The client, with the cookie of a session."""
        async with visitor(self) as someone:
            assert (await someone.sign_in(self.key)).status == 303
            return Client(self.listener.port, self.key, f"functory-session={someone.cookie()}")


@asynccontextmanager
async def served_daemon(tmp_path: Path, web: WebSettings | None = None, **settings: str) -> AsyncIterator[Served]:
    """With one tenant, acme, and a key of its own."""
    async with running_daemon(tmp_path, None, **settings) as daemon:
        service = service_of(daemon)
        with suppress(Conflict):  # it was there before
            await create_tenant(service, "test", "acme", 1, TenantLimits())
        _, key = await create_key(service, "test", "acme")
        listener = Listener(make_app(service, web or WebSettings(port=0, shutdown_s=1.0)))
        await listener.start()
        try:
            yield Served(daemon, service, listener, Client(listener.port, key), key)
        finally:
            await listener.stop()
