"""Verbs on the store as a whole: its version, a copy of it, a look at whether it is sound."""

import abc
from pathlib import Path

from store.values.version import StoreVersion


class StoreMaintenance(abc.ABC):
    """Legal before open, and on a store that daemons use. None of these creates or migrates anything."""

    @property
    @abc.abstractmethod
    def file(self) -> Path | None:
        """The file of an embedded store, whether or not it exists yet; None for a store on a server."""

    @abc.abstractmethod
    async def get_version(self) -> StoreVersion:
        """Also of a store that is too new to be opened. Raises UnsupportedStore (the database of another
        program), StoreUnavailable, StoreCorrupt."""

    @abc.abstractmethod
    async def copy_to(self, target: Path) -> None:
        """Copy everything, as it is at one moment, into a new file, which is durable on return. The copy has the
        schema that the store has.

        Ensures: every write that returned before this call is in the copy, and of no write a part. Writers do not
        wait for it. Raises NotFound (there is no store yet), FileExistsError, StoreFull (of the target),
        UnsupportedStore where the database's server has its own means.
        """

    @abc.abstractmethod
    async def verify(self, *, quick: bool = False) -> dict[str, int]:
        """Look for damage as far as the database itself can, and return how many records there are of each kind, in
        the back end's own words. quick: without comparing indexes with what they index. Cost: all that is stored.

        Raises StoreCorrupt when the database finds its content damaged, NotFound when there is no store yet.
        """
