"""An index of packages over HTTP, from a folder of wheels. Some of its wheels may lie on another one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web


class PackageIndex:
    def __init__(self, wheels: Path) -> None:
        self._wheels = wheels
        self.port = 0
        self.elsewhere: dict[str, PackageIndex] = {}
        """Packages whose files another index has."""
        self.called: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/simple"

    async def list_package(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self.called.append(request.path)
        found = await asyncio.to_thread(lambda: sorted(self._wheels.glob(f"{name}-*.whl")))
        keeper = self.elsewhere.get(name, self)
        links = [f'<a href="http://127.0.0.1:{keeper.port}/files/{path.name}">{path.name}</a>' for path in found]
        if not links:
            raise web.HTTPNotFound
        return web.Response(text=f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>", content_type="text/html")

    async def send_file(self, request: web.Request) -> web.Response:
        self.called.append(request.path)
        return web.Response(body=await asyncio.to_thread((self._wheels / request.match_info["name"]).read_bytes))


@asynccontextmanager
async def package_index(wheels: Path) -> AsyncIterator[PackageIndex]:
    index = PackageIndex(wheels)
    app = web.Application()
    app.router.add_get("/simple/{name}/", index.list_package)
    app.router.add_get("/files/{name}", index.send_file)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        index.port = runner.addresses[0][1]
        yield index
    finally:
        await runner.cleanup()
