"""The handlers' verbs on SQLite."""

from store.protocol.handlers import HandlerShelf
from store.sqlite.file.core import SqliteCore
from store.sqlite.records import handlers
from store.values.records import Handler, HandlerSummary, NewHandler


class SqliteHandlers(SqliteCore, HandlerShelf):
    async def set_handler(
        self, tenant: str, new: NewHandler, *, after: int | None = None, exactly: bool = False
    ) -> Handler:
        return await self._write(lambda tx: handlers.set_handler(tx, new, after, exactly=exactly))

    async def get_handler(self, tenant: str, jobtype: str, version: int | None = None) -> Handler | None:
        return await self._read(lambda conn: handlers.get_handler(conn, jobtype, version))

    async def delete_handler(self, tenant: str, jobtype: str) -> bool:
        return await self._write(lambda tx: handlers.delete_handler(tx, jobtype))

    async def roll_back_handler(
        self, tenant: str, jobtype: str, version: int, *, now_ms: int, author: str = ""
    ) -> Handler:
        return await self._write(lambda tx: handlers.roll_back_handler(tx, jobtype, version, now_ms, author))

    async def list_handlers(self, tenant: str) -> list[HandlerSummary]:
        return await self._read(lambda conn: handlers.list_handlers(conn, tenant))

    async def list_handled_types(self, tenant: str) -> list[str]:
        return await self._read(lambda conn: handlers.list_handled_types(conn, tenant))

    async def list_handler_versions(self, tenant: str, jobtype: str) -> list[HandlerSummary]:
        return await self._read(lambda conn: handlers.list_handler_versions(conn, jobtype))
