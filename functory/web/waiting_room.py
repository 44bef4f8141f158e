"""What a daemon answers that has no store and no spare sysid: it cannot know a key, so it takes nothing in.

`/healthz` is well: a restart would not bring the store. `/readyz` is not, and everything else is refused with 503 and
the reason, in words that tell no address.
"""

import asyncio
from typing import Final

from aiohttp import web

from functory.web.closing import stop_listening
from functory.web.http.answers import json_answer, problem
from functory.wire.admin import HealthAnswer
from store.errors import StoreUnavailable

_MESSAGE: Final = (
    "the store is away, and this daemon has not had it long enough to know any keys: it takes no jobs until the store"
    " comes. Nothing was accepted; try again later"
)
_RETRY_AFTER_S: Final = "5"


class WaitingRoom:
    """Listens from `start` to `stop`. `stop` is idempotent, and legal before start."""

    def __init__(self) -> None:
        self._app = web.Application()
        self._app.router.add_get("/healthz", _health)
        self._app.router.add_get("/readyz", _readiness)
        self._app.router.add_route("*", "/{path:.*}", _refuse)
        self._runner: web.AppRunner | None = None
        self._servers: list[asyncio.Server] = []

    async def start(self, addresses: list[tuple[str, int]]) -> None:
        """Raises OSError when an address is not available."""
        self._runner = runner = web.AppRunner(self._app, access_log=None, handle_signals=False, shutdown_timeout=0)
        await runner.setup()
        assert runner.server is not None
        loop = asyncio.get_running_loop()
        for host, port in addresses:
            self._servers.append(await loop.create_server(runner.server, host, port, reuse_port=True))

    async def stop(self) -> None:
        if self._runner is not None:
            await stop_listening(self._servers)
            self._servers = []
            await self._runner.cleanup()
            self._runner = None


async def _health(_: web.Request) -> web.Response:
    return json_answer(HealthAnswer("ok", ["store"]))


async def _readiness(_: web.Request) -> web.Response:
    return json_answer(HealthAnswer("failing", ["store"]), 503)


async def _refuse(_: web.Request) -> web.Response:
    refusal = problem(503, StoreUnavailable.code, _MESSAGE)
    refusal.headers["Retry-After"] = _RETRY_AFTER_S
    return refusal
