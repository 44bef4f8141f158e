"""An HTTP server that answers as it is told, or breaks the connection; for clients that block."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit


class Seen(NamedTuple):
    """A request. connection: its number, from 1. target: path and query as they came."""

    connection: int
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query))


class Say(NamedTuple):
    """An answer. cut_after: only so many bytes of the body are sent; without has_head, only the first two lines.
    hangs_up: the connection is closed after it, and nothing says so."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = {}  # noqa: RUF012 (nobody changes it)
    cut_after: int | None = None
    hangs_up: bool = False
    has_head: bool = True


Step = Callable[[Seen], Say | None]
"""None: the connection is closed without an answer."""


class FakeServer:
    """Each request takes the next step; the last one stays. is_deaf: it answers without having read the body."""

    def __init__(self, *steps: Step) -> None:
        self.is_deaf = False
        self._steps = list(steps)
        self._lock = threading.Lock()
        self._connections = 0
        self.seen: list[Seen] = []
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self), bind_and_activate=False)
        self.http.daemon_threads = True
        self.http.block_on_close = False
        self.http.server_bind()
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}"

    def listen(self) -> None:
        """Until then connections are refused."""
        self.http.server_activate()
        self._thread = threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        if self._thread is not None:
            self.http.shutdown()
            self._thread.join()
        self.http.server_close()

    def connected(self) -> int:
        with self._lock:
            self._connections += 1
            return self._connections

    def answer(self, seen: Seen) -> Say | None:
        with self._lock:
            self.seen.append(seen)
            step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        return step(seen)


@contextmanager
def fake_server(*steps: Step) -> Iterator[FakeServer]:
    server = FakeServer(*steps)
    server.listen()
    try:
        yield server
    finally:
        server.close()


def say(status: int = 200, body: bytes = b"{}", **headers: str) -> Step:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Say(status, body, named)


def cut(_: Seen) -> None:
    """Break the connection."""


def _handler_of(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            self.number = server.connected()

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except OSError:  # the client has gone
                self.close_connection = True

        def do_GET(self) -> None:
            size_bytes = 0 if server.is_deaf else int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(size_bytes)
            said = server.answer(Seen(self.number, self.command, self.path, dict(self.headers), body))
            self.close_connection = server.is_deaf or said is None or said.hangs_up or said.cut_after is not None
            if said is None:
                return
            if not said.has_head:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
                self.close_connection = True
                return
            self.send_response(said.status)
            for name, value in ({"Content-Length": str(len(said.body))} | said.headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said.body[: said.cut_after])

        do_POST = do_GET  # noqa: N815 (their names are given)

        def log_message(self, *_: Any) -> None:
            """It is silent."""

    return Handler
