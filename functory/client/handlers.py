"""The calls about handlers: texts, versions, folders."""

from aiohttp.payload import BytesPayload

from functory.client.transport import Tell, Transport
from functory.wire import handlers


class HandlerCalls(Transport):
    async def put_handler(
        self, job_type: str, lang: str, body: str, *, tell: Tell | None = None, **fields: object
    ) -> handlers.Handler:
        """With `upgrade=True` its packages are resolved anew; the same requirements keep their versions otherwise. With
        `merge=True` fields that are not given stay as they are, if the language does. `tell` hears the steps while
        packages are resolved and installed."""
        query = {name: "true" for name in ("upgrade", "merge") if fields.pop(name, False)}
        document = {"lang": lang, "body": body, **fields}
        path = self._path("handler", job_type)
        return await self._call("PUT", path, handlers.Handler, query=query, body=document, tell=tell)

    async def serve_by_workers(self, job_type: str, **fields: object) -> handlers.Handler:
        """Have workers serve a type: fields that are not given stay as they are. A handler in another language is not
        replaced (409)."""
        path, document = self._path("handler", job_type), {"lang": "worker", **fields}
        return await self._call("PUT", path, handlers.Handler, query={"merge": "true"}, body=document)

    async def get_handler(self, job_type: str, *, version: int | None = None) -> handlers.Handler:
        query = {} if version is None else {"version": version}
        return await self._call("GET", self._path("handler", job_type), handlers.Handler, query=query)

    async def list_handlers(self) -> handlers.HandlerList:
        return await self._call("GET", self._path("handler"), handlers.HandlerList)

    async def list_versions(self, job_type: str) -> handlers.HandlerList:
        return await self._call("GET", self._path("handler", job_type, "versions"), handlers.HandlerList)

    async def roll_back(self, job_type: str, version: int) -> handlers.Handler:
        path = self._path("handler", job_type, "rollback")
        return await self._call("POST", path, handlers.Handler, body={"version": version})

    async def delete_handler(self, job_type: str) -> None:
        await self._fetch("DELETE", self._path("handler", job_type), {}, None, None)

    async def invoke(
        self, job_type: str, payload: object = "", *, handler: object = None, tell: Tell | None = None
    ) -> handlers.Invoked:
        """`tell` hears the steps: its packages may have to be installed first."""
        body = {"payload": payload, **({} if handler is None else {"handler": handler})}
        path = self._path("handler", job_type, "invoke")
        return await self._call("POST", path, handlers.Invoked, body=body, tell=tell)

    async def put_folder(
        self,
        job_type: str,
        packed: bytes,
        *,
        content_type: str = "application/gzip",
        upgrade: bool = False,
        tell: Tell | None = None,
    ) -> handlers.Handler:
        """Register a folder, packed as tar, tar.gz or zip, as the handler of a type. With `upgrade` its packages are
        resolved anew. `tell` hears the steps while they are resolved and installed."""
        data = BytesPayload(packed, content_type=content_type)
        query = {"upgrade": "true"} if upgrade else {}
        path = self._path("handler", job_type)
        return await self._call("PUT", path, handlers.Handler, query=query, data=data, tell=tell)

    async def download_folder(self, job_type: str, *, version: int | None = None) -> bytes:
        """The files of a handler that is a folder, as a tar."""
        query = {"format": "tar", **({} if version is None else {"version": version})}
        return await self._fetch("GET", self._path("handler", job_type), query, None, None)
