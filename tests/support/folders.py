"""Handlers that are folders, sent and fetched over HTTP."""

import asyncio
import io
import tarfile
from typing import Any

from tests.support.archives import tar_of
from tests.support.web import Site

TAR = {"Content-Type": "application/gzip"}


async def put(site: Site, files: dict[str, bytes], path: str = "/acme/handler/up", **more: Any) -> Any:
    return await site.call("PUT", path, data=tar_of(files), headers=TAR, **more)


async def untar(body: bytes) -> dict[str, bytes]:
    return await asyncio.to_thread(_untar, body)


def _untar(body: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        return {info.name: archive.extractfile(info).read() for info in archive}  # type: ignore[union-attr]
