"""What a daemon answers that has no store and no spare sysid: it cannot know a key, so it takes nothing in.

`/healthz` is well: a restart would not bring the store. `/readyz` is not, and everything else is refused with 503 and
the reason, in words that tell no address.
"""

import asyncio
from typing import Final

from aiohttp import web

from functory.web.http.answers import json_answer, problem
from functory.wire.admin import HealthAnswer
from store.errors import StoreUnavailable

_MESSAGE: Final = (
    "the store is away, and this daemon has not had it long enough to know any keys: it takes no jobs until the store"
    " comes. Nothing was accepted; try again later"
)
_RETRY_AFTER_S: Final = "5"
_TURNS: Final = 5
"""Of the event loop, until a connection that was accepted before the last listener closed is known, and is closed."""


class WaitingRoom:
    """Listens from `start` to `stop`. `stop` is idempotent, and legal before start."""

    def __init__(self) -> None:
        self._app = web.Application()
        self._app.router.add_get("/healthz", _health)
        self._app.router.add_get("/readyz", _readiness)
        self._app.router.add_route("*", "/{path:.*}", _refuse)
        self._runner: web.AppRunner | None = None

    async def start(self, addresses: list[tuple[str, int]]) -> None:
        """Raises OSError when an address is not available."""
        self._runner = runner = web.AppRunner(self._app, access_log=None, handle_signals=False, shutdown_timeout=0)
        await runner.setup()
        for host, port in addresses:
            await web.TCPSite(runner, host, port, reuse_port=True).start()

    async def stop(self) -> None:
        if self._runner is not None:
            for site in list(self._runner.sites):
                await site.stop()
            for _ in range(_TURNS):
                await asyncio.sleep(0)
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
