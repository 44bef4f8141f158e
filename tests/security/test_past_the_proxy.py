"""Handlers with hosts whose code opens connections itself are told what to do; the cookbook's mail gets through."""

import asyncio
import ipaddress
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from functory.egress.proxy import EgressProxy
from handlers.hosts import parse_patterns
from handlers.model import Handler
from runner.limits import PAST_PROXY
from runner.resolver import Resolver
from runner.runner import Runner
from runner.sandbox.launcher import SandboxLauncher
from runner.targets import Targets
from tests.support.egress import PUBLIC, Names, certificate
from tests.support.engines import jobs, run
from tests.support.needs import need_command

pytestmark = pytest.mark.asyncio(loop_scope="module")

COOKBOOK: Final = (Path(__file__).parents[2] / "docs" / "cookbook.md").read_text()
MAIL: Final = '{"to": "ada@example.org", "subject": "Größe", "text": "two\\nlines"}'
BY_ITSELF: Final = {
    "python": "import smtplib\nsmtplib.SMTP(payload, 2525, timeout=20)",
    "node": "await new Promise((_, failed) => require('net').connect(2525, payload).on('error', failed));",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runner() -> AsyncIterator[Runner]:
    need_command("bwrap", "bubblewrap")
    targets = Targets(parse_patterns("*:*"), (ipaddress.ip_network(PUBLIC),))
    proxy = EgressProxy(Resolver(targets, Names(mail_example_org=[PUBLIC])))
    made = Runner(SandboxLauncher(), egress=proxy)
    await made.start()
    yield made
    await made.close()
    await proxy.close()


@pytest.mark.parametrize("lang", list(BY_ITSELF))
@pytest.mark.parametrize("host", ["mail.example.org", "192.0.2.1"])
async def test_a_connection_of_its_own_fails_and_says_how_to_make_one(runner: Runner, lang: str, host: str) -> None:
    seen = await run(runner, Handler(lang, BY_ITSELF[lang], hosts=(f"{host}:2525",)), jobs(host))
    assert seen.exitcodes == [500]
    assert seen.results[0].decode().endswith(PAST_PROXY), seen.results[0].decode()


@pytest.mark.parametrize("with_tls", [False, True])
async def test_the_mail_of_the_cookbook_is_sent(runner: Runner, tmp_path: Path, *, with_tls: bool) -> None:
    name = "mail.example.org"
    text, tls = await asyncio.to_thread(certificate, name, tmp_path)
    found = re.search(r"## Send mail.*?```python\n(.*?)```", COOKBOOK, re.DOTALL)
    assert found is not None
    body = found[1].replace("create_default_context()", "create_default_context(cadata=os.environ['CA'])")
    if with_tls:
        body = body.replace("ctx.secrets", "{'SMTP_PASSWORD': 'secret'}")
    async with _mail_server(tls) as (port, got):
        env = {"SMTP_HOST": name, "SMTP_PORT": str(port), "MAIL_FROM": "shop@example.org", "CA": text}
        handler = Handler("python", body, hosts=(f"{name}:{port}",), env=env, memory_mb=192)
        seen = await run(runner, handler, jobs(MAIL, MAIL.replace("ada", "nobody"), MAIL.replace("ada", "busy")))
    assert seen.exitcodes == [200, 422, 500], seen.results
    assert seen.results[:2] == [b'{"sent":"ada@example.org"}', b'"550 no such mailbox"']
    assert got.count("rcpt TO:<ada@example.org>") == 1
    assert ("STARTTLS" in got) is with_tls


@asynccontextmanager
async def _mail_server(tls: ssl.SSLContext) -> AsyncIterator[tuple[int, list[str]]]:
    """Takes mail, and keeps the lines that it was sent."""
    got: list[str] = []
    answers = {
        "EHLO": b"250-mail.example.org\r\n250-STARTTLS\r\n250 AUTH PLAIN\r\n",
        "AUTH": b"235 welcome\r\n",
        "DATA": b"354 go on\r\n",
        "STAR": b"220 go on\r\n",
        "QUIT": b"221 bye\r\n",
        "nobody": b"550 no such mailbox\r\n",
        "busy": b"450 busy\r\n",
    }

    async def visit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.example.org\r\n")
        is_text = False
        while sent := await reader.readline():
            line = sent.decode().rstrip()
            got.append(line)
            is_text = is_text and line != "."
            if is_text:
                continue
            said = line[:4].upper()
            if said == "RCPT":
                said = re.split("[<@]", line)[1]
            writer.write(answers.get(said, b"250 fine\r\n"))
            is_text = said == "DATA"
            if said == "STAR":
                await writer.start_tls(tls)
        writer.close()

    server = await asyncio.start_server(visit, PUBLIC)
    try:
        yield server.sockets[0].getsockname()[1], got
    finally:
        server.close()
