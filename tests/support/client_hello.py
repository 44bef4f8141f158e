"""What a client of TLS says first."""

import ssl
from collections.abc import Sequence

import pytest


def hello(name: str | None, protocols: Sequence[str] = ()) -> bytes:
    """What the standard library's client sends first."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(protocols)
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def in_records(whole: bytes, size: int) -> bytes:
    """The same hello in records of so many bytes."""
    body = whole[5:]
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(whole[:3] + len(piece).to_bytes(2, "big") + piece for piece in pieces)
