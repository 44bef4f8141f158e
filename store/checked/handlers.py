"""The handlers' verbs, checked."""

from store.checked.core import CheckedCore
from store.checks import check_author, check_handler, check_time
from store.names import check_jobtype, check_tenant
from store.protocol.handlers import HandlerShelf
from store.values.records import Handler, HandlerSummary, NewHandler


class CheckedHandlers(CheckedCore, HandlerShelf):
    async def set_handler(
        self, tenant: str, new: NewHandler, *, after: int | None = None, exactly: bool = False
    ) -> Handler:
        check_jobtype(tenant, new.jobtype)
        check_handler(new)
        return await self._back.set_handler(tenant, new, after=after, exactly=exactly)

    async def get_handler(self, tenant: str, jobtype: str, version: int | None = None) -> Handler | None:
        check_jobtype(tenant, jobtype)
        return await self._back.get_handler(tenant, jobtype, version)

    async def delete_handler(self, tenant: str, jobtype: str) -> bool:
        check_jobtype(tenant, jobtype)
        return await self._back.delete_handler(tenant, jobtype)

    async def roll_back_handler(
        self, tenant: str, jobtype: str, version: int, *, now_ms: int, author: str = ""
    ) -> Handler:
        check_jobtype(tenant, jobtype)
        check_author(author)
        check_time("now_ms", now_ms)
        return await self._back.roll_back_handler(tenant, jobtype, version, now_ms=now_ms, author=author)

    async def list_handlers(self, tenant: str) -> list[HandlerSummary]:
        check_tenant(tenant)
        return await self._back.list_handlers(tenant)

    async def list_handled_types(self, tenant: str) -> list[str]:
        check_tenant(tenant)
        return await self._back.list_handled_types(tenant)

    async def list_handler_versions(self, tenant: str, jobtype: str) -> list[HandlerSummary]:
        check_jobtype(tenant, jobtype)
        return await self._back.list_handler_versions(tenant, jobtype)
