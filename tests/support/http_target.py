"""A server that http handlers call: its answer each test writes, and it remembers what it was sent."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from aiohttp.test_utils import TestServer

Answer = Callable[[web.Request, bytes], Awaitable[web.StreamResponse]]


class Target:
    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Answer | None = None
        self.url = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        assert self.answer is not None
        return await self.answer(request, body)

    def says(self, text: str | bytes, status: int = 200, **headers: str) -> None:
        async def answer(_request: web.Request, _body: bytes) -> web.Response:
            data = text.encode() if isinstance(text, str) else text
            return web.Response(body=data, status=status, headers=headers)

        self.answer = answer


@asynccontextmanager
async def open_target() -> AsyncIterator[Target]:
    made = Target()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    server = TestServer(app)
    await server.start_server()
    made.url = str(server.make_url("/jobs"))
    try:
        yield made
    finally:
        await server.close()
