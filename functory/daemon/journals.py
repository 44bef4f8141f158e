"""A journal of the data directory, as a daemon opens it: its own, or one that nobody uses any more."""

import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from functory.config import Settings
from journal import Journal, JournalOptions, Position
from journal.durable import create_durably, make_folder
from vocabulary.clock import Clock

_NAME: Final = "identity"
_RANDOM_BYTES: Final = 8
_IDENTITY: Final = re.compile(rb"[0-9a-f]{%d}" % (2 * _RANDOM_BYTES))


def make_journal(settings: Settings, directory: Path, clock: Clock, sysid: str, read_from: Position | None) -> Journal:
    """The journal, read from the position that the store has for it."""
    return Journal(
        directory,
        sysid,
        JournalOptions(
            segment_bytes=settings.journal_segment_bytes,
            max_backlog_bytes=settings.journal_backlog_bytes,
            min_free_bytes=settings.journal_min_free_bytes,
            sync_cursor=False,  # the store keeps the position, with the jobs
        ),
        clock=clock,
        read_from=read_from,
    )


def journal_identity(directory: Path) -> str:
    """The name under which the store keeps this journal's position: made once, and kept with the journal. Durable: with
    another name after a crash the store would not know how far this journal was read."""
    path = make_folder(directory) / _NAME
    if not path.exists():
        with suppress(FileExistsError):  # another daemon was quicker; the journal's lock decides who stays
            create_durably(path, secrets.token_hex(_RANDOM_BYTES).encode())
    return path.read_text()


def found_identity(directory: Path) -> str:
    """The identity of a journal that a daemon made; empty if the folder has none, or a file of that name that is
    something else: somebody's keys, say. Raises OSError."""
    try:
        with (directory / _NAME).open("rb") as file:
            content = file.read(2 * _RANDOM_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return content.decode() if _IDENTITY.fullmatch(content) else ""
