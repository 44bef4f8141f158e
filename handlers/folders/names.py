"""Names of files in a folder: plain, relative, and no two that some file system would take for one."""

import unicodedata
from collections.abc import Iterable
from typing import Final

from handlers.errors import InvalidHandlerError

FIELD: Final = "files"
MAX_NAME_BYTES: Final = 240
MAX_PART_BYTES: Final = 120
MAX_DEPTH: Final = 12
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that nobody sees: controls, marks of direction, joiners, separators of lines, surrogates."""


def refuse(name: str, why: str) -> InvalidHandlerError:
    """The error for a file, with its name as it can be shown."""
    return InvalidHandlerError(FIELD, f"{shown(name)} {why}")


def shown(name: str) -> str:
    return repr(name[:MAX_NAME_BYTES]).encode("ascii", "backslashreplace").decode()


def clean_name(name: str) -> str:
    """The name without what programs put before and after it (`./`, a slash after a folder). "" for the folder itself.

    Raises InvalidHandlerError for a name that leads out of the folder or that nobody can read.
    """
    _check_characters(name)
    parts = name.removesuffix("/").split("/")
    while parts and parts[0] == ".":
        parts = parts[1:]
    if parts in ([], [""]):
        return ""
    for part in parts:
        _check_part(name, part)
    if len(parts) > MAX_DEPTH:
        raise refuse(name, f"is more than {MAX_DEPTH} folders deep")
    whole = "/".join(parts)
    if len(whole.encode()) > MAX_NAME_BYTES:
        raise refuse(name, f"has more than {MAX_NAME_BYTES} bytes")
    return whole


def _check_characters(name: str) -> None:
    if name.startswith("/") or (len(name) > 1 and name[1] == ":"):
        raise refuse(name, "is an absolute name: names in a folder are relative to it")
    if "\\" in name:
        raise refuse(name, "has a backslash: separate folders with /")
    if any(unicodedata.category(char) in _HIDDEN for char in name):
        raise refuse(name, "has a control character, or one that nobody can see")


def _check_part(name: str, part: str) -> None:
    if part in ("", ".", ".."):
        raise refuse(name, "leads out of the folder, or nowhere: leave out '.', '..' and empty parts")
    if part != part.strip() or part.endswith("."):
        raise refuse(name, "has a part that begins or ends with a blank, or ends with a dot")
    if len(part.encode()) > MAX_PART_BYTES:
        raise refuse(name, f"has a part of more than {MAX_PART_BYTES} bytes")


class NameBook:
    """The names of one folder so far."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def add_file(self, name: str) -> None:
        """Raises InvalidHandlerError if the name is taken, or looks like one that is."""
        self._add_parents(name)
        key = _key(name)
        if key in self._files:
            raise _collision(name, self._files[key])
        if key in self._folders:
            raise refuse(name, f"is a file, and {shown(self._folders[key])} is a folder")
        self._files[key] = name

    def add_folder(self, name: str) -> None:
        self._add_parents(name + "/")

    def _add_parents(self, name: str) -> None:
        parts = name.split("/")[:-1]
        for count in range(1, len(parts) + 1):
            folder = "/".join(parts[:count])
            key = _key(folder)
            if key in self._files:
                raise refuse(folder, f"is a folder, and {shown(self._files[key])} is a file")
            if self._folders.setdefault(key, folder) != folder:
                raise _collision(folder, self._folders[key])


def check_names(names: Iterable[str]) -> None:
    """All names of a folder at once. Raises InvalidHandlerError."""
    book = NameBook()
    for name in names:
        if clean_name(name) != name or not name:
            raise refuse(name, "is not a plain name: leave out './' and '/' at its ends")
        book.add_file(name)


def _key(name: str) -> str:
    """What two names share if a file system may take one for the other."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _collision(name: str, other: str) -> InvalidHandlerError:
    if name == other:
        return refuse(name, "is there twice")
    return refuse(name, f"and {shown(other)} differ only in case or in how their letters are composed: rename one")
