"""The back end behind the front, and the verbs that have nothing to check."""

from pathlib import Path

from store.base import Store
from store.protocol.maintenance import StoreMaintenance
from store.values.version import StoreVersion


class CheckedCore:
    def __init__(self, back: Store) -> None:
        self._back = back

    async def open(self) -> None:
        await self._back.open()

    async def close(self) -> None:
        await self._back.close()

    async def ping(self) -> None:
        await self._back.ping()


class CheckedMaintenance(CheckedCore, StoreMaintenance):
    @property
    def file(self) -> Path | None:
        return self._back.file

    async def get_version(self) -> StoreVersion:
        return await self._back.get_version()

    async def copy_to(self, target: Path) -> None:
        await self._back.copy_to(target)

    async def verify(self, *, quick: bool = False) -> dict[str, int]:
        return await self._back.verify(quick=quick)
