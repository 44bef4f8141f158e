"""What no version of a handler refers to any more is removed: pieces from the store, trees from the disk.

A folder lies in the store for a moment before a version refers to it, and a trial has none at all. So what was touched
within the last hour stays; whoever sends, saves or tries a folder touches all of it. A tree stays while contexts may
have it, whatever became of the version.
"""

import logging
import math
from typing import Final

from functory.folders.contents import find_manifest
from functory.folders.unpacked import UNUSED_S, UnpackedTrees, tree_name
from store.base import Store
from store.errors import StoreCorrupt

log = logging.getLogger("functory.folders")

GRACE_MS: Final = 3_600_000
_PAGE: Final = 1000


class FolderCollector:
    def __init__(self, store: Store, trees: UnpackedTrees) -> None:
        self._store = store
        self._trees = trees

    async def collect(self, now_ms: int) -> int:
        """Returns how many pieces went. A tenant whose folders cannot be read is left alone."""
        removed = 0
        needed_trees: set[str] = set()
        unreadable: list[str] = []
        for tenant in await self._store.list_content_tenants():
            try:
                removed += await self._collect_of(tenant, now_ms - GRACE_MS, needed_trees)
            except StoreCorrupt as error:
                log.error("folders.unreadable", extra={"tenant": tenant, "reason": str(error)})  # noqa: TRY400
                unreadable.append(tenant)
        unused_s = dict.fromkeys([tenant.name for tenant in await self._store.list_tenants()], UNUSED_S)
        await self._trees.sweep(needed_trees, unused_s | dict.fromkeys(unreadable, math.inf))
        return removed

    async def _collect_of(self, tenant: str, before_ms: int, needed_trees: set[str]) -> int:
        store = self._store
        trees = await store.list_trees(tenant)
        needed = set(trees)
        for tree in trees:
            manifest = await find_manifest(store, tenant, tree)
            if manifest is None:
                raise StoreCorrupt(f"a version refers to the folder {tree}, which is not there")
            needed.update(manifest.pieces())
        needed_trees.update(tree_name(tenant, tree) for tree in trees)
        removed, after = 0, ""
        while page := await store.list_contents(tenant, after=after, limit=_PAGE):
            after = page[-1].digest
            young = {row.digest for row in page if row.touched_ms >= before_ms}
            needed_trees.update(tree_name(tenant, digest) for digest in young)
            garbage = [row.digest for row in page if row.digest not in needed and row.digest not in young]
            removed += await store.remove_contents(tenant, garbage, before_ms=before_ms)
        return removed
