"""The part of the client that is about handlers that are folders. `functory.client.Client` has these methods."""

import abc
from collections.abc import Mapping
from typing import TypeVar

from aiohttp.payload import BytesPayload, Payload

from functory.wire import handlers

_T = TypeVar("_T")


class FolderCalls(abc.ABC):
    async def put_folder(
        self, job_type: str, packed: bytes, *, content_type: str = "application/gzip"
    ) -> handlers.Handler:
        """Register a folder, packed as tar, tar.gz or zip, as the handler of a type."""
        data = BytesPayload(packed, content_type=content_type)
        return await self._call("PUT", self._path("handler", job_type), handlers.Handler, data=data)

    async def download_folder(self, job_type: str, *, version: int | None = None) -> bytes:
        """The files of a handler that is a folder, as a tar."""
        query = {"format": "tar", **({} if version is None else {"version": version})}
        return await self._fetch("GET", self._path("handler", job_type), query, None, None)

    # What the client itself has

    @abc.abstractmethod
    def _path(self, *parts: str) -> str: ...

    @abc.abstractmethod
    async def _call(
        self,
        method: str,
        path: str,
        answer: type[_T],
        *,
        query: Mapping[str, object] | None = None,
        body: object = None,
        data: bytes | Payload | None = None,
    ) -> _T: ...

    @abc.abstractmethod
    async def _fetch(
        self, method: str, path: str, query: Mapping[str, object], body: object, data: bytes | Payload | None
    ) -> bytes: ...
