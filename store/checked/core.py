"""The back end behind the front, and the verbs that have nothing to check."""

from pathlib import Path

from store.base import Store
from store.errors import StoreUnavailable
from store.protocol.maintenance import StoreMaintenance
from store.values.version import StoreVersion


class CheckedCore:
    """While it is kept out of use, every verb but open and close raises StoreUnavailable with the reason."""

    def __init__(self, back: Store) -> None:
        self._behind = back
        self._away = ""

    @property
    def _back(self) -> Store:
        if self._away:
            raise StoreUnavailable(self._away)
        return self._behind

    def keep_out(self, reason: str) -> None:
        self._away = reason

    def let_in(self) -> None:
        self._away = ""

    async def open(self) -> None:
        await self._behind.open()

    async def close(self) -> None:
        await self._behind.close()

    async def ping(self) -> None:
        await self._back.ping()


class CheckedMaintenance(CheckedCore, StoreMaintenance):
    @property
    def file(self) -> Path | None:
        return self._behind.file

    async def get_version(self) -> StoreVersion:
        return await self._back.get_version()

    async def copy_to(self, target: Path) -> None:
        await self._back.copy_to(target)

    async def verify(self, *, quick: bool = False) -> dict[str, int]:
        return await self._back.verify(quick=quick)
