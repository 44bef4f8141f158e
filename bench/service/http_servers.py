"""Servers to compare HTTP with, each in its own process: a bare aiohttp server, and ours without store and execution.

`bare` counts the lines of a POST and returns the number: the cost of aiohttp alone. `synced` also writes them to a file
and syncs it, in its event loop: what a durable POST costs one caller at least. `web` authenticates, checks, writes to
the journal, syncs and returns the ids.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from functory.intake.admission import Admission
from functory.operations.keys import create_key
from functory.operations.service import Service
from functory.operations.tenants import create_tenant
from functory.tenant_limits import TenantLimits
from functory.web.app import make_app
from functory.web.http.settings import WebSettings
from functory.web.listener import Listener
from functory.webhooks.arrivals import Arrivals
from journal import Journal
from store.url import open_store
from tests.support.absent_parts import NoConsumers, NoPackages, NoStraight, NoVault, NoWorkers
from tests.support.fake_daemon import LineIntake, PaperControl, PaperTrials, StoredHandlers, ToldWaiters
from vocabulary.clock import SystemClock

TENANT = "acme"


class Server(NamedTuple):
    port: int
    key: str
    pid: int
    tenant: str = TENANT


@asynccontextmanager
async def started(kind: str, folder: Path) -> AsyncIterator[Server]:
    """`bare`, `synced` or `web`, with its data below the folder."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.service.http_servers", kind, str(folder / kind),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        port, key = (await process.stdout.readline()).decode().split()
        yield Server(int(port), key, process.pid)
    finally:
        process.terminate()
        await process.wait()


async def serve_bare(file: Path | None = None) -> None:
    """file: where the lines are written and synced."""
    fd = None if file is None else os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def add(request: web.Request) -> web.Response:
        body = await request.read()
        if fd is not None:
            os.write(fd, body)
            os.fdatasync(fd)
        return web.json_response({"count": body.count(b"\n")})

    app = web.Application(client_max_size=1 << 24)
    app.router.add_post("/{tenant}/job/{type}/add", add)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], "no-key", flush=True)
    await asyncio.Event().wait()


async def serve_web(folder: Path) -> None:
    folder.mkdir(parents=True)
    now_ms = SystemClock().now_ms
    async with open_store(f"sqlite://{folder}/store.db") as store, Journal(folder / "journal", "a7") as journal:
        service = Service(
            store=store,
            journal=journal,
            intake=LineIntake(journal, store, now_ms),
            admission=Admission(store, journal, now_ms),
            waiters=ToldWaiters(),
            handlers=StoredHandlers(store),
            trial_runs=PaperTrials(),
            control=PaperControl("a7"),
            straight=NoStraight(),
            workers=NoWorkers(),
            consumers=NoConsumers(),
            vault=NoVault(),
            packages=NoPackages(),
            arrivals=Arrivals(now_ms()),
            now_ms=now_ms,
        )
        await create_tenant(service, "bench", TENANT, 1, TenantLimits())
        _, key = await create_key(service, "bench", TENANT)
        listener = Listener(make_app(service, WebSettings(port=0)))
        await listener.start()
        print(listener.port, key, flush=True)
        await asyncio.Event().wait()


def main(kind: str, folder: Path) -> None:
    if kind == "web":
        asyncio.run(serve_web(folder))
    else:
        asyncio.run(serve_bare(folder if kind == "synced" else None))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
