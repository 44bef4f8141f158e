"""What the proxy refuses is told without a part of a secret: masking would not recognise it."""

import asyncio
from pathlib import Path

import pytest

from runner.masking import Masker
from tests.support.client_hello import hello
from tests.support.egress import host, names, rest_of, way

HIDDEN = "Tq7ZpW9vKx2LmN4bRs6TyU8iOp0AsDfGhJkLzXcV"
LONG = f"{HIDDEN}." * 5 + "example.org"


@pytest.mark.parametrize(
    "head",
    [
        f"CONNECT user:{HIDDEN}@api.example.org:443 HTTP/1.1",
        f"CONNECT api.example.org:{HIDDEN} HTTP/1.1",
        f"CONNECT {HIDDEN * 3}.example.org:443 HTTP/1.1",
        f"CONNECT {LONG}:25 HTTP/1.1",
        f"CONNECT {LONG}:443 HTTP/1.1",
        f"GET http://user:{HIDDEN}@api.example.org/ HTTP/1.1",
        f"GET http://[{HIDDEN * 9}]/ HTTP/1.1",
        f"GET http://api.example.org/ HTTP/1.1\nAuthorization: Bearer\n{HIDDEN}{HIDDEN}",
    ],
)
async def test_no_refusal_has_a_part_of_a_secret(tmp_path: Path, head: str) -> None:
    async with way(tmp_path, ["*.example.org"], names()) as made:
        answer = await made.ask(head)
        left = Masker([HIDDEN]).hide(answer + "\n".join(made.told).encode()).decode().lower()
    assert answer.startswith(b"HTTP/1.1 4")
    assert made.told
    assert not [part for at in range(len(HIDDEN) - 5) if (part := HIDDEN[at : at + 6].lower()) in left]


@pytest.mark.parametrize("name", [LONG, f"{HIDDEN}." * 6 + "example.x"])
async def test_the_name_that_tls_asks_for_is_told_whole_or_not_at_all(tmp_path: Path, name: str) -> None:
    async with host() as server, way(tmp_path, [f"*.example.org:{server.port}"], names()) as made:
        reader, writer = await made.tunnel(f"api.example.org:{server.port}")
        writer.write(hello(name))
        async with asyncio.timeout(20):
            assert await rest_of(reader) == b""
        told = name.lower() if name == LONG else "another host"
        assert made.told == [f"TLS asks for {told} in a tunnel to api.example.org"]
        writer.close()
