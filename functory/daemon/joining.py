"""How a daemon joins its store: at the start, or later if the store is away then.

To take jobs in, a daemon needs a sysid, because every id carries it. While it has the store, it reserves a spare one
for its next life and keeps it in the data directory. A daemon that starts without the store takes the spare, opens its
journal and takes jobs in; nobody reads the journal and nothing runs before the store has said how far it was read. A
daemon without a spare never had the store for long, and cannot take jobs in.

Ensures: no two lives get the same ids. A spare is reserved in the store for this folder alone. It is used again only
by a life that follows one which never joined, and the journal still has every id of that one. Whoever joins with it
removes it first.
"""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from functory.config import Settings
from functory.daemon.last_owner import last_in, mark_of_place, take_over
from functory.errors import DaemonFailed, NotEmpty
from journal import Journal, OsDisk, Position
from journal.durable import replace_durably, sync_folder
from journal.inspect import writers as writers_of
from store.base import JournalPosition
from store.checked import CheckedStore
from store.errors import NotFound, StoreError, StoreUnavailable
from store.values.positions import with_sources
from vocabulary.clock import Clock
from vocabulary.names import is_sysid

log = logging.getLogger("functory.daemon")

_AGAIN_S: Final = 1.0
_SYSID_LEASES: Final = 4
_SPARE_LEASE_MS: Final = 1
"""Nobody is to see it among the daemons that are alive."""


def sysid_lease_s(settings: Settings) -> float:
    """How long this daemon's name is held without renewal."""
    return _SYSID_LEASES * settings.lease_s


