"""Folders of the store as read-only trees on this machine, for contexts.

A tree is made beside the others under a name that nobody looks for, and renamed when it is whole: whoever is killed on
the way leaves nothing half. At its first use a process compares a tree that it finds with the list of its files, so
that a power cut costs the tree and not the handler.

Ensures: a tree that is whole stays where it is while contexts may have it, whichever process of the data directory made
it: two that make the same keep the first, and what was used lately is not removed.
"""

import asyncio
import contextlib
import logging
import os
import re
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from functory.folders.contents import find_manifest, read_pieces
from functory.loops.one_look import OneLook
from handlers.folders.manifest import FileEntry, Manifest, entry_of
from runner.errors import FilesMissingError
from runner.sandbox import leftovers
from runner.sandbox.folder_lock import locked
from runner.sandbox.handover import remove
from store.base import Store
from store.errors import StoreError

log = logging.getLogger("functory.folders")

_NEW: Final = ".new-"
_OLD: Final = ".old-"
_TREE: Final = re.compile(r"[a-z0-9_]+\.[0-9a-f]{64}")
_TOUCH_EVERY_S: Final = 600.0
UNUSED_S: Final = 3 * 3600.0
"""Longer than a context lives, with the longest job."""
GONE_S: Final = 2 * _TOUCH_EVERY_S
"""For a tenant that was deleted: its contexts were ended."""


class UnpackedTrees:
    """Implements `runner.trees.TreeSource` in `folder`, which it makes."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._whole: set[Path] = set()
        """Those that this process has made or compared."""
        self._making: OneLook[Path, None] = OneLook()

    async def have(self, tenant: str, tree: str) -> Path:
        place = self._folder / tree_name(tenant, tree)
        if place not in self._whole or not await asyncio.to_thread(_use, place):
            await self._making.ask(place, lambda: self._make(place, tenant, tree))
        return place

    async def _make(self, place: Path, tenant: str, tree: str) -> None:
        try:
            manifest = await find_manifest(self._store, tenant, tree)
            if manifest is None:
                raise FilesMissingError(f"the files of the handler are gone from the store (folder {tree[:12]})")
            if not await asyncio.to_thread(_is_whole, place, manifest) or not await asyncio.to_thread(_use, place):
                await self._unpack(place, tenant, manifest)
        except StoreError as error:
            raise FilesMissingError(f"the files of the handler cannot be read from the store: {error}") from error
        except OSError as error:
            raise FilesMissingError(f"the files of the handler cannot be written here: {error}") from error
        self._whole.add(place)

    async def _unpack(self, place: Path, tenant: str, manifest: Manifest) -> None:
        new = await asyncio.to_thread(_marked, self._folder, _NEW)
        try:
            await asyncio.to_thread(_begin, new, manifest)
            async for batch in read_pieces(self._store, tenant, manifest.files):
                await asyncio.to_thread(_append, new, batch)
            await asyncio.to_thread(_finish, new, place, manifest)
        finally:
            await asyncio.shield(asyncio.to_thread(remove, new))

    async def sweep(self, needed: Collection[str], tenants: Mapping[str, float]) -> int:
        """Remove what killed processes left, and the trees that nobody has used for as long as `tenants` says of theirs
        (GONE_S for those that are not there), but those that are `needed` (their names) and those that are being made.
        Returns how many went."""
        kept = {*needed, *(place.name for place in self._making.under_way)}
        return await asyncio.to_thread(_sweep, self._folder, kept, tenants)


def tree_name(tenant: str, tree: str) -> str:
    return f"{tenant}.{tree}"


def _marked(folder: Path, kind: str) -> Path:
    """A place that is known as left over when this process is gone."""
    return folder / f"{kind}{leftovers.mark()}-{secrets.token_hex(8)}"


def _begin(new: Path, manifest: Manifest) -> None:
    new.mkdir(parents=True)
    new.parent.chmod(0o711)  # contexts of every uid pass through, and see no names
    for parent in sorted({Path(entry.name).parent for entry in manifest.files}):
        (new / parent).mkdir(parents=True, exist_ok=True)
    for entry in manifest.files:
        (new / entry.name).touch()


def _append(new: Path, batch: Sequence[tuple[FileEntry, bytes]]) -> None:
    for entry, data in batch:
        with (new / entry.name).open("ab") as file:
            file.write(data)


def _finish(new: Path, place: Path, manifest: Manifest) -> None:
    for entry in manifest.files:
        (new / entry.name).chmod(0o555 if entry.is_executable else 0o444)
    for folder, _, _ in os.walk(new):
        Path(folder).chmod(0o555)
    old = new.with_name(new.name.replace(_NEW, _OLD))
    with locked(new.parent):
        if _is_whole(place, manifest):  # another process has made the same meanwhile, and contexts may have it
            return
        with contextlib.suppress(FileNotFoundError):
            place.rename(old)
        new.rename(place)
    remove(old)


def _use(place: Path) -> bool:
    """Note that contexts are started with it; other processes see that, too. False: it is not there."""
    with contextlib.suppress(PermissionError):  # made by another user: to be removed by that one
        try:
            if time.time() - place.stat().st_mtime > _TOUCH_EVERY_S:
                os.utime(place)
        except FileNotFoundError:
            return False
    return True


def _is_unused(place: Path, for_s: float) -> bool:
    try:
        return time.time() - place.stat().st_mtime > for_s
    except FileNotFoundError:
        return False


def _is_whole(place: Path, manifest: Manifest) -> bool:
    """Whether it has these files, and in them what the list says."""
    if not place.is_dir():
        return False
    found = {Path(folder, name).relative_to(place).as_posix() for folder, _, names in os.walk(place) for name in names}
    if found != set(manifest.by_name):
        return False
    for name, entry in manifest.by_name.items():
        path = place / name
        if path.is_symlink() or path.stat().st_size != entry.size_bytes:
            return False
        if entry_of(name, path.read_bytes()).pieces != entry.pieces:
            return False
    return True


def _sweep(folder: Path, kept: Collection[str], tenants: Mapping[str, float]) -> int:
    removed = 0
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return 0
    for name in names:
        unused_s = tenants.get(name.partition(".")[0], GONE_S)
        if name.startswith((_NEW, _OLD)) and leftovers.is_left_over(name[len(_NEW) :]):
            place = folder / name
        elif _TREE.fullmatch(name) and name not in kept and _is_unused(folder / name, unused_s):
            place = _marked(folder, _OLD)
            with contextlib.suppress(OSError):
                (folder / name).rename(place)
        else:  # something else may lie here, such as the `lost+found` of a volume
            continue
        remove(place)
        removed += 1
    return removed
