"""The handlers' verbs, checked."""

from store.checked.core import CheckedCore
from store.checks import check_author, check_handler, check_range, check_time
from store.names import check_jobtype, check_tenant
from store.protocol.handlers import HandlerShelf
from store.values.records import Handler, HandlerSummary


class CheckedHandlers(CheckedCore, HandlerShelf):
    async def set_handler(
        self,
        tenant: str,
        jobtype: str,
        *,
        lang: str,
        data: bytes,
        now_ms: int,
        author: str = "",
        tree: str = "",
        after: int | None = None,
        exactly: bool = False,
        keep: int = 50,
    ) -> Handler:
        check_jobtype(tenant, jobtype)
        check_handler(lang, data, author, tree)
        check_time("now_ms", now_ms)
        check_range("keep", keep, 1, 10_000)
        return await self._back.set_handler(
            tenant,
            jobtype,
            lang=lang,
            data=data,
            now_ms=now_ms,
            author=author,
            tree=tree,
            after=after,
            exactly=exactly,
            keep=keep,
        )

    async def get_handler(self, tenant: str, jobtype: str, version: int | None = None) -> Handler | None:
        check_jobtype(tenant, jobtype)
        return await self._back.get_handler(tenant, jobtype, version)

    async def delete_handler(self, tenant: str, jobtype: str) -> bool:
        check_jobtype(tenant, jobtype)
        return await self._back.delete_handler(tenant, jobtype)

    async def roll_back_handler(
        self, tenant: str, jobtype: str, version: int, *, now_ms: int, author: str = "", keep: int = 50
    ) -> Handler:
        check_jobtype(tenant, jobtype)
        check_author(author)
        check_time("now_ms", now_ms)
        check_range("keep", keep, 1, 10_000)
        return await self._back.roll_back_handler(tenant, jobtype, version, now_ms=now_ms, author=author, keep=keep)

    async def list_handlers(self, tenant: str) -> list[HandlerSummary]:
        check_tenant(tenant)
        return await self._back.list_handlers(tenant)

    async def list_handled_types(self, tenant: str) -> list[str]:
        check_tenant(tenant)
        return await self._back.list_handled_types(tenant)

    async def list_handler_versions(self, tenant: str, jobtype: str) -> list[HandlerSummary]:
        check_jobtype(tenant, jobtype)
        return await self._back.list_handler_versions(tenant, jobtype)
