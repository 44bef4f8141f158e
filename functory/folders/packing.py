"""A folder of this machine as an archive to send, and one of the store as a tar to download."""

import gzip
import io
import os
import stat
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from functory.errors import InvalidInput
from functory.folders.contents import read_pieces
from handlers.folders.manifest import FileEntry, Manifest
from handlers.folders.project import PROJECT_FILE
from store.base import Store

_LEFT_OUT: Final = frozenset({"__pycache__", "node_modules", "functory-data"})
"""Folders that programs make beside the code; so are all whose name begins with a dot."""
_BLOCK: Final = 512


def check_folder(folder: Path) -> Path:
    """The folder by its whole name. Raises FileNotFoundError if there is nothing, InvalidInput if it is a file."""
    if not folder.exists():
        raise FileNotFoundError(f"there is no folder {folder}")
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder")
    return folder.resolve()


def folder_files(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files that make a handler, by name, in order. Raises InvalidInput for a link."""
    for parent, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _LEFT_OUT)
        for name in sorted(files):
            path = Path(parent, name)
            if name.startswith(".") or name.endswith(".pyc"):
                continue
            if not stat.S_ISREG(path.lstat().st_mode):
                raise InvalidInput(f"{path} is a link, a device or a pipe: a handler's folder has only files")
            yield path.relative_to(folder).as_posix(), path
        for name in folders:
            if Path(parent, name).is_symlink():
                raise InvalidInput(f"{Path(parent, name)} is a link: a handler's folder has only files and folders")


def pack_folder(folder: Path, project: str = PROJECT_FILE) -> bytes:
    """As tar.gz. The same files make the same bytes. project: the file that is sent as the folder's `functory.toml`, in
    place of the one of that name. Raises InvalidInput if it is another one and is not there."""
    made = io.BytesIO()
    files = dict(folder_files(folder))
    if project != PROJECT_FILE:
        if project not in files:
            raise InvalidInput(f"{folder} has no file {project}, from which to take its settings")
        files[PROJECT_FILE] = files.pop(project)
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in files.items():
            info = tarfile.TarInfo(name)
            info.size = path.stat().st_size
            info.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            with path.open("rb") as file:
                archive.addfile(info, file)
    return gzip.compress(made.getvalue(), mtime=0)


async def tar_pieces(store: Store, tenant: str, manifest: Manifest) -> AsyncIterator[bytes]:
    """A folder of the store as a tar, piece by piece."""
    left = dict.fromkeys(manifest.files)
    current: FileEntry | None = None
    written = 0

    def begin(entry: FileEntry) -> bytes:
        del left[entry]
        return _header(entry)

    async for batch in read_pieces(store, tenant, manifest.files):
        for entry, data in batch:
            if entry is not current:
                while (following := next(iter(left))) is not entry:  # empty files have no pieces
                    yield begin(following)
                yield begin(entry)
                current, written = entry, 0
            written += len(data)
            yield data
            if written == entry.size_bytes:
                yield bytes(-written % _BLOCK)
    for entry in list(left):
        yield begin(entry)
    yield bytes(2 * _BLOCK)


def tar_size(manifest: Manifest) -> int:
    """How long such a tar is, about."""
    return sum(2 * _BLOCK + entry.size_bytes for entry in manifest.files)


def _header(entry: FileEntry) -> bytes:
    info = tarfile.TarInfo(entry.name)
    info.size = entry.size_bytes
    info.mode = 0o755 if entry.is_executable else 0o644
    return info.tobuf(format=tarfile.PAX_FORMAT)
