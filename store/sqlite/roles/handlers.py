"""The handlers' verbs on SQLite."""

from store.checks import check_handler, check_range, check_text
from store.names import check_jobtype, check_tenant
from store.protocol.handlers import HandlerShelf
from store.sqlite import handlers
from store.sqlite.core import SqliteCore
from store.values.records import Handler, HandlerSummary


class SqliteHandlers(SqliteCore, HandlerShelf):
    async def set_handler(
        self,
        tenant: str,
        jobtype: str,
        *,
        lang: str,
        data: bytes,
        now_ms: int,
        author: str = "",
        keep: int = 50,
    ) -> Handler:
        check_jobtype(tenant, jobtype)
        check_handler(lang, data, author)
        check_range("keep", keep, 1, 10_000)
        new = handlers.NewHandler(jobtype, lang, data, author, now_ms)
        return await self._write(lambda tx: handlers.set_handler(tx, new, keep))

    async def get_handler(self, tenant: str, jobtype: str, version: int | None = None) -> Handler | None:
        check_jobtype(tenant, jobtype)
        return await self._read(lambda conn: handlers.get_handler(conn, jobtype, version))

    async def delete_handler(self, tenant: str, jobtype: str) -> bool:
        check_jobtype(tenant, jobtype)
        return await self._write(lambda tx: handlers.delete_handler(tx, jobtype))

    async def roll_back_handler(
        self, tenant: str, jobtype: str, version: int, *, now_ms: int, author: str = ""
    ) -> Handler:
        check_jobtype(tenant, jobtype)
        check_text("author", author, 255)
        return await self._write(lambda tx: handlers.roll_back_handler(tx, jobtype, version, now_ms, author))

    async def list_handlers(self, tenant: str) -> list[HandlerSummary]:
        check_tenant(tenant)
        return await self._read(lambda conn: handlers.list_handlers(conn, tenant))

    async def list_handled_types(self, tenant: str) -> list[str]:
        check_tenant(tenant)
        return await self._read(lambda conn: handlers.list_handled_types(conn, tenant))

    async def list_handler_versions(self, tenant: str, jobtype: str) -> list[HandlerSummary]:
        check_jobtype(tenant, jobtype)
        return await self._read(lambda conn: handlers.list_handler_versions(conn, jobtype))
