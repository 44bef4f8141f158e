"""Hosts to call through the proxy, names that lead to them, and a client that speaks to the proxy by hand."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from functory.egress.meters import EgressLimits
from functory.egress.proxy import EgressProxy, Gate
from handlers.hosts import parse_pattern, parse_patterns
from runner.resolver import Resolver
from runner.targets import Targets
from tests.support.polling import until

PUBLIC = "127.0.0.2"
"""Stands for an address of the internet: the operator of these tests has allowed it."""
PRIVATE = "127.0.0.3"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


@dataclass
class Host:
    """A server that keeps what it was sent, and answers with what `answer` makes of it."""

    port: int = 0
    visits: int = 0
    got: bytearray = field(default_factory=bytearray)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def host(
    address: str = PUBLIC, answer: bytes | None = None, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Host]:
    """Sends back what it gets; with `answer`, sends that once a head is there, and closes."""
    made = Host()

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.visits += 1
        try:
            while data := await reader.read(65536):
                made.got += data
                writer.write(data if answer is None else answer)
                await writer.drain()
                if answer is not None and b"\r\n\r\n" in made.got:
                    break
        except ConnectionError:
            pass
        finally:
            made.ended.set()
            writer.close()

    server = await asyncio.start_server(visit, address, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


def certificate(name: str, folder: Path) -> tuple[str, ssl.SSLContext]:
    """A certificate that vouches for itself, as text, and a server's context with it. Writes files."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    text = made.public_bytes(Encoding.PEM)
    file = folder / "certificate.pem"
    file.write_bytes(text + key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return text.decode(), context


class Names:
    """A resolver's answers, in turn; the last stays."""

    def __init__(self, **names: list[str]) -> None:
        self.asked: list[str] = []
        self._names = {name.replace("_", "."): answers for name, answers in names.items()}

    def __call__(self, name: str, _port: int) -> list[str]:
        self.asked.append(name)
        try:
            return [str(ipaddress.ip_address(name))]
        except ValueError:
            pass
        answers = self._names.get(name)
        if not answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return answer.split()


@dataclass
class Way:
    """A proxy with one gate on a unix socket."""

    proxy: EgressProxy
    gate: Gate
    path: str
    told: list[str]

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self.path)

    async def ask(self, head: str, body: bytes = b"") -> bytes:
        """The whole answer to a request."""
        reader, writer = await self.connect()
        writer.write(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        async with asyncio.timeout(20):
            answer = await reader.read()
        writer.close()
        return answer

    async def tunnel(self, target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await self.connect()
        writer.write(f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
        async with asyncio.timeout(20):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 200 Connection established\r\n\r\n"
        return reader, writer


@asynccontextmanager
async def way(
    folder: Path,
    hosts: list[str],
    names: Names,
    *,
    allowed: str = "*:*",
    networks: str = f"{PUBLIC}/32",
    limits: EgressLimits | None = None,
) -> AsyncIterator[Way]:
    targets = Targets(parse_patterns(allowed), (ipaddress.ip_network(networks),) if networks else ())
    proxy = EgressProxy(Resolver(targets, names), limits)
    told: list[str] = []
    path = str(folder / "way")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    gate = proxy.open(listener, "acme", [parse_pattern(one) for one in hosts], told.append)
    try:
        yield Way(proxy, gate, path, told)
    finally:
        await proxy.close()


async def eventually(holds: Callable[[], bool]) -> None:
    async def ask() -> bool:
        return holds()

    await until(ask, 30)


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """What still comes, until the connection is closed or reset."""
    try:
        return await reader.read()
    except ConnectionError:
        return b""


def names() -> Names:
    return Names(api_example_org=[PUBLIC], other_example_org=[PUBLIC], db_internal=[PRIVATE])
