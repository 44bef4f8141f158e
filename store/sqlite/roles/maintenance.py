"""The verbs on the whole store, on SQLite: a thread each, since a copy or a check may take long."""

import asyncio
from pathlib import Path

from store.protocol.maintenance import StoreMaintenance
from store.sqlite.file import maintenance
from store.sqlite.file.core import SqliteCore
from store.values.version import StoreVersion


class SqliteMaintenance(SqliteCore, StoreMaintenance):
    @property
    def file(self) -> Path:
        return self.path

    async def get_version(self) -> StoreVersion:
        return await asyncio.to_thread(maintenance.get_version, self.path)

    async def copy_to(self, target: Path) -> None:
        await asyncio.to_thread(maintenance.copy_file, self.path, target)

    async def verify(self, *, quick: bool = False) -> dict[str, int]:
        return await asyncio.to_thread(maintenance.verify, self.path, quick=quick)
