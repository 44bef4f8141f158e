"""The part of the client that is about consumers. `functory.client.Client` has these methods."""

import abc
from collections.abc import Mapping
from typing import TypeVar

from functory.wire import consumers

_T = TypeVar("_T")


class ConsumerCalls(abc.ABC):
    async def put_consumer(self, name: str, source: str, **settings: object) -> consumers.ConsumerCreated:
        """Work through the jobs of the type `source` by their numbers. Repeat it to change the settings."""
        body = {"source": source, **settings}
        return await self._call("PUT", self._path("consumer", name), consumers.ConsumerCreated, body=body)

    async def get_consumer(self, name: str) -> consumers.ConsumerDetail:
        return await self._call("GET", self._path("consumer", name), consumers.ConsumerDetail)

    async def list_consumers(self) -> consumers.ConsumerList:
        return await self._call("GET", self._path("consumer"), consumers.ConsumerList)

    async def start_consumer(self, name: str) -> None:
        await self._fetch("POST", self._path("consumer", name, "start"), {}, None, None)

    async def stop_consumer(self, name: str) -> None:
        """Let no more of its jobs into the queue. Those that are there go on."""
        await self._fetch("POST", self._path("consumer", name, "stop"), {}, None, None)

    async def check_consumer(self, name: str) -> consumers.ConsumerChecked:
        """Have it look for new jobs now."""
        return await self._call("POST", self._path("consumer", name, "check"), consumers.ConsumerChecked)

    async def delete_consumer(self, name: str) -> int:
        """Delete a consumer. Returns how many of its jobs were held, and are in the queue now."""
        freed = 0
        more = True
        while more:
            step = await self._call("DELETE", self._path("consumer", name), consumers.ConsumerDeleted)
            freed, more = freed + step.freed, step.more
        return freed

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
        data: bytes | None = None,
    ) -> _T: ...

    @abc.abstractmethod
    async def _fetch(
        self, method: str, path: str, query: Mapping[str, object], body: object, data: bytes | None
    ) -> bytes: ...
