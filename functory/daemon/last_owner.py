"""A daemon that was killed leaves leases behind. The next one in the same folder knows that they are nobody's.

The journal's lock admits one process to its folder. So whoever holds it, and finds there the sysid that the last
process had, knows that this process is gone: its jobs run again and its consumers get a leader at once, and not when
their leases lapse.

A mark of the folder and of the store stands beside the sysid: in a copy of the folder, or on another store, the same
sysid may be somebody who lives. A daemon that stops in order gives its jobs back itself.
"""

import asyncio
import hashlib
import logging
import os
from pathlib import Path
from typing import Final

from functory.transfer.backup_layout import OWNER
from journal.disk import NO_ROOM
from store.base import Store
from vocabulary.clock import Clock

log = logging.getLogger("functory.daemon")

_STEP: Final = 1000


async def take_over(journal_dir: Path, store: Store, clock: Clock, sysid: str, store_url: str) -> None:
    """Give back what the last process in this folder held, and remember this one. Call with the journal's lock, before
    anything is claimed. Idempotent."""
    path, mine = journal_dir / OWNER, mark_of_place(journal_dir, store_url)
    last, mark = await asyncio.to_thread(last_in, journal_dir)
    if last and last != sysid and mark == mine:
        jobs = 0
        while found := await store.expire_locks(now_ms=clock.now_ms(), limit=_STEP, owner=last):
            jobs += found
        await store.resign_consumers(last)
        await store.release_sysid(last)
        if jobs:
            log.warning("daemon.took_over", extra={"from": last, "jobs": jobs})
    await asyncio.to_thread(_write, path, f"{sysid} {mine}")


def last_in(journal_dir: Path) -> tuple[str, str]:
    """The sysid of the last process in this folder, and its mark; both are empty if there was none."""
    last, _, mark = _read(journal_dir / OWNER).partition(" ")
    return last, mark


def mark_of_place(journal_dir: Path, store_url: str) -> str:
    """Of the folder and the store together."""
    return hashlib.sha256(f"{journal_dir.absolute()}\0{store_url}".encode()).hexdigest()[:16]


def _read(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""  # a damaged one names nobody


def _write(path: Path, text: str) -> None:
    """As a whole or not at all: half a sysid might be another daemon's. On a full disk in place of what is there, or a
    daemon could not start that would make room there by reading its journal up: so little is written as one, too."""
    new = path.with_suffix(".new")
    try:
        with new.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        if error.errno not in NO_ROOM or not path.exists():
            raise
        _overwrite(path, text.encode())


def _overwrite(path: Path, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(fd, os.pwrite(fd, content, 0))
        os.fsync(fd)
    finally:
        os.close(fd)
