"""Work that lasts as long as its client is there: a handler that is tried runs in vain when nobody hears of it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from aiohttp import web

from functory.errors import BadRequest

_LOOK_S: Final = 0.25
_T = TypeVar("_T")


async def while_present(request: web.BaseRequest, work: Coroutine[Any, Any, _T]) -> _T:
    """The result of `work`. It is cancelled when the client goes away, and then this raises BadRequest, to nobody."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=_LOOK_S)
            if not task.done() and has_gone(request):
                raise BadRequest("the client has gone")
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])


def has_gone(request: web.BaseRequest) -> bool:
    return request.transport is None or request.transport.is_closing()
