"""Removes trees of packages that no version of a handler refers to any more, and those of tenants that are gone.

A tree that was used lately is left alone: contexts with it may be alive, and a version that is about to be saved refers
to it only in a moment. What is referred to stays, however long nobody used it: its index may be away when it is needed.
"""

import logging
from typing import Final

from functory.execution.handler_document import decode_handler
from handlers.errors import HandlerError
from runner.errors import RunnerError
from runner.packages.provider import Packages
from runner.packages.trees import Tree
from store.base import Store
from vocabulary.names import tenant_of

log = logging.getLogger("functory.packages")

_UNUSED_S: Final = 3 * 3600.0
"""Longer than a context lives, with the longest job."""
_UNUSED_WHEN_FULL_S: Final = 1800.0


class PackageCollector:
    def __init__(self, store: Store, packages: Packages) -> None:
        self._store = store
        self._packages = packages

    async def collect_packages(self) -> None:
        for tenant in await self._packages.tenants():
            if await self._store.get_tenant(tenant) is None:
                await self._packages.drop_tenant(tenant)
            else:
                await self.collect_of(tenant, _UNUSED_S)

    async def make_room(self, tenant: str) -> None:
        """The tenant's quota is used up: wait less."""
        await self.collect_of(tenant, _UNUSED_WHEN_FULL_S)

    async def collect_of(self, tenant: str, unused_s: float) -> None:
        for tree, users in await self._packages.unused(tenant, unused_s):
            if not await self._is_referred_to(tree, users):
                log.info("packages.collected", extra={"tenant": tenant, "tree": tree.key, "bytes": tree.size_bytes})
                await self._packages.drop(tree)

    async def _is_referred_to(self, tree: Tree, users: list[str]) -> bool:
        for jobtype in users:
            if tenant_of(jobtype) != tree.tenant:
                continue
            for version in await self._store.list_handler_versions(tree.tenant, jobtype):
                stored = await self._store.get_handler(tree.tenant, jobtype, version.version)
                try:
                    lock = None if stored is None else decode_handler(stored.data).lock
                    if lock is not None and await self._packages.is_of(tree, lock):
                        return True
                except (HandlerError, RunnerError):  # of a newer version of this program, or the tool is gone: it may
                    return True
        return False
