"""HTTP itself, by hostile clients: malformed requests, bombs, slow senders and readers, too many of them."""

import asyncio
import gzip
import logging
import socket
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from functory.web.app import WEB
from functory.web.http.settings import WebSettings
from tests.support.polling import until
from tests.support.web import Site, open_site

ADD = "/acme/job/thumb/add"
GZIP = {"Content-Encoding": "gzip"}
MIB = 1 << 20


def head(site: Site, *more: str, path: str = ADD, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {site.keys['acme']}", *more]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


@contextmanager
def heard(event: str) -> Iterator[asyncio.Event]:
    """An event that is set when that line is logged."""
    found = asyncio.Event()

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage() == event:
                found.set()

    log, ear = logging.getLogger("functory.web"), Ear()
    log.addHandler(ear)
    level = log.level
    log.setLevel(logging.INFO)
    try:
        yield found
    finally:
        log.removeHandler(ear)
        log.setLevel(level)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"G@T / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nNo colon here\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-A: a\x00b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n X-Folded: first\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"X-%d: a\r\n" % n for n in range(100)) + b"\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnot a size\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_what_is_not_http_gets_an_error_and_costs_the_connection_only(site: Site, data: bytes) -> None:
    answer = await asyncio.wait_for(site.raw(data if data.endswith(b"\n") else data + b"\r\n\r\n"), 20)
    assert answer.startswith((b"HTTP/1.0 4", b"HTTP/1.1 4")), answer[:200]
    assert b"Traceback" not in answer
    assert b"aiohttp/" not in answer.split(b"\r\n\r\n", 1)[1]
    assert (await site.get("/healthz", key=None)).status == 200


async def test_a_broken_request_is_answered_in_json_like_any_error(site: Site) -> None:
    answer = await site.raw(b"GARBAGE\r\n\r\n")
    assert b'"code":"bad_http"' in answer
    assert b"X-Content-Type-Options: nosniff" in answer


@pytest.mark.parametrize(
    ("request_line", "headers", "status", "code", "words"),
    [
        ("GET /" + "a" * 70_000, [], 414, "url_too_long", "the URL has more than 8192 bytes"),
        ("GET /", ["X-Long: " + "a" * 9000], 431, "headers_too_large", "a header has more than 8190 bytes"),
        ("GET /", ["X-" + "a" * 9000 + ": a"], 431, "headers_too_large", "a header has more than 8190 bytes"),
        ("GET /", [f"X-{n}: a" for n in range(200)], 431, "headers_too_large", "the request has more than 64 headers"),
    ],
)
async def test_the_limit_that_was_passed_is_named(
    site: Site, request_line: str, headers: list[str], status: int, code: str, words: str
) -> None:
    lines = [f"{request_line} HTTP/1.1", "Host: x", *headers]
    answer = await asyncio.wait_for(site.raw("\r\n".join(lines).encode() + b"\r\n\r\n"), 20)
    assert f" {status} ".encode() in answer.partition(b"\r\n")[0]
    assert f'"code":"{code}","message":"{words}'.encode() in answer
    assert b"X-Request-Id: " in answer


@pytest.mark.parametrize("letter", ["a", "/", "\U0001f600"])
async def test_the_longest_rate_domain_can_be_named_in_a_path(site: Site, letter: str) -> None:
    path = f"/acme/rate/{quote(letter * 255, safe='')}"
    assert (await site.call("PUT", path, json={"rate_per_s": 1})).status == 200
    assert (await site.call("DELETE", path)).status in {200, 204}


@pytest.mark.parametrize("coding", ["gzip, chunked", "chunked, chunked", "identity", "xchunked", "gzip"])
@pytest.mark.parametrize("path", [ADD, ADD + "?ack=store", "/nowhere"])
async def test_a_transfer_coding_that_nobody_undoes_is_refused(site: Site, coding: str, path: str) -> None:
    assert await site.add("so that the key is known")
    body = gzip.compress(b"x", mtime=0)
    data = head(site, f"Transfer-Encoding: {coding}", path=path) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    answer = await asyncio.wait_for(site.raw(data), 20)
    assert b" 400 " in answer.partition(b"\r\n")[0]
    assert b'"message":"Transfer-Encoding must be chunked' in answer or coding == "chunked, chunked"
    assert b"HTTP/1.0 " in answer or b"Connection: close" in answer
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 1


@pytest.mark.parametrize("form", ["OPTIONS *", "CONNECT x:443"])
async def test_what_is_no_path_is_answered_in_json_like_any_error(site: Site, form: str) -> None:
    answer = await asyncio.wait_for(site.raw(f"{form} HTTP/1.1\r\nHost: x\r\n\r\n".encode()), 20)
    assert answer.startswith(b"HTTP/1.1 40")
    assert b"Content-Type: application/json" in answer
    assert b"X-Request-Id: " in answer


async def test_a_chunked_body_is_bounded_as_any_other(tmp_path: Path) -> None:
    async with open_site(tmp_path, settings=WebSettings(port=0, max_body_bytes=1000, shutdown_s=1)) as site:
        chunk = b"190\r\n" + b"x" * 400 + b"\r\n"
        data = head(site, "Transfer-Encoding: chunked") + chunk * 2 + b"0\r\n\r\n"
        assert b" 200 OK" in await site.raw(data)
        assert b" 413 " in await site.raw(head(site, "Transfer-Encoding: chunked") + chunk * 5 + b"0\r\n\r\n")
        assert b" 413 " in await site.raw(head(site, "Content-Length: 1001"))
        answer = await site.post(ADD, data=gzip.compress(b"x" * 1001, mtime=0), headers=GZIP)
        assert (answer.status, answer.code) == (413, "request_too_large")
        assert (await site.post(ADD, data=gzip.compress(b"x" * 1000, mtime=0), headers=GZIP)).status == 200


async def test_a_bomb_is_not_unpacked_beyond_the_limit(site: Site) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    bomb = b"".join(packer.compress(bytes(MIB)) for _ in range(200)) + packer.flush()
    assert len(bomb) < MIB
    answer = await site.post(ADD, data=bomb, headers=GZIP)
    assert (answer.status, answer.code) == (413, "request_too_large")


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"not gzip"),
        ("gzip", gzip.compress(b"x" * 100, mtime=0)[:-4]),
        ("gzip", gzip.compress(b"x", mtime=0) + b"more"),
        ("gzip", gzip.compress(b"x", mtime=0) * 2),
        ("gzip", b""),
        ("deflate", b"\x00"),
        ("br", b"x"),
        ("gzip, gzip", gzip.compress(gzip.compress(b"x", mtime=0), mtime=0)),
    ],
)
async def test_a_broken_or_unknown_encoding_is_400(site: Site, encoding: str, body: bytes) -> None:
    answer = await site.post(ADD, data=body, headers={"Content-Encoding": encoding})
    assert (answer.status, answer.code) == (400, "bad_request"), answer.body


