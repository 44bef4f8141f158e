"""The calls about consumers."""

from functory.client.transport import Transport
from functory.wire import consumers


class ConsumerCalls(Transport):
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
        path = self._path("consumer", name)
        step = await self._call("DELETE", path, consumers.ConsumerDeleted)
        freed = step.freed
        while step.more:  # not the next consumer of the name, if a daemon has done the rest by itself
            step = await self._call("DELETE", path, consumers.ConsumerDeleted, query={"only_deleting": True})
            freed += step.freed
        return freed
