"""The examples of docs/http-api.md, run as they stand."""

import asyncio
import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

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
    assert "http://127.0.0.1:8484" in SAMPLE
    sample = SAMPLE.replace("http://127.0.0.1:8484", site.url)
    for wait in ("wait_s=30", "timeout_s=60"):
        assert wait in SAMPLE
        sample = sample.replace(wait, f"{wait.split('=')[0]}=0.1")  # nothing runs here
    body = textwrap.indent(sample + "\nreturn added, job, results", "    ")
    names: dict[str, Any] = {}
    exec(f"async def example(key):\n{body}", names)  # noqa: S102 (our own page)
    added, job, results = await names["example"](site.keys["acme"])
    assert added.count == 2
    assert results == [None, None]
    assert job.id == added.ids[0]
