"""The trees of installed packages, in a folder of the data directory: `tenant/key-random/`, with the packages in
`site` (`node_modules` for node), a description in `tree.json`, and in `users` an empty file for each type whose
handlers have used it.

Ensures: a tree is complete, synced and never changed from the moment that it has its name; one that a kill left half
done has another name, by which the next start knows it. No name is used twice, so a tree that was removed and built
again is another folder; of two processes that build the same the first has made it, and both have that. Nothing in a
tree is a link, and nothing is written outside it, whatever a build sends. Blocking: for threads.
"""

import contextlib
import itertools
import json
import os
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from runner.errors import PackagesRefusedError
from runner.packages.frames import END, FAILED, FILE, FrameReader
from runner.sandbox import leftovers
from runner.sandbox.folder_lock import locked
from runner.sandbox.handover import remove
from vocabulary.names import is_tenant

_BUILDING: Final = ".building-"
_ABOUT: Final = "tree.json"
_USERS: Final = "users"
_MAX_FILES: Final = 50_000
_MAX_DEPTH: Final = 32
_MAX_NAME: Final = 255
_FILE_MODE: Final = 0o444
_FOLDER_MODE: Final = 0o755
_SYNCS: Final = 16
_TOUCH_EVERY_S: Final = 600.0


class Tree(NamedTuple):
    tenant: str
    key: str
    folder: Path
    size_bytes: int
    modules: frozenset[str]  # what can be imported from it
    name: str = "site"  # of the folder of packages in it

    @property
    def site(self) -> Path:
        return self.folder / self.name


class Room(NamedTuple):
    """For a tree that is to be built."""

    tenant: str
    key: str
    name: str  # of the folder of packages in it
    max_bytes: int
    quota_bytes: int | None = None  # of the tenant, if that is what leaves no more

    def over(self) -> PackagesRefusedError:
        """For packages that have more than max_bytes."""
        more = f"the packages have more than {shown_mb(self.max_bytes)} when they are installed, which is"
        if self.quota_bytes is None:
            return PackagesRefusedError(f"{more} the limit")
        return over_quota(f"{more} what is left of the {shown_mb(self.quota_bytes)} that the tenant may have")


def over_quota(what: str) -> PackagesRefusedError:
    advice = (
        "packages of all versions that are kept count, also those of deleted handlers: ask for fewer packages, or ask"
        " the operator for more room (limits.max_package_bytes)"
    )
    return PackagesRefusedError(f"{what}; {advice}", is_final=False)


