"""The verbs on the whole store, on SQLite: a thread each, since a copy or a check may take long."""

import asyncio
from pathlib import Path

from store.protocol.care import StoreCare
from store.sqlite import care
from store.sqlite.core import SqliteCore
from store.values.care import StoreVersion


class SqliteCare(SqliteCore, StoreCare):
    @property
    def file(self) -> Path:
        return self.path

    async def get_version(self) -> StoreVersion:
        return await asyncio.to_thread(care.get_version, self.path)

    async def copy_to(self, target: Path) -> None:
        await asyncio.to_thread(care.copy_file, self.path, target)

    async def verify(self, *, quick: bool = False) -> dict[str, int]:
        return await asyncio.to_thread(care.verify, self.path, quick=quick)
