"""Private targets of http handlers: refused, unless the operator's setting names their network."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from functory.config import load_config
from functory.errors import InvalidConfig
from tests.support.service import ended, register, running_daemon


@pytest.fixture
async def target() -> AsyncIterator[str]:
    """A service on this machine."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(text=f"got {await request.text()}")

    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await runner.cleanup()


@pytest.mark.parametrize(
    ("allowed", "exitcode"),
    [("", 403), ("10.0.0.0/8", 403), ("127.0.0.2", 403), ("127.0.0.1", 200), ("10.0.0.0/8, 127.0.0.0/8", 200)],
)
async def test_only_networks_that_are_allowed_are_called(
    tmp_path: Path, target: str, allowed: str, exitcode: int
) -> None:
    async with running_daemon(tmp_path, http_allowed=allowed) as daemon:
        await register(daemon, "acme-call", target, lang="http")
        [job_id] = await daemon.intake.write("acme-call", [b"x"])
        record = await ended(daemon, job_id)
    assert record.outcome is not None
    assert record.outcome.exitcode == exitcode
    assert ((record.outcome.result or b"").strip() == b"got x") == (exitcode == 200)


def test_what_is_no_network_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="http_allowed"):
        load_config({"http_allowed": "localhost"}, {})
