"""The verbs on contents, checked."""

from collections.abc import Sequence

from store.checked.core import CheckedCore
from store.checks import check_contents, check_digests, check_page_limit, check_time, check_tree
from store.names import check_tenant
from store.protocol.contents import ContentShelf
from store.values.records import Content, ContentSummary


class CheckedContents(CheckedCore, ContentShelf):
    async def put_contents(self, tenant: str, contents: Sequence[Content]) -> None:
        check_tenant(tenant)
        check_contents(tenant, contents)
        if contents:
            await self._back.put_contents(tenant, contents)

    async def touch_contents(self, tenant: str, digests: Sequence[str], *, now_ms: int) -> list[str]:
        check_tenant(tenant)
        check_digests(digests)
        check_time("now_ms", now_ms)
        return await self._back.touch_contents(tenant, digests, now_ms=now_ms)

    async def get_contents(self, tenant: str, digests: Sequence[str]) -> list[Content]:
        check_tenant(tenant)
        check_digests(digests)
        return await self._back.get_contents(tenant, digests)

    async def list_contents(self, tenant: str, *, after: str = "", limit: int = 1000) -> list[ContentSummary]:
        check_tenant(tenant)
        check_tree(after)
        check_page_limit(limit)
        return await self._back.list_contents(tenant, after=after, limit=limit)

    async def list_content_tenants(self) -> list[str]:
        return await self._back.list_content_tenants()

    async def remove_contents(self, tenant: str, digests: Sequence[str], *, before_ms: int) -> int:
        check_tenant(tenant)
        check_digests(digests)
        check_time("before_ms", before_ms)
        return await self._back.remove_contents(tenant, digests, before_ms=before_ms)

    async def list_trees(self, tenant: str) -> list[str]:
        check_tenant(tenant)
        return await self._back.list_trees(tenant)
