"""What a data directory and a backup hold, by name.

data directory                      backup
<journal>/ (has an `identity`)      journals/<journal>/
functory.db, or the file of --store store.db
operator.key, rejected.jsonl        data/...
                                    manifest.json
"""

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from functory.errors import InvalidConfig
from journal.cursor import CURSOR_NAME

JOURNALS: Final = "journals"
STORE: Final = "store.db"
DATA: Final = "data"
DATA_FILES: Final = ("operator.key", "rejected.jsonl")
"""Copied after the store: a line that the store refused is in `rejected.jsonl` before the store moves past it."""

EMBEDDED_STORE: Final = "functory.db"
"""Beside it: `-wal`, `-shm`, and copies such as `functory.db.schema-1`."""
CACHES: Final = ("packages", "trees")
"""Made again from the store."""
JOURNAL_FILES: Final = ("", ".spare", ".keys")
"""A journal, and what a daemon keeps beside it, named after it."""

RESTORING: Final = ".restoring"
"""In a data directory: a restore is under way or was interrupted, and the files beside it are incomplete."""

IDENTITY: Final = "identity"
OWNER: Final = "owner"
IN_A_JOURNAL: Final = (IDENTITY, OWNER)
"""What a daemon keeps in a journal's folder, beside the journal's own files."""
IDENTITY_BYTES: Final = 8
_IDENTITY: Final = re.compile(rb"[0-9a-f]{%d}" % (2 * IDENTITY_BYTES))


def journals_in(data_dir: Path) -> list[Path]:
    """The journals of a data directory: one, or one for each of several daemons."""
    found = data_dir.glob(f"*/{IDENTITY}")
    return sorted(path.parent for path in found if path.is_file() and _is_journal(path.parent))  # no tenant's folder


def found_identity(directory: Path) -> str:
    """The identity of a journal that a daemon made; empty if the folder has none, or a file of that name that is
    something else: somebody's keys, say. An editor may have added a line break to a journal's. Raises OSError."""
    content = _start_of(directory / IDENTITY)
    return _identity_in(content.strip() if _has_cursor(directory) else content)


def require_identity(directory: Path) -> str:
    """The identity of a folder that is a journal, with or without a line break. Raises InvalidConfig if it is damaged,
    and OSError."""
    path = directory / IDENTITY
    if identity := _identity_in(_start_of(path).strip()):
        return identity
    raise InvalidConfig(
        f"{path} is damaged: it should hold {2 * IDENTITY_BYTES} hexadecimal digits. Put it back from a backup, or"
        " write random ones into it: then the journal is read from its own position, and the store recognises the lines"
        " that it has"
    )


def _start_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4 * IDENTITY_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return b""


def _identity_in(content: bytes) -> str:
    return content.decode() if _IDENTITY.fullmatch(content) else ""


def _is_journal(folder: Path) -> bool:
    """Also one whose identity was damaged: its lines belong into a backup."""
    with suppress(PermissionError):  # somebody else's keys
        return _has_cursor(folder) or bool(found_identity(folder))
    return False


def _has_cursor(folder: Path) -> bool:
    return (folder / CURSOR_NAME).is_file()


def require_whole(data_dir: Path) -> None:
    """Raises InvalidConfig when a restore into the directory was not finished."""
    if (data_dir / RESTORING).exists():
        raise InvalidConfig(
            f"{data_dir} holds a restore that is under way or was interrupted: wait for it, or run `functory restore`"
            " again with --replace"
        )
