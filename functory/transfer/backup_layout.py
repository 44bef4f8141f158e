"""What a data directory and a backup hold, by name.

data directory                      backup
<journal>/ (has an `identity`)      journals/<journal>/
functory.db, or the file of --store store.db
operator.key, rejected.jsonl        data/...
                                    manifest.json
"""

from pathlib import Path
from typing import Final

from functory.errors import InvalidConfig

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

_IDENTITY: Final = "identity"


def journals_in(data_dir: Path) -> list[Path]:
    """The journals of a data directory: one, or one for each of several daemons."""
    return sorted(path.parent for path in data_dir.glob(f"*/{_IDENTITY}") if path.is_file())  # no tenant's folder


def require_whole(data_dir: Path) -> None:
    """Raises InvalidConfig when a restore into the directory was not finished."""
    if (data_dir / RESTORING).exists():
        raise InvalidConfig(
            f"{data_dir} holds a restore that is under way or was interrupted: wait for it, or run `functory restore`"
            " again with --replace"
        )
