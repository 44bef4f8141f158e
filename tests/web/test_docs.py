"""The examples of docs/http-api.md, run as they stand."""

import asyncio
import re
from pathlib import Path

from tests.support.needs import need_command
from tests.support.web import Site

PAGE = Path(__file__).parents[2] / "docs" / "http-api.md"
SCRIPT = "\n".join(re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL))


async def test_the_examples_of_the_reference_work(site: Site) -> None:
    need_command("curl", "curl")
    site.control.sysid = (await site.store.reserve_sysid(info="", lease_ms=60_000, now_ms=site.clock.now_ms())).sysid
    # Ids of jobs name the daemon that made them: this one, whatever sysid the store gave it for the pauses.
    environment = {
        "URL": site.url,
        "KEY": site.keys["acme"],
        "OPERATOR": site.keys["operator"],
        "PATH": "/usr/bin:/bin",
    }
    flushing = asyncio.ensure_future(_keep_flushing(site))
    process = await asyncio.create_subprocess_exec(
        "sh", "-euxc", SCRIPT, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, trace = await process.communicate()
    flushing.cancel()
    assert process.returncode == 0, trace.decode()[-2000:]
    assert b'"reason":"no_daemon"' in out or b'"reason":"in_line"' in out
    assert SCRIPT.count("curl") >= 20


async def _keep_flushing(site: Site) -> None:
    """What ingest does in a daemon."""
    while True:
        await site.service.journal.readable()
        await site.intake.flush()
