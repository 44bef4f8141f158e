"""The examples of docs/http-api.md, run as they stand."""

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.support.command_line import clean_environ
from tests.support.needs import need_command
from tests.support.web import Site

PAGE = Path(__file__).parents[2] / "docs" / "http-api.md"
SCRIPT = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL))
[SAMPLE] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def curl() -> str:
    return need_command("curl", "curl")


async def test_the_examples_of_the_reference_work(site: Site, curl: str) -> None:
    # The daemon of the examples has the sysid with which the site's journal makes ids: what it took in it can flush.
    await site.store.forget_daemons(skip=int(site.control.sysid, 36) - 1)
    daemon = await site.store.reserve_sysid(info="", lease_ms=60_000, now_ms=site.clock.now_ms())
    assert daemon.sysid == site.control.sysid
    path = f"{curl.rpartition('/')[0]}:/usr/bin:/bin"
    environment = {"URL": site.url, "KEY": site.keys["acme"], "OPERATOR": site.keys["operator"], "PATH": path}
    ingest = asyncio.ensure_future(_ingest(site))
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-euxc", SCRIPT, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, trace = await process.communicate()
    ingest.cancel()
    assert process.returncode == 0, trace.decode()[-2000:]
    assert b'"reason":"deferred"' in out, "a real daemon would have ended it before it is changed"
    assert SCRIPT.count("curl") >= 20


async def _ingest(site: Site) -> None:
    """What a daemon does all the time."""
    while True:
        await site.service.journal.readable()
        await site.intake.flush()


async def test_the_python_example_works(site: Site) -> None:
    sample = SAMPLE
    for wait in ("wait_s=30", "timeout_s=60"):
        assert wait in SAMPLE
        sample = sample.replace(wait, f"{wait.split('=')[0]}=0.1")  # nothing runs here
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        sample,
        env=clean_environ() | {"URL": site.url, "KEY": site.keys["acme"]},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, trace = await process.communicate()
    assert (process.returncode, trace) == (0, b""), trace.decode()
    assert out == b"waiting [None, None]\n"
