"""Makes a backup: a consistent copy of journals, embedded store and keys, whether daemons run or not.

It works on the files, beside the daemons: it needs neither the journal's lock nor a running service. The order makes it
consistent. A line is acknowledged when it is in the journal, and its segment is removed only after the store has it for
good. So journals are copied first, then the store. A line that was acknowledged before the backup began is in the
copied journal; or its segment was gone by then, and it is in the store, which is copied later. Lines that are in both
are recognised by their ids. The store's read position, copied with the jobs, may point past the end of the copied
journal: the lines before it are in the store.

Ensures: the named folder appears at once and whole, or not at all. By then everything in it is on disk, was read back,
and is in the manifest.
"""

import asyncio
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import functory
from functory.config import Settings
from functory.errors import InvalidInput, NotEmpty
from functory.transfer.backup_layout import DATA, DATA_FILES, IN_A_JOURNAL, JOURNALS, STORE, journals_in, require_whole
from functory.transfer.durable_files import copy_durably, sole_use, sync_tree, write_durably
from functory.transfer.manifest import (
    NAME,
    FileEntry,
    JournalEntry,
    Manifest,
    StoreEntry,
    describe_file,
    encode_manifest,
)
from journal import OsDisk
from journal.copying import copy_journal
from journal.durable import make_folder, sync_folder
from journal.inspect import reports
from store.url import open_store

Say = Callable[[str], None]
"""Called with each step, for people who wait."""


async def make_backup(
    settings: Settings, target: Path, *, now_ms: int, journals_only: bool = False, say: Say = lambda _: None
) -> Manifest:
    """Copy the data directory of the settings into the new folder `target`.

    A store on a server is not copied: the manifest then has none, as with journals_only.
    Raises NotEmpty (the target), InvalidInput (no data directory), StillRunning (another backup to the same place),
    StoreCorrupt (the copy does not check out), and what file systems raise.
    """
    target = await asyncio.to_thread(target.absolute)  # `.` has no name to put `.unfinished` after
    unfinished = await asyncio.to_thread(_begin, settings.data_dir, target)
    with sole_use(unfinished):
        await asyncio.to_thread(_clear, unfinished)
        try:
            manifest = await _copy_all(settings, unfinished, now_ms, say, journals_only=journals_only)
            await asyncio.to_thread(_finish, unfinished, target, manifest)
        except Exception:
            await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)  # it may have filled the disk
            raise
    return manifest


async def _copy_all(settings: Settings, unfinished: Path, now_ms: int, say: Say, *, journals_only: bool) -> Manifest:
    say("copying the journals")
    journals = await asyncio.to_thread(_copy_journals, settings.data_dir, unfinished)
    store = None if journals_only else await _copy_store(settings.store_url, unfinished, say)
    await asyncio.to_thread(_copy_data, settings.data_dir, unfinished)
    say("reading everything back")
    return Manifest(
        functory=functory.__version__,
        began_ms=now_ms,
        host=socket.gethostname(),
        data_dir=str(await asyncio.to_thread(settings.data_dir.absolute)),
        journals=journals,
        store=store,
        files=await asyncio.to_thread(_describe_all, unfinished),
    )


def _begin(data_dir: Path, target: Path) -> Path:
    if not data_dir.is_dir():
        raise InvalidInput(f"there is no data directory {data_dir}: name it with --data-dir")
    require_whole(data_dir)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise NotEmpty(f"{target} already exists: choose a new folder, a backup never replaces another")
    return make_folder(target.with_name(f"{target.name}.unfinished"))


def _clear(unfinished: Path) -> None:
    """Delete what an interrupted backup to the same place left."""
    for path in unfinished.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _copy_journals(data_dir: Path, unfinished: Path) -> list[JournalEntry]:
    return [_copy_journal(path, unfinished / JOURNALS / path.name) for path in journals_in(data_dir)]


def _copy_journal(source: Path, target: Path) -> JournalEntry:
    copy = OsDisk(make_folder(target))
    copy_journal(OsDisk(source), copy, also=IN_A_JOURNAL)
    found = list(reports(copy))
    sysids = [report.header.sysid for report in found if report.header is not None]
    return JournalEntry(
        name=source.name,
        sysid=sysids[-1] if sysids else "",
        segments=sum(not report.is_lost for report in found),
        lines=sum(report.lines for report in found),
        damages=sum(len(report.damages) for report in found),
    )


async def _copy_store(url: str, unfinished: Path, say: Say) -> StoreEntry | None:
    store = await asyncio.to_thread(open_store, url)  # imports a back end
    if store.file is None:
        return None
    say("copying the store")
    await store.copy_to(unfinished / STORE)
    say("checking the copy of the store")
    copy = store.at(unfinished / STORE)
    records = await copy.verify(quick=True)
    return StoreEntry((await copy.get_version()).schema, records)


def _copy_data(data_dir: Path, unfinished: Path) -> None:
    target = make_folder(unfinished / DATA)
    for name in DATA_FILES:
        if (data_dir / name).exists():
            copy_durably(data_dir / name, target / name)


def _describe_all(unfinished: Path) -> list[FileEntry]:
    paths = sorted(path for path in unfinished.rglob("*") if path.is_file())
    return [describe_file(unfinished, str(path.relative_to(unfinished))) for path in paths]


def _finish(unfinished: Path, target: Path, manifest: Manifest) -> None:
    write_durably(unfinished / NAME, encode_manifest(manifest))
    sync_tree(unfinished)
    unfinished.rename(target)  # also over an empty folder
    sync_folder(target.parent)
