"""Journals of the data directory that no daemon uses any more. Their lines are moved into the store.

One daemon writes to `journal`, and each of several (`--processes`) to one of its own: `journal-0` and so on. With
another number of processes, or after a restore, lines that were acknowledged are in a folder that no daemon opens. Here
a daemon looks for such folders while it serves. Daemons inside of programs (functory/queue/in_process.py) have a data
directory each, named by a number, beside one another: what one leaves there that was killed is moved, too.

Ensures: a journal that another daemon uses is not touched, because its lock is held or its name is in `other_journals`;
nor is one beside whose lines belong into another store (`Joining.owns`). Lines are moved as the daemon's own are, by
the same reader and under the identity of their journal: one that is killed meanwhile leaves the rest to the next, and
no job is added twice. No line is written to the journal, and its folder stays; segments that were read to their end
are removed. A folder whose `identity` no daemon made is no journal; one that is a journal and whose `identity` was
damaged is reported. A copy of a journal in use (`journal.bak`) is not read: the original is.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from functory.config import Settings
from functory.daemon.journals import make_journal
from functory.daemon.parts import Parts
from functory.errors import InvalidConfig
from functory.intake.backlog import Backlog
from functory.intake.journal_reader import JournalReader
from functory.intake.passed_lines import PassedLines
from functory.transfer.backup_layout import found_identity, journals_in, require_identity
from journal import Journal, JournalError, JournalLocked
from journal.segment import segment_number
from store.errors import StoreUnavailable
from store.values.positions import ANY

log = logging.getLogger("functory.left_journals")

_LOOK_EVERY_S: Final = 10.0

Segments = frozenset[tuple[str, int, int]]
"""The name, the size and the time of the last write of each. A daemon that writes to a journal begins a new one."""


class LeftJournals:
    def __init__(self, settings: Settings, parts: Parts, wake: Callable[[], None], beside: Path | None = None) -> None:
        """wake: called when jobs were added. beside: a folder of data directories, ours among them."""
        self._settings = settings
        self._shared = parts.shared
        self._joining = parts.joining
        self._wake = wake
        self._beside = beside
        self._empty_as: dict[str, Segments | None] = {}
        """What they had in them when nothing was left to read."""
        self._troubles: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        """Which journals have lines that could not be moved, and why. Empty: none."""
        return "; ".join(f"{name}: {reason}" for name, reason in self._troubles.items())

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            if not self._joining.trouble:
                await self.look()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def look(self) -> None:
        """Empty each that is left. Those that could not be emptied are tried again at the next look."""
        found = await asyncio.to_thread(self._find)
        for gone in self._troubles.keys() - found.keys():
            del self._troubles[gone]
        for name, path in found.items():  # each time: another process may have used it since
            segments = await asyncio.to_thread(_segments_in, path)
            is_known = segments is not None and self._empty_as.get(name) == segments
            if not is_known and await self._is_emptied(name, path):
                self._empty_as[name] = segments

    def _find(self) -> dict[str, Path]:
        """The journals of the data directory that nobody is said to use, and those of the directories beside it, by
        their names with those of the directories."""
        own, in_use = self._settings.data_dir, {self._settings.journal, *self._settings.other_journals}
        found = {path.name: path for path in journals_in(own) if path.name not in in_use}
        beside = [] if self._beside is None else self._beside.glob("*")
        others = sorted(it for it in beside if it.name.isdecimal() and it.name != own.name)
        return found | {f"{other.name}/{path.name}": path for other in others for path in journals_in(other)}

    async def _is_emptied(self, name: str, path: Path) -> bool:
        """False: somebody uses it, or its lines could not be moved."""
        try:
            await self._empty(name, path)
        except JournalLocked:  # or another daemon is emptying it
            self._troubles.pop(name, None)
        except (InvalidConfig, JournalError, StoreUnavailable, OSError) as error:
            self._note(name, str(error))
        except ValueError as error:  # its text may quote a file that is not ours
            self._note(name, f"it cannot be read as a journal ({type(error).__name__})")
        else:
            self._troubles.pop(name, None)
            return True
        return False

    def _note(self, name: str, reason: str) -> None:
        if name not in self._troubles:
            log.error("journal.left_unread", extra={"journal": name, "reason": reason})
        self._troubles[name] = reason

    async def _empty(self, name: str, path: Path) -> None:
        identity = await asyncio.to_thread(require_identity, path)
        if identity in await asyncio.to_thread(self._identities_in_use):
            return
        if self._is_beside(path) and not await self._joining.owns(path, identity):
            return
        position = await self._joining.position(identity)
        async with make_journal(self._settings, path, self._shared.clock, self._shared.owner, position) as journal:
            # Asked again now that the lock is held: until then another daemon may have read on, or come and gone.
            if self._is_beside(path) and not await self._joining.owns(path, identity):
                return
            position = await self._joining.position(identity)
            if position is not None:
                journal.read_on_from(position)
            if journal.stats().backlog_bytes:
                await self._read_all(name, journal, identity)

    def _is_beside(self, path: Path) -> bool:
        return path.parent != self._settings.data_dir

    def _identities_in_use(self) -> set[str]:
        """Of our own journal, and of those that other daemons are said to use."""
        names = (self._settings.journal, *self._settings.other_journals)
        return {found_identity(self._settings.data_dir / name) for name in names}

    async def _read_all(self, name: str, journal: Journal, identity: str) -> None:
        shared = replace(self._shared, journal=journal)
        rejects = self._settings.data_dir / "rejected.jsonl"
        known = await self._shared.store.get_journal_position(identity)
        sources = (ANY,) if known is None else known.sources
        lines = PassedLines(journal, identity, "", lambda: sources)
        reader = JournalReader(shared, Backlog(shared), lines, rejects=rejects)
        reader.when_added(lambda _: self._wake())
        tasks = [asyncio.create_task(reader.run()), asyncio.create_task(reader.flush())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()
        log.warning("journal.left_read", extra={"journal": name, "lines": journal.stats().lines_read})


def _segments_in(path: Path) -> Segments | None:
    """Without the lock: a daemon that starts meanwhile would take the folder for one in use. None: they cannot be told,
    because one is being removed, say."""
    try:
        stats = [(it.name, it.stat()) for it in path.iterdir() if segment_number(it.name) is not None]
    except OSError:
        return None
    return frozenset((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats)
