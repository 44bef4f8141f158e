"""A folder of this machine run here, in the sandbox that the service uses, without a service.

The folder is read, checked and listed as the service would, and copied: a run sees what was there when it began, and
the handler cannot write to it.
"""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from functory.folders.packing import folder_files, pack_folder
from handlers.errors import InvalidHandlerError
from handlers.folders.archive import list_archive
from handlers.folders.limits import DEFAULT_LIMITS
from handlers.folders.project import MAX_PROJECT_BYTES, PROJECT_FILE, complete_project, read_project
from handlers.model import Handler
from handlers.packages import FILES
from handlers.validation import parse_handler
from runner.errors import FilesMissingError, SecretMissingError
from runner.masking import Masker
from runner.sandbox.handover import remove
from runner.secrets import GivenSecrets

TENANT: Final = "local"


class EnvironmentSecrets:
    """The secrets that a handler names, from the environment of whoever runs it here."""

    def why_locked(self, tenant: str, names: tuple[str, ...]) -> str:  # noqa: ARG002 (the protocol's)
        return ""

    async def read(self, tenant: str, names: tuple[str, ...]) -> GivenSecrets:  # noqa: ARG002 (the protocol's)
        missing = [name for name in names if name not in os.environ]
        if missing:
            raise SecretMissingError(f"the secret {missing[0]} is not set: set an environment variable of that name")
        values = {name: os.environ[name] for name in names}
        return GivenSecrets(MappingProxyType(values), "local", Masker(values.values()))


class LocalTrees:
    """Copies of a folder, by digest. Implements `runner.trees.TreeSource`."""

    def __init__(self, base: Path) -> None:
        self._base = base

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls) -> AsyncIterator["LocalTrees"]:
        base = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="functory-dev-"))
        try:
            yield cls(base)
        finally:
            await asyncio.to_thread(remove, base)

    async def take(self, folder: Path) -> tuple[Handler, dict[str, bytes]]:
        """The handler that the folder is now, and those of its files that may ask for packages.

        Raises InvalidHandlerError, InvalidInput, OSError.
        """
        return await asyncio.to_thread(self._take, folder)

    async def have(self, tenant: str, tree: str) -> Path:
        place = self._base / f"{tenant}.{tree}"
        if not await asyncio.to_thread(place.is_dir):
            raise FilesMissingError("the folder has changed meanwhile: run it again")
        return place

    def _take(self, folder: Path) -> tuple[Handler, dict[str, bytes]]:
        manifest = list_archive(pack_folder(folder), "tar", DEFAULT_LIMITS)
        fields: dict[str, object] = {}
        if PROJECT_FILE in manifest.by_name:
            text = (folder / PROJECT_FILE).read_bytes()
            if len(text) > MAX_PROJECT_BYTES:
                raise InvalidHandlerError(PROJECT_FILE, f"has more than {MAX_PROJECT_BYTES} bytes")
            fields = read_project(text)
        fields = complete_project(fields, manifest.by_name)
        try:
            body = (folder / str(fields["entry"])).read_bytes().decode()
        except UnicodeDecodeError as error:
            raise InvalidHandlerError("body", f"is not text in UTF-8: {error.reason}") from None
        handler = parse_handler({**fields, "body": body, "tree": manifest.digest})
        place = self._base / f"{TENANT}.{manifest.digest}"
        if not place.exists():
            self._copy(folder, place)
        asking = FILES.get(handler.lang, {})
        return handler, {name: (place / name).read_bytes() for name in asking if name in manifest.by_name}

    def _copy(self, folder: Path, place: Path) -> None:
        new = Path(tempfile.mkdtemp(prefix=".new-", dir=self._base))
        for name, path in folder_files(folder):
            target = new / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
            target.chmod(0o555 if os.access(path, os.X_OK) else 0o444)
        for parent, _, _ in os.walk(new):
            Path(parent).chmod(0o555)
        self._base.chmod(0o711)
        new.rename(place)


class Seen(NamedTuple):
    """A file as it was last looked at."""

    size_bytes: int
    modified_ns: int


def look(folder: Path) -> dict[str, Seen]:
    """All files of a folder with what changes when they are written; nothing while they cannot be read."""
    found = {}
    with contextlib.suppress(OSError):
        for name, path in folder_files(folder):
            state = path.stat()
            found[name] = Seen(state.st_size, state.st_mtime_ns)
    return found
