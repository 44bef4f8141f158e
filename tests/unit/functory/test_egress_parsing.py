"""What the proxy reads of hostile text: heads, bodies, ClientHellos. Whatever comes is read in one way or refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from functory.egress.client_hello import MOST_BYTES, MOST_RECORDS, ClientHello, NotReadable, is_tls
from functory.egress.head import BadRequest, parse_head
from functory.egress.request_body import BadBody, ChunkedBody, RequestBody, SizedBody
from tests.support.client_hello import hello, in_records


def lines(*texts: str) -> bytes:
    return "".join(f"{text}\r\n" for text in (*texts, "")).encode("latin-1")


@pytest.mark.parametrize(
    ("target", "host", "port"),
    [
        ("api.example.org:443", "api.example.org", 443),
        ("API.Example.Org.:443", "api.example.org", 443),
        ("[2001:db8::1]:8443", "2001:db8::1", 8443),
        ("10.0.0.1:80", "10.0.0.1", 80),
    ],
)
def test_a_tunnel(target: str, host: str, port: int) -> None:
    wanted = parse_head(lines(f"CONNECT {target} HTTP/1.1", "Host: somewhere.else"))
    assert (wanted.host, wanted.port, wanted.is_tunnel) == (host, port, True)


def test_the_head_that_goes_on_names_the_host_of_the_url() -> None:
    wanted = parse_head(
        lines(
            "POST http://api.example.org:8080/a?b=c HTTP/1.1",
            "Host: internal.example",
            "host: another.example",
            "Connection: keep-alive, X-Drop",
            "X-Drop: 1",
            "Proxy-Authorization: Basic eA==",
            "Upgrade: websocket",
            "Content-Length: 3",
            "Accept: */*",
        )
    )
    assert (wanted.host, wanted.port) == ("api.example.org", 8080)
    assert wanted.head == lines(
        "POST /a?b=c HTTP/1.1", "Host: api.example.org:8080", "Content-Length: 3", "Accept: */*", "Connection: close"
    )
    assert isinstance(wanted.body, SizedBody)


@pytest.mark.parametrize("version", ["HTTP/1.0", "HTTP/1.1"])
@pytest.mark.parametrize(
    ("address", "path"), [("", "/"), ("/a", "/a"), ("/a?", "/a?"), ("?", "/?"), ("/a?b?#c?", "/a?b?"), ("/a#?", "/a")]
)
def test_the_version_and_the_address_go_on_as_they_came(version: str, address: str, path: str) -> None:
    wanted = parse_head(lines(f"GET http://a.example{address} {version}"))
    assert wanted.head == lines(f"GET {path} {version}", "Host: a.example", "Connection: close")


def test_a_connection_field_cannot_hide_where_the_body_ends() -> None:
    wanted = parse_head(lines("POST http://a.example/ HTTP/1.1", "Connection: Content-Length", "Content-Length: 3"))
    assert b"Content-Length: 3" in wanted.head
    assert wanted.body is not None


@pytest.mark.parametrize(
    "head",
    [
        lines("GET / HTTP/1.1", "Host: a.example"),
        lines("GET https://a.example/ HTTP/1.1"),
        lines("GET http://a.example/ HTTP/2"),
        lines("GET  http://a.example/ HTTP/1.1"),
        lines("GET http://u:p@a.example/ HTTP/1.1"),
        lines("GET http://a.example@127.0.0.1/ HTTP/1.1"),
        lines("GET http://127.1/ HTTP/1.1"),
        lines("GET http://0x7f000001/ HTTP/1.1"),
        lines("GET http:///x HTTP/1.1"),
        lines("GET http://[::1%25lo]/ HTTP/1.1"),
        lines("GET http://a.example/\x7f HTTP/1.1"),
        lines("CONNECT a.example HTTP/1.1"),
        lines("CONNECT a.example:0 HTTP/1.1"),
        lines("CONNECT a.example:443:80 HTTP/1.1"),
        lines("CONNECT 2130706433:80 HTTP/1.1"),
        lines("CONNECT http://a.example/ HTTP/1.1"),
        lines("GET http://a.example/ HTTP/1.1", " folded: x"),
        lines("GET http://a.example/ HTTP/1.1", "no colon"),
        lines("GET http://a.example/ HTTP/1.1", "Content-Length : 3"),
        lines("POST http://a.example/ HTTP/1.1", "Content-Length: 3", "Content-Length: 3"),
        lines("POST http://a.example/ HTTP/1.1", "Content-Length: 3", "Transfer-Encoding: chunked"),
        lines("POST http://a.example/ HTTP/1.1", "Content-Length: +3"),
        lines("POST http://a.example/ HTTP/1.0", "Transfer-Encoding: chunked"),
        lines("POST http://a.example/ HTTP/1.1", "Transfer-Encoding: gzip, chunked"),
        lines("GET http://a.example/ HTTP/1.1", *["A: b"] * 300),
        b"GET http://a.example/ HTTP/1.1\nHost: x\r\n\r\n",
        b"GET http://a.example/ HTTP/1.1\r\nA: b\rHost: x\r\n\r\n",
        b"GET http://a.example/ HTTP/1.1\r\nA: \0\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_heads_that_are_refused(head: bytes) -> None:
    with pytest.raises(BadRequest):
        parse_head(head)


@settings(max_examples=40)
@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        wanted = parse_head(data + b"\r\n\r\n")
    except BadRequest:
        return
    assert wanted.host


@settings(max_examples=40)
@given(st.lists(st.integers(1, 7), min_size=1))
def test_a_body_ends_in_the_same_place_however_it_is_cut(cuts: list[int]) -> None:
    chunked = b"5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: 1\r\n\r\n"
    bodies: list[tuple[RequestBody, bytes]] = [(SizedBody(7), b"0123456"), (ChunkedBody(), chunked)]
    for body, expected in bodies:
        data, taken, at = expected + b"GET /second HTTP/1.1\r\n\r\n", 0, 0
        for cut in (*cuts, len(data)):
            taken += body.take(data[at : at + cut])
            at += cut
            if body.is_over:
                break
        assert taken == len(expected)
        assert body.take(b"more") == 0


@pytest.mark.parametrize(
    "data",
    [
        *(b"x\r\n", b"-1\r\n", b"\r\n", b"1\nx\r\n", b"2\r\nabc\r\n", b"1\r\nabc", b"f" * 300, b"0x5\r\n"),
        b"0\r\n" + b"t: x\r\n" * 2000,
    ],
)
def test_chunks_that_are_refused(data: bytes) -> None:
    with pytest.raises(BadBody):
        ChunkedBody().take(data)


def server_name(data: bytes, cut: int = 1 << 20) -> str | None:
    """Of a hello that is whole, and that arrives in pieces of so many bytes."""
    arriving = ClientHello()
    assert [arriving.take(data[at : at + cut]) for at in range(0, len(data), cut)][-1]
    return arriving.server_name()


def test_the_name_that_tls_asks_for() -> None:
    assert server_name(hello("API.example.org")) == "api.example.org"
    assert server_name(hello(None)) is None
    assert is_tls(hello(None))
    assert not is_tls(b"GET / HTTP/1.1")


def test_a_hello_in_several_records_is_put_together() -> None:
    split = in_records(hello("api.example.org"), 50)
    assert server_name(split) == "api.example.org"
    assert server_name(split + b"what follows") == "api.example.org"


@pytest.mark.parametrize("cut", [1, 4, 5, 536, 1448])
def test_a_long_hello_may_arrive_in_pieces(cut: int) -> None:
    whole = hello("api.example.org", ["x" * 200] * 8)
    assert len(whole) > 1800  # as with keys that quantum computers cannot break
    assert server_name(whole, cut) == "api.example.org"
    assert server_name(in_records(whole, 500), cut) == "api.example.org"


def message(size: int) -> bytes:
    return b"\x01" + size.to_bytes(3, "big")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            in_records(bytes([22, 3, 1, 0, 0]) + message(MOST_BYTES - 4) + bytes(MOST_RECORDS), 1),
            "more than 64 records",
        ),
        (b"\x16\x03\x01\x10\x00" + message(MOST_BYTES), "longer than 16384 bytes"),
        (b"\x16\x03\x01\x40\x01", "too long"),
        (b"\x16\x03\x01\x00\x00", "empty"),
        (b"\x16\x03\x01\x00\x01\x02", "does not begin"),
        (b"\x16\x03\x01\x00\x01\x01\x17", "broken off"),
    ],
)
def test_hellos_that_are_not_waited_for(data: bytes, words: str) -> None:
    for cut in (1, len(data)):
        with pytest.raises(NotReadable, match=words):
            server_name(data, cut)


def test_the_longest_hello_in_the_most_records_is_read() -> None:
    body = message(MOST_BYTES - 4) + bytes(MOST_BYTES - 4)
    records = in_records(bytes([22, 3, 1, 0, 0]) + body, MOST_BYTES // MOST_RECORDS)
    arriving = ClientHello()
    assert not arriving.take(records[:-1])
    assert arriving.take(records[-1:])


@settings(max_examples=40)
@given(st.data())
def test_a_hello_that_is_cut_or_changed_is_waited_for_or_refused(data: st.DataObject) -> None:
    whole = bytearray(hello("api.example.org"))
    for at in data.draw(st.lists(st.integers(1, len(whole) - 1), max_size=4)):
        whole[at] = data.draw(st.integers(0, 255))
    arriving = ClientHello()
    try:
        if arriving.take(bytes(whole[: data.draw(st.integers(0, len(whole)))])):
            arriving.server_name()
    except NotReadable:
        return
