"""What a context is handed of the machine's files, and where it finds them.

A context depends on nothing about the place where the daemon's code lies: not on its path, mode or owner, nor on
whether a scratch space covers it. With a root of its own, small files arrive as copies and folders as read-only binds,
both at fixed places below `/functory`. Without one, what the uid of a context cannot reach is copied to a folder that
everybody can read, for as long as a context may need it.
"""

import contextlib
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from runner.errors import IsolationError
from runner.sandbox import leftovers

ROOT: Final = "/functory"
TREES: Final = f"{ROOT}/trees"
"""Where a spawner has the folders of handlers. No context sees it."""
HANDLER: Final = f"{ROOT}/handler"
"""Where a context with a root of its own has the folder of its handler."""
BASE_RUNTIME: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Where the machine's own programs are; contexts of every level see these where they lie."""

PACKAGES: Final = f"{ROOT}/packages"
"""Where a context with a root of its own has the packages of its handler."""
NODE_PACKAGES: Final = f"{ROOT}/node_modules"
"""The same for node, which looks for a folder of this name above each file: so above the handler's, too."""

_GIVEN: Final = f"{ROOT}/given"
_COPIED_BYTES: Final = 1 << 20
"""Up to this size a file is copied into the root of a context, and so needs no right to be read there."""
_KINDS: Final = ("given", "scratch", "victims")
_PARENTS: Final = ("/var/tmp", "/tmp", "/run", "/dev/shm")  # noqa: S108  # mkdtemp takes no name that exists
_FOLDER_MODE: Final = 0o755
_FILE_MODE: Final = 0o444


@dataclass(frozen=True, slots=True)
class Handover:
    """`places` says where each path is found; `copies` and `binds` are what must be put there first."""

    places: Mapping[Path, str]
    copies: Mapping[str, bytes]  # place: content
    binds: Mapping[str, str]  # place: source

    def translate(self, argv: Iterable[str | Path]) -> tuple[str, ...]:
        """A command as the context has to run it."""
        return tuple(self.places[part] if isinstance(part, Path) else part for part in argv)


def into_own_root(
    paths: Iterable[Path],
    stage: "Stage | None",
    hidden: Collection[str],
    packages: Path | None,
) -> Handover:
    """For a context with a root of its own, where the folders `hidden` are empty. Reads files: not for the event loop.

    With `stage` the context has a uid of its own, and a folder that only its owner can read is bound from there. The
    folder `packages`, one of the paths, gets its fixed place.
    """
    places: dict[Path, str] = {}
    copies: dict[str, bytes] = {}
    binds: dict[str, str] = {}
    for number, path in enumerate(sorted(paths)):
        if path != packages and _is_below(path, BASE_RUNTIME) and not _is_below(path, hidden):
            places[path] = str(path)
            continue
        place = places[path] = _place_of(path) if path == packages else f"{_GIVEN}/{number}/{path.name}"
        if path.is_file() and path.stat().st_size <= _COPIED_BYTES:
            copies[place] = path.read_bytes()
        else:
            source = path if stage is None or is_open(path) else stage.put(path)
            binds[place] = str(source)
    return Handover(places, copies, binds)


def in_sight(paths: Iterable[Path], stage: "Stage | None") -> Handover:
    """For a context that sees the machine's files; with `stage` under a uid of its own, which must reach them."""
    places = {
        path: str(path) if stage is None or (is_open(path) and is_reachable(path)) else str(stage.put(path))
        for path in paths
    }
    return Handover(places, {}, {})


class Stage:
    """A folder that every uid can read, made when the first path is put there and removed by `close`. For one thread at
    a time."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._known: dict[Path, Path] = {}
        self._numbers = itertools.count()

    def put(self, path: Path) -> Path:
        """Ensures: the copy can be read, and run if the original can, by every uid. One copy of each path."""
        if path not in self._known:
            if self._folder is None:
                self._folder = open_folder("given")
            parent = self._folder / str(next(self._numbers))
            parent.mkdir()
            try:
                self._known[path] = _copy_open(path, parent / path.name)
            except BaseException:
                remove(parent)
                raise
            parent.chmod(_FOLDER_MODE)
        return self._known[path]

    def drop(self, path: Path) -> None:
        """Nobody uses its copy any more. None need be there."""
        copy = self._known.pop(path, None)
        if copy is not None:
            remove(copy.parent)

    def close(self) -> None:
        folder, self._folder = self._folder, None
        self._known.clear()
        if folder is not None:
            remove(folder)


def open_folder(kind: Literal["given", "scratch", "victims"]) -> Path:
    """A new folder that every uid can reach. Its name has the mark of this process, for `sweep`.

    $TMPDIR is not asked: it often lies in somebody's home.
    """
    refusals = []
    for parent in filter(is_reachable, map(Path, _PARENTS)):
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"functory-{kind}-{leftovers.mark()}-", dir=parent))
        except OSError as error:
            refusals.append(f"{parent}: {error.strerror}")
            continue
        folder.chmod(_FOLDER_MODE)
        return folder
    raise IsolationError(f"no folder for what contexts share can be made ({'; '.join(refusals)})")


def sweep() -> None:
    """Remove what daemons left that were killed."""
    for kind, parent in itertools.product(_KINDS, _PARENTS):
        for folder in Path(parent).glob(f"functory-{kind}-[0-9]*"):
            marked = folder.name.removeprefix(f"functory-{kind}-")
            if leftovers.is_left_over(marked) and not folder.is_symlink():
                remove(folder)


def remove(folder: Path) -> None:
    """Remove a folder, also where it, or a part of it, is closed to its own user. Follows no link."""
    if not folder.is_symlink():
        with contextlib.suppress(OSError):
            folder.chmod(0o700)
    for parent, names, _ in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            if not path.is_symlink():
                with contextlib.suppress(OSError):
                    path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


def is_open(path: Path) -> bool:
    """Whether every uid that can reach `path` can read all of it."""
    if not path.is_dir():
        return bool(path.stat().st_mode & stat.S_IROTH)
    for folder, _, files in os.walk(path):
        if Path(folder).stat().st_mode & 0o005 != 0o005:
            return False
        if not all(Path(folder, name).stat().st_mode & stat.S_IROTH for name in files):
            return False
    return True


def is_reachable(path: Path) -> bool:
    """Whether every uid can get as far as `path`, through all folders above it and above what it links to."""
    try:
        return all(parent.stat().st_mode & stat.S_IXOTH for parent in (*path.parents, *path.resolve().parents))
    except OSError:
        return False


def _place_of(packages: Path) -> str:
    return NODE_PACKAGES if packages.name == Path(NODE_PACKAGES).name else PACKAGES


def _is_below(path: Path, folders: Iterable[str]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _copy_open(path: Path, target: Path) -> Path:
    if path.is_dir():
        shutil.copytree(path, target, copy_function=_copy_file)
        for folder, _, _ in os.walk(target):
            Path(folder).chmod(_FOLDER_MODE)
    else:
        _copy_file(path, target)
    return target


def _copy_file(source: str | Path, target: str | Path) -> str | Path:
    shutil.copyfile(source, target)
    executable = Path(source).stat().st_mode & stat.S_IXUSR
    Path(target).chmod(_FOLDER_MODE if executable else _FILE_MODE)
    return target
