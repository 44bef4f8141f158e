"""A handler with hosts on a whole daemon: settings, sandbox, proxy, counts."""

from pathlib import Path
from typing import Any

import pytest

from functory.config import load_config
from functory.errors import InvalidConfig
from tests.support.egress import PUBLIC, host
from tests.support.needs import need_command
from tests.support.service import ended, register, running_daemon

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
BODY = """\
import urllib.request
return urllib.request.urlopen(f"http://{payload}/", timeout=20).read().decode()
"""


@pytest.fixture(scope="module", autouse=True)
def bwrap() -> None:
    need_command("bwrap", "bubblewrap")


async def test_a_daemon_lets_handlers_call_their_hosts_and_counts_it(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"min_isolation": "L2", "http_allowed": PUBLIC, "hosts_allowed": ""}
    async with host(answer=ANSWER) as server, running_daemon(tmp_path, **settings) as daemon:
        await register(daemon, "acme-call", BODY, hosts=[f"{PUBLIC}:{server.port}"], options={"max_attempts": 1})
        payloads = [f"{PUBLIC}:{server.port}".encode(), b"127.0.0.3"]
        good, bad = [await ended(daemon, one) for one in await daemon.intake.write("acme-call", payloads)]
        counts = daemon.egress_by_tenant()["acme"]
        gauges = daemon.gauges()
    assert good.outcome is not None
    assert good.outcome.result == b'"hello"'
    assert bad.outcome is not None
    assert b"127.0.0.3 is not in this handler's `hosts`" in (bad.outcome.result or b"")
    assert (counts["connections_total"], counts["refused_total"]) == (2, 1)
    assert gauges["egress_connections_total"] == 2
    assert server.got.count(b"Host: ") == 1


async def test_without_namespaces_its_jobs_wait_for_a_daemon_that_has_them(tmp_path: Path) -> None:
    async with running_daemon(tmp_path) as daemon:  # L0
        await register(daemon, "acme-call", BODY, hosts=["api.example.org"])
        await register(daemon, "acme-plain", "return 200")
        [waiting] = await daemon.intake.write("acme-call", [b"x"])
        [plain] = await daemon.intake.write("acme-plain", [b"x"])
        await ended(daemon, plain)
        record = await daemon.store.get_job("acme", waiting, now_ms=daemon.clock.now_ms())
    assert record is not None
    assert record.outcome is None


def test_what_is_no_host_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="hosts_allowed"):
        load_config({"hosts_allowed": "http://example.org"}, {})