async def test_deflate_is_understood(site: Site) -> None:
    answer = await site.post(ADD, data=zlib.compress(b"a\nb"), headers={"Content-Encoding": "deflate"})
    assert answer.json["count"] == 2


async def test_a_client_that_does_not_finish_its_headers_is_cut_off(tmp_path: Path) -> None:
    async with open_site(tmp_path, settings=WebSettings(port=0, header_timeout_s=0.05, shutdown_s=1)) as site:
        for data in (b"", b"POST / HTTP/1.1\r\nX-Slow: "):
            assert await asyncio.wait_for(site.raw(data), 20) == b""


async def test_a_second_request_that_stays_half_sent_is_cut_off(tmp_path: Path) -> None:
    async with open_site(tmp_path, settings=WebSettings(port=0, keepalive_s=0.05, shutdown_s=1)) as site:
        data = head(site, method="GET", path="/healthz") + b"GET /healthz HTTP/1.1\r\nX-Slow: "
        reader, writer = await asyncio.open_connection("127.0.0.1", site.listener.port)
        writer.write(data)
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        assert answer.startswith(b"HTTP/1.1 200")


async def test_a_body_that_does_not_arrive_is_408(tmp_path: Path) -> None:
    async with open_site(tmp_path, settings=WebSettings(port=0, body_timeout_s=0.05, shutdown_s=1)) as site:
        answer = await asyncio.wait_for(site.raw(head(site, "Content-Length: 10") + b"abc"), 20)
        assert b" 408 " in answer
        assert b"request_too_slow" in answer


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_client_that_hangs_up_in_the_middle_of_a_body_harms_nobody(
    site: Site, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", site.listener.port)
    if how == "reset":
        kept: socket.socket = writer.get_extra_info("socket")
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.write(head(site, "Content-Length: 10") + b"abc")
    await writer.drain()
    writer.transport.abort()
    assert await site.add("x")
    await site.intake.flush()
    assert (await site.store.get_usage("acme")).jobs == 1
    assert "request.failed" not in caplog.messages, "it is no fault of ours, and must not fill our log"


async def test_a_client_that_does_not_read_is_cut_off(tmp_path: Path) -> None:
    settings = WebSettings(port=0, stall_timeout_s=0.05, shutdown_s=1)
    async with open_site(tmp_path, settings=settings) as site:
        (job_id,) = await site.add("x")
        await site.run(result=b"r" * (12 * MIB))
        reader, writer = await asyncio.open_connection("127.0.0.1", site.listener.port, limit=1024)
        writer.write(head(site, path=f"/acme/job/{job_id}/result", method="GET"))
        transport = writer.transport
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()
        with heard("connection.stalled") as stalled:
            await asyncio.wait_for(stalled.wait(), 20)
        transport.resume_reading()
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(12 * MIB)
        writer.close()


@pytest.mark.parametrize(
    "settings",
    [
        WebSettings(port=0, shutdown_s=1, max_connections=2),
        WebSettings(port=0, shutdown_s=1, max_connections_of_one=2),
    ],
    ids=["of all", "of one"],
)
async def test_one_connection_too_many_is_told_so(tmp_path: Path, settings: WebSettings) -> None:
    async with open_site(tmp_path, settings=settings) as site:
        held = [await asyncio.open_connection("127.0.0.1", site.listener.port) for _ in range(2)]
        for reader, writer in held:
            writer.write(head(site, method="GET", path="/healthz"))
            await reader.readuntil(b"}")
        answer = await site.raw(b"")
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"too_many_connections" in answer
        for _, writer in held:
            writer.close()
            await writer.wait_closed()
        assert (await site.get("/healthz")).status == 200, "who leaves makes room"


async def test_unknown_paths_and_methods_answer_in_json(site: Site) -> None:
    for path in ("/nothing/here", "/acme", "/acme/job", "/acme/job/x/add/more", "/../etc/passwd", "/%00"):
        answer = await site.get(path)
        assert (answer.status, answer.code) == (404, "no_such_path"), path
    for method, path, allowed in [
        ("GET", ADD, "POST"),
        ("DELETE", "/healthz", "GET"),
        ("PATCH", "/acme/handler/x", "PUT"),
    ]:
        answer = await site.call(method, path)
        assert (answer.status, answer.code) == (405, "method_not_allowed")
        assert allowed in answer.headers["Allow"]


async def test_every_answer_has_its_headers_and_an_id(site: Site) -> None:
    for path, key in [("/healthz", None), ("/nothing", None), ("/acme/results", None), ("/acme/results", "acme")]:
        answer = await site.get(path, key=key)
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
        assert answer.headers["X-Request-Id"]
    assert (await site.get("/healthz", headers={"X-Request-Id": "mine-1"})).headers["X-Request-Id"] == "mine-1"
    odd = await site.get("/healthz", headers={"X-Request-Id": "a b" * 50})
    assert odd.headers["X-Request-Id"] != "a b" * 50


async def test_a_defect_is_500_in_json_and_only_the_log_knows_more(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("secret path /etc/x")

    monkeypatch.setattr(site.store, "list_handlers", broken)
    answer = await site.get("/acme/handler")
    assert (answer.status, answer.code) == (500, "internal")
    assert b"secret" not in answer.body
    (record,) = [it for it in caplog.records if it.message == "request.failed"]
    assert vars(record)["request"] == answer.headers["X-Request-Id"]
    assert "secret" in vars(record)["reason"]


async def test_a_query_where_none_is_taken_is_told(site: Site) -> None:
    assert (await site.get("/acme/handler?typ=x")).status == 422


async def test_requests_under_way_are_finished_when_the_service_stops(site: Site) -> None:
    (job_id,) = await site.add("x")
    waiting = asyncio.ensure_future(site.get(f"/acme/job/{job_id}?wait_s=0.3"))
    await site.waiters.waiting.wait()
    await site.listener.stop()
    assert (await waiting).status == 200
    await site.listener.stop()


@pytest.mark.parametrize(
    ("method", "path", "body", "field", "says"),
    [
        ("GET", "/acme/results?limit=x", None, "limit", "limit must be a whole number, not text"),
        ("GET", "/acme/results?limit=0", None, "limit", "limit must be at least 1"),
        ("GET", "/acme/results?lmit=5", None, "lmit", "did you mean limit?"),
        ("POST", "/acme/cancel", {"x" * 100: 1}, "x" * 64, "is not a field of this request; known: "),
        ("POST", "/acme/cancel", {"states": ["x" * 100_000]}, "states[0]", "must be one of "),
        ("GET", "/acme/results?state=gone", None, "state", "must be one of archived, deferred"),
        ("GET", "/acme/results?code=good", None, "code", "separated by commas"),
        (
            "POST",
            "/acme/job/thumb/add",
            [{"payload": 1}, {"payload": 2, "priority": 7}],
            "[1].priority",
            "0, 500, 1000",
        ),
        ("POST", "/acme/job/thumb/add", 5, None, "the body must be an object or a list, not a whole number"),
        ("POST", "/acme/replay", {"dry_run": "yes"}, "dry_run", "must be true or false, not text"),
        ("PUT", "/acme/rate/api", {}, "rate_per_s", "rate_per_s is required"),
        ("PUT", "/acme/rate/api", {"rate_per_s": 0}, "rate_per_s", "must be at least 0.000001"),
        ("POST", "/admin/tenants", {"name": "UP"}, "name", "lower-case"),
        ("POST", "/admin/tenants", {"name": "a", "limits": {"max_job": 1}}, "limits.max_job", "did you mean max_jobs?"),
        (
            "POST",
            "/admin/tenants",
            {"name": "a", "weight": 1.5},
            "weight",
            "must be a whole number, not a decimal number",
        ),
        ("POST", "/admin/tenants/acme/keys", {"scopes": []}, "scopes", "must have at least 1 entry"),
    ],
)
async def test_a_refusal_names_the_field_in_the_words_of_the_interface(
    site: Site, method: str, path: str, body: object, field: str | None, says: str
) -> None:
    key = "operator" if path.startswith("/admin") else "acme"
    answer = await site.call(method, path, key=key, **({} if body is None else {"json": body}))
    assert answer.status == 422
    error = answer.json["error"]
    assert says in error["message"]
    assert error["detail"].get("field") == field
    for word in ("Expected", "`", "$.", "regex"):
        assert word not in error["message"]


async def test_a_body_that_waits_for_room_is_hardly_in_memory(site: Site) -> None:
    """Its connection is not read on: the rest of it is in the sockets of the kernel, or with the client."""
    size = 8 << 20
    reader, writer = await asyncio.open_connection("127.0.0.1", site.listener.port)
    try:
        async with site.listener._app[WEB].bodies.of("acme", 16 << 20):
            writer.write(head(site, f"Content-Length: {size}") + b"x" * size)

            async def paused() -> list[Any]:
                assert site.listener._runner is not None
                server = site.listener._runner.server
                assert server is not None
                return [each for each in server.connections if each._reading_paused]

            (connection,) = await until(paused)
            assert connection._current_request.content.total_bytes <= 256 * 1024
        assert (await reader.readline()).startswith(b"HTTP/1.1 413"), "one line of 8 MB: but all of it was read"
    finally:
        writer.close()
