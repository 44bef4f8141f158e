"""Reads a body: bounded in size after decompression, bounded in time, and safe against compression bombs."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Final

from aiohttp import web

from functory.errors import BadRequest, RequestTooLarge, RequestTooSlow
from functory.web.http.settings import WebSettings

_STEP_BYTES: Final = 256 * 1024
"""Bytes decompressed at a time, so that the event loop gets its turn even within a bomb."""

Grown = Callable[[int], Awaitable[None]]


async def _pass_over(_: int) -> None:
    return


async def read_body(
    request: web.Request, settings: WebSettings, limit_bytes: int | None = None, grown: Grown = _pass_over
) -> bytes:
    """The decoded body, of at most limit_bytes if that is given. grown: hears how many have come.

    Raises RequestTooLarge, RequestTooSlow, BadRequest (unknown encoding, broken data), and what grown raises.
    """
    limit = settings.max_body_bytes if limit_bytes is None else limit_bytes
    content = request.content
    given = request.headers.get("Content-Encoding")
    if given is None and content.is_eof() and content.exception() is None:
        return _within(content.read_nowait(), limit)  # it came with the headers, as most bodies do
    encoding = "identity" if given is None else given.strip().lower()
    if encoding not in {"identity", "gzip", "x-gzip", "deflate"}:
        raise BadRequest(
            f"Content-Encoding {encoding[:40]!r} is not understood: send gzip, deflate or none",
            detail={"header": "Content-Encoding"},
        )
    if encoding == "identity" and (request.content_length or 0) > limit:
        raise _too_large(limit)
    try:
        async with asyncio.timeout(settings.body_timeout_s):
            return await _read(request, encoding, limit, grown)
    except TimeoutError:
        raise RequestTooSlow(f"the body did not arrive within {settings.body_timeout_s:g} s: send it faster") from None
    except ConnectionError:
        raise BadRequest("the connection ended before the body did: send all of it") from None
    except web.RequestPayloadError as error:
        raise BadRequest(f"the body cannot be read: {error}") from None


async def _read(request: web.Request, encoding: str, limit: int, grown: Grown) -> bytes:
    if encoding != "identity":
        return await _decompress(request, encoding, limit, grown)
    content = request.content
    first = await content.readany()
    if content.at_eof():
        return _within(first, limit)
    body = BytesIO()  # it grows in place and hands over what it has: pieces to be joined would take twice the memory
    body.write(first)
    while chunk := await content.readany():
        body.write(chunk)
        if body.tell() > limit:
            raise _too_large(limit)
        await grown(body.tell())
    return body.getvalue()


async def _decompress(request: web.Request, encoding: str, limit: int, grown: Grown) -> bytes:
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | (0 if encoding == "deflate" else 16))
    body = BytesIO()
    while chunk := await request.content.readany():
        while chunk:
            if unpacker.eof:
                raise BadRequest("there is more after the end of the compressed body: send one stream only")
            try:
                piece = unpacker.decompress(chunk, _STEP_BYTES)
            except zlib.error as error:
                raise BadRequest(f"the body is not valid {encoding}: {error}") from None
            body.write(piece)
            if body.tell() > limit:
                raise _too_large(limit)
            await grown(body.tell())
            chunk = unpacker.unconsumed_tail or unpacker.unused_data
            await asyncio.sleep(0)
    if not unpacker.eof:
        raise BadRequest(f"the {encoding} body ends too early: send all of it")
    return body.getvalue()


def _within(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise _too_large(limit)
    return data


def _too_large(limit: int) -> RequestTooLarge:
    return RequestTooLarge(
        f"the body is larger than {limit} bytes (after decompression): send less at a time",
        detail={"limit_bytes": limit},
    )