def shown_mb(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MB" if size_bytes >= 10 << 20 else f"{size_bytes / (1 << 20):.1f} MB"


class TreeFolder:
    def __init__(self, root: Path) -> None:
        self._root = root.absolute()  # contexts are handed absolute paths, and a data directory may be relative

    def sweep(self) -> None:
        """Remove what builds left that were killed."""
        for folder in self._root.glob(f"*/{_BUILDING}*"):
            if leftovers.is_left_over(folder.name.removeprefix(_BUILDING)):
                remove(folder)

    def find(self, tenant: str, key: str) -> Tree | None:
        return next((tree for tree in self.of(tenant) if tree.key == key), None)

    def of(self, tenant: str) -> Iterator[Tree]:
        """All trees of a tenant."""
        for folder in sorted((self._root / tenant).glob("[0-9a-f]*")):
            with contextlib.suppress(OSError, ValueError, KeyError):  # it is being removed
                about = json.loads((folder / _ABOUT).read_bytes())
                name = about.get("name", "site")
                yield Tree(tenant, about["key"], folder, about["bytes"], frozenset(about["modules"]), name)

    def tenants(self) -> list[str]:
        """Not other folders, such as the `lost+found` of a volume."""
        return sorted(path.name for path in self._root.glob("*") if is_tenant(path.name) and path.is_dir())

    def size_bytes(self, tenant: str) -> int:
        return sum(tree.size_bytes for tree in self.of(tenant))

    def receive(self, reader: FrameReader, room: Room) -> Tree:
        """Write the files that a build sends. Raises PackagesRefusedError for what does not belong into a tree."""
        tenant, key, name, *_ = room
        parent = self._root / tenant
        for folder in (self._root, parent):
            folder.mkdir(exist_ok=True)
            folder.chmod(_FOLDER_MODE)
        stage = parent / f"{_BUILDING}{leftovers.mark()}-{secrets.token_hex(4)}"
        stage.mkdir()
        try:
            size_bytes, modules = _Receiver(stage / name, room).receive(reader)
            about = {"key": key, "name": name, "bytes": size_bytes, "modules": sorted(modules)}
            (stage / _ABOUT).write_text(json.dumps(about))
            (stage / _USERS).mkdir()
            stage.chmod(_FOLDER_MODE)
            _sync(stage)
            folder = parent / f"{key}-{secrets.token_hex(4)}"
            with locked(parent):
                if (same := self.find(tenant, key)) is None:
                    stage.rename(folder)
                    _sync_one(parent, os.O_DIRECTORY)
        except BaseException:
            remove(stage)
            raise
        if same is not None:
            remove(stage)
        return same or Tree(tenant, key, folder, size_bytes, frozenset(modules), name)

    def used(self, tree: Tree, jobtype: str) -> bool:
        """Note that contexts of a type are started with it; other processes see that, too. False: it is gone."""
        mark = tree.folder / _USERS / jobtype
        try:
            if time.time() - mark.stat().st_mtime > _TOUCH_EVERY_S:
                os.utime(mark)
        except FileNotFoundError:
            try:
                mark.touch()
            except OSError:
                return False
        return True

    def users(self, tree: Tree) -> list[str]:
        """The types that have used it."""
        return sorted(path.name for path in (tree.folder / _USERS).glob("*"))

    def unused_s(self, tree: Tree) -> float:
        """How long no context was started with it, as far as `used` was told."""
        paths = [tree.folder / _ABOUT, *(tree.folder / _USERS).glob("*")]
        try:
            return time.time() - max(path.stat().st_mtime for path in paths)
        except OSError:
            return 0.0

    def remove(self, tree: Tree) -> None:
        """A kill in the middle leaves a folder that the next start removes."""
        doomed = tree.folder.with_name(f"{_BUILDING}{leftovers.mark()}-{secrets.token_hex(4)}")
        with contextlib.suppress(FileNotFoundError):
            tree.folder.rename(doomed)
            remove(doomed)

    def remove_tenant(self, tenant: str) -> None:
        for tree in list(self.of(tenant)):
            self.remove(tree)
        with contextlib.suppress(OSError):
            (self._root / tenant).rmdir()


class _Receiver:
    """Writes files below a new folder."""

    def __init__(self, site: Path, room: Room) -> None:
        self._site = site
        self._room = room
        self._size_bytes = 0
        self._files = 0
        self._modules: set[str] = set()
        self._make_folder(site)

    def receive(self, reader: FrameReader) -> tuple[int, set[str]]:
        while True:
            frame = reader.next()
            if frame.kind == END:
                return self._size_bytes, self._modules
            if frame.kind == FAILED:
                raise PackagesRefusedError(reader.text(frame))
            if frame.kind != FILE:
                raise PackagesRefusedError("the build sent what is no file")
            self._count(frame.size_bytes)
            with os.fdopen(self._open(frame.name), "wb") as file:
                for part in reader.parts(frame):
                    file.write(part)
                file.flush()
                os.fchmod(file.fileno(), _FILE_MODE)
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # begins to write it out

    def _count(self, size_bytes: int) -> None:
        self._files += 1
        self._size_bytes += size_bytes
        if self._size_bytes > self._room.max_bytes:
            raise self._room.over()
        if self._files > _MAX_FILES:
            raise PackagesRefusedError(f"the packages have more than {_MAX_FILES} files, which is the limit")

    def _open(self, name: str) -> int:
        parts = name.split("/")
        if len(parts) > _MAX_DEPTH or not all(map(_is_plain, parts)):
            raise PackagesRefusedError(f"a package has a file {name[:100]!r}, whose name leads out of it")
        path = self._site
        for part in parts[:-1]:
            path /= part
            if not path.is_dir():
                self._make_folder(path)
        module = parts[0].partition(".")[0]
        if module.isidentifier() and (len(parts) > 1 or name.endswith((".py", ".so"))):
            self._modules.add(module)
        try:
            return os.open(path / parts[-1], os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except (FileExistsError, NotADirectoryError) as error:
            raise PackagesRefusedError(f"two packages have a file {name[:100]!r}") from error

    def _make_folder(self, path: Path) -> None:
        try:
            path.mkdir()
        except (FileExistsError, NotADirectoryError) as error:
            raise PackagesRefusedError(f"two packages have a file {path.name[:100]!r}") from error
        path.chmod(_FOLDER_MODE)


def _is_plain(part: str) -> bool:
    return part not in ("", ".", "..") and "\0" not in part and len(os.fsencode(part)) <= _MAX_NAME


def _sync(folder: Path) -> None:
    """Everything below it, many at a time, because syncs at the same time share one commit of the file system. Not
    syncfs, which waits for whatever others write to the same disk."""
    walked = list(os.walk(folder))
    files = [Path(path, name) for path, _, names in walked for name in names]
    with ThreadPoolExecutor(_SYNCS) as pool:
        list(pool.map(_sync_one, files, itertools.repeat(0)))
        list(pool.map(_sync_one, (Path(path) for path, _, _ in walked), itertools.repeat(os.O_DIRECTORY)))


def _sync_one(path: Path, flags: int) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
