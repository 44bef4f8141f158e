"""The verbs on contents on SQLite."""

from collections.abc import Sequence

from store.protocol.contents import ContentShelf
from store.sqlite.file.core import SqliteCore
from store.sqlite.records import contents as records
from store.values.records import Content, ContentSummary


class SqliteContents(SqliteCore, ContentShelf):
    async def put_contents(self, tenant: str, contents: Sequence[Content]) -> None:
        await self._write(lambda tx: records.put_contents(tx, contents), bulk=True)

    async def touch_contents(self, tenant: str, digests: Sequence[str], *, now_ms: int) -> list[str]:
        return await self._write(lambda tx: records.touch_contents(tx, tenant, digests, now_ms), bulk=True)

    async def get_contents(self, tenant: str, digests: Sequence[str]) -> list[Content]:
        return await self._read(lambda conn: records.get_contents(conn, tenant, digests))

    async def list_contents(self, tenant: str, *, after: str = "", limit: int = 1000) -> list[ContentSummary]:
        return await self._read(lambda conn: records.list_contents(conn, tenant, after, limit))

    async def list_content_tenants(self) -> list[str]:
        return await self._read(records.list_content_tenants)

    async def remove_contents(self, tenant: str, digests: Sequence[str], *, before_ms: int) -> int:
        return await self._write(lambda tx: records.remove_contents(tx, tenant, digests, before_ms), bulk=True)

    async def list_trees(self, tenant: str) -> list[str]:
        return await self._read(lambda conn: records.list_trees(conn, tenant))