class Joining:
    def __init__(self, settings: Settings, clock: Clock, store: CheckedStore) -> None:
        self._settings = settings
        self._clock = clock
        self._store = store
        self._lease_ms = round(sysid_lease_s(settings) * 1000)
        self._spare = settings.data_dir / f"{settings.journal}.spare"
        self._has_spare = False
        self.sysid = ""
        self.trouble = ""
        """Why the store cannot be used yet; empty once this daemon has joined."""
        self.sources: tuple[str, ...] = ()
        """The sysids in the ids that the journal may have, as the store was told."""
        self._first_id = ""
        """Of this life, all ids are greater. What was passed may be greater than they if a clock was set back: then it
        says nothing of them."""

    async def begin(self) -> None:
        """Open the store and get a sysid; without the store, take the spare. Raises StoreUnavailable if there is none,
        and what `Store.open` raises."""
        try:
            await self._store.open()
            daemon = await self._store.reserve_sysid(info="{}", lease_ms=self._lease_ms, now_ms=self._clock.now_ms())
        except StoreUnavailable as error:
            self.sysid = await asyncio.to_thread(self._read_spare)
            if not self.sysid:
                raise
            self._keep_out(error)
            log.warning("daemon.store_away", extra={"sysid": self.sysid, "reason": str(error)})
        else:
            self.sysid = daemon.sysid

    async def release(self) -> None:
        """Give the sysid back. A spare that was never joined with is kept for the next life."""
        with suppress(StoreError):
            await self._store.release_sysid(self.sysid)

    async def position(self, reader: str) -> Position | None:
        """How far the journal was read, as the store says; None if it does not, or is away."""
        return None if self.trouble else _as_position(await self._store.get_journal_position(reader))

    async def owns(self, journal_dir: Path, reader: str) -> bool:
        """Whether the lines of a journal belong into this store: nobody wrote to it, or the last who did had this
        store, or the store knows it. Its URL may have changed since, with a password or a folder."""
        last, mark = await asyncio.to_thread(last_in, journal_dir)
        if not last or mark == mark_of_place(journal_dir, self._settings.store_url):
            return True
        return await self.position(reader) is not None

    async def require_own(self, reader: str) -> None:
        """Raises NotEmpty if the lines of our journal belong into another store. Call with the journal's lock."""
        if not await self.owns(self._settings.journal_dir, reader):
            raise NotEmpty(f"{self._settings.journal_dir} has lines of another store")

    async def take_over(self, journal: Journal, reader: str) -> None:
        """Give back what the last process in this folder held, unless the store is away. The store knows the journal
        from then on: before the first line is taken, or a process that is killed would leave one to nobody."""
        (self._first_id,) = journal.take_ids(1)
        if not self.trouble:
            await self._take_over(self._store, journal, reader)

    async def join(self, journal: Journal, reader: str) -> None:
        """Wait for the store if it is away, and join it. Raises what `Store.open` raises but StoreUnavailable, and
        DaemonFailed if the store does not know the spare any more."""
        while self.trouble:
            try:
                await self._store.open()
                await self._join(journal, reader)
            except StoreUnavailable as error:
                self._keep_out(error)
                await asyncio.sleep(_AGAIN_S)
            else:
                self._store.let_in()
                self.trouble = ""
                log.warning("daemon.joined", extra={"sysid": self.sysid})

    async def _join(self, journal: Journal, reader: str) -> None:
        store = self._store.behind()
        try:
            await store.renew_sysid(self.sysid, info="{}", lease_ms=self._lease_ms, now_ms=self._clock.now_ms())
        except NotFound:
            await asyncio.to_thread(self._remove_spare)
            raise DaemonFailed(
                f"the store does not know the sysid {self.sysid} any more, which was kept for a start without it:"
                " the daemon has to start again, and then gets another"
            ) from None
        await asyncio.to_thread(self._remove_spare)
        position = _as_position(await store.get_journal_position(reader))
        if position is not None:
            journal.read_on_from(position)
        await self._take_over(store, journal, reader)

    async def _take_over(self, store: CheckedStore, journal: Journal, reader: str) -> None:
        segment, offset, line = journal.read_point  # before that of the store, if the journal is older than it
        here = JournalPosition(reader, str(segment), offset, line)
        known = await store.get_journal_position(reader) or here
        # Who wrote to it may never have joined, and then has told the store nothing.
        writers = await asyncio.to_thread(writers_of, OsDisk(self._settings.journal_dir))
        self.sources = with_sources(known.sources, [*writers, self.sysid])
        mine = here._replace(passed=known.passed if known.passed < self._first_id else "", sources=self.sources)
        await store.add_jobs([], now_ms=self._clock.now_ms(), position=mine)
        await take_over(self._settings.journal_dir, store, self._clock, self.sysid, self._settings.store_url)

    def _keep_out(self, error: StoreUnavailable) -> None:
        self.trouble = str(error) or "the store is away"
        self._store.keep_out(self.trouble)

    # The spare

    async def keep_spare(self) -> None:
        """See to it that there is a sysid for a start without the store. Raises StoreUnavailable."""
        if self.trouble or self._has_spare:
            return
        if not await asyncio.to_thread(self._read_spare):
            daemon = await self._store.reserve_sysid(info="{}", lease_ms=_SPARE_LEASE_MS, now_ms=self._clock.now_ms())
            try:
                await asyncio.to_thread(replace_durably, self._spare, f"{daemon.sysid} {self._mark}\n".encode())
            except OSError as error:  # a full disk, say: the next life then waits for the store
                log.warning("daemon.spare_not_kept", extra={"reason": str(error)})
        self._has_spare = True

    @property
    def _mark(self) -> str:
        return mark_of_place(self._settings.journal_dir, self._settings.store_url)

    def _read_spare(self) -> str:
        """Of this folder and this store; empty if there is none."""
        sysid, _, mark = _text(self._spare).strip().partition(" ")
        return sysid if is_sysid(sysid) and mark == self._mark else ""

    def _remove_spare(self) -> None:
        self._has_spare = False
        self._spare.unlink(missing_ok=True)
        sync_folder(self._spare.parent)


def _as_position(found: JournalPosition | None) -> Position | None:
    return None if found is None else Position(int(found.segment), found.offset, found.line)


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except FileNotFoundError:
        return ""
