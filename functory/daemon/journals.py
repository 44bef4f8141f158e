"""A journal of the data directory, as a daemon opens it: its own, or one that nobody uses any more."""

import secrets
from contextlib import suppress
from pathlib import Path

from functory.config import Settings
from functory.transfer.backup_layout import IDENTITY, IDENTITY_BYTES, require_identity
from journal import Journal, JournalOptions, Position
from journal.durable import create_durably, make_folder
from vocabulary.clock import Clock


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
    another name after a crash the store would not know how far this journal was read. Raises InvalidConfig if it
    was damaged."""
    path = make_folder(directory) / IDENTITY
    if not path.exists():
        with suppress(FileExistsError):  # another daemon was quicker; the journal's lock decides who stays
            create_durably(path, secrets.token_hex(IDENTITY_BYTES).encode())
    return require_identity(directory)
