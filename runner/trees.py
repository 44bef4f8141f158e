"""The seam between the runner and whoever keeps the files of handlers that are folders."""

from pathlib import Path
from typing import Protocol

from runner.errors import FilesMissingError


class TreeSource(Protocol):
    """Asked before a context of such a handler is started."""

    async def have(self, tenant: str, tree: str) -> Path:
        """The folder with that digest, whole and read-only on this machine's disk. Folders lie side by side in one that
        has nothing else. Raises FilesMissingError."""


class NoTreeSource:
    """For runners without a store."""

    async def have(self, tenant: str, tree: str) -> Path:  # noqa: ARG002 (the protocol's)
        raise FilesMissingError(f"the folder {tree[:12]} of the handler is not here: there is no service that keeps it")
