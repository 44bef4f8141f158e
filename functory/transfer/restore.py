"""Restores a backup. Everything is verified before anything is changed; the data directory is whole, or it is marked.

The content is copied into `.restoring` inside the data directory (which may be a mounted volume that cannot be
renamed), checked there, and moved into place. While `.restoring` exists, no daemon starts. What daemons made in the
directory before is never deleted: with `replace` it is moved to `replaced-<time>`. If that fails, it is moved back.
A backup of journals alone leaves a store as it is. What root restores belongs to the owner of the data directory.

A restored store starts a life of its own. It skips a random number of sysids, so that no daemon gets one that the
original gave out after the backup: ids of jobs contain the sysid, and so stay unique. Its leases lapse like any other,
and jobs that ran or ended after the backup run again.
"""

import asyncio
import secrets
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec

from functory.config import Settings
from functory.errors import InvalidBackup, InvalidConfig, NotEmpty, StillRunning, TransferFailed
from functory.transfer.backup import Say
from functory.transfer.backup_layout import (
    CACHES,
    DATA,
    DATA_FILES,
    EMBEDDED_STORE,
    JOURNAL_FILES,
    JOURNALS,
    RESTORING,
    STORE,
    journals_in,
)
from functory.transfer.durable_files import copy_durably, hand_over, sole_use, sync_tree
from functory.transfer.manifest import Manifest, StoreEntry, check_files, describe_file, read_manifest
from functory.transfer.moves import Moves, process_that_uses
from journal import JournalLocked, OsDisk
from journal.disk import LOCK_NAME
from journal.durable import make_folder, sync_folder
from journal.inspect import reports
from store.base import Store
from store.names import MAX_SYSIDS_SKIPPED
from store.url import open_store
from vocabulary.time_text import compact_time

_SIDE_FILES: Final = ("", "-wal", "-shm")
"""Suffixes of the files that make up an embedded store."""
_REPLACED: Final = "replaced-"
_OF_THE_VOLUME: Final = "lost+found"

P = ParamSpec("P")


async def restore_backup(
    folder: Path,
    settings: Settings,
    *,
    now_ms: int,
    replace: bool = False,
    say: Say = lambda _: None,
    warn: Say = lambda _: None,
) -> Manifest:
    """Fill the data directory of the settings, and the file of the store that they name, from a backup.

    Who is cancelled before things are moved into place finds everything as it was. After that the restore is finished
    first, and `warn` says so. The locks are held until then.

    Raises InvalidBackup (naming the bad files), NotEmpty (unless replace; or a journal there is a symbolic link),
    StillRunning (a daemon uses the directory or the store), InvalidConfig (the backup has an embedded store and
    the settings name a server), SchemaTooNew, and what file systems raise. After any of these, nothing has changed.
    """
    manifest = await asyncio.to_thread(read_manifest, folder)
    say(f"verifying {len(manifest.files)} files")
    await asyncio.to_thread(check_files, folder, manifest)
    store_file = await asyncio.to_thread(_store_file, settings, manifest)
    await asyncio.to_thread(make_folder, settings.data_dir)
    stage = settings.data_dir / RESTORING
    with sole_use(settings.data_dir), await asyncio.to_thread(_hold_journals, settings.data_dir):
        if store_file is not None:
            await asyncio.to_thread(_require_unused, settings.data_dir, store_file)
        if replace:
            await asyncio.to_thread(_require_no_links, settings.data_dir, manifest)
        was_interrupted = await asyncio.to_thread(_prepare, stage, store_file, replace=replace)
        try:
            say("copying")
            await _finish(_copy_all, folder, stage, manifest)
            say("checking what was copied")
            await asyncio.to_thread(_check_journals, stage, manifest)
            if manifest.store is not None:
                await _check_store(open_store(settings.store_url).at(stage / STORE), manifest.store)
            await _finish(hand_over, stage, settings.data_dir)
        except BaseException:
            await asyncio.to_thread(_give_up, stage, was_interrupted=was_interrupted)
            raise
        try:
            await _finish(_put_in_place, stage, store_file, compact_time(now_ms))
        except OSError:
            await asyncio.to_thread(_give_up, stage, was_interrupted=was_interrupted)
            raise
        except asyncio.CancelledError:
            warn(f"the interruption came too late: {settings.data_dir} is restored")
            raise
    return manifest


async def _finish(work: Callable[P, None], *given: P.args, **named: P.kwargs) -> None:
    """Do it in a thread. Who is cancelled waits for its end, because a thread goes on by itself; if it fails, that is
    what is raised."""
    done = asyncio.get_running_loop().run_in_executor(None, partial(work, *given, **named))
    cancelled: asyncio.CancelledError | None = None
    while not done.done():
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError as error:
            cancelled = error
    done.result()
    if cancelled is not None:
        raise cancelled


def _store_file(settings: Settings, manifest: Manifest) -> Path | None:
    """Where the store of the backup goes; None if the backup has no store."""
    if manifest.store is None:
        return None
    file = open_store(settings.store_url).file
    if file is None:
        raise InvalidConfig(
            "the backup holds an embedded store and the settings name a server: restore it with an empty --store,"
            " then move it with `functory migrate`"
        )
    return file


def _hold_journals(data_dir: Path) -> ExitStack:
    """Hold the locks of all journals in the directory: until the stack is closed, no daemon runs on them or starts."""
    with ExitStack() as held:
        for path in journals_in(data_dir):
            disk = OsDisk(path)
            try:
                disk.lock()
            except JournalLocked as error:
                raise StillRunning(f"{error}: stop the daemon first") from None
            held.callback(disk.unlock)
            hand_over(path / LOCK_NAME, data_dir)  # the lock of a journal that no daemon has used was made just now
        return held.pop_all()


def _require_unused(data_dir: Path, store_file: Path) -> None:
    """Daemons of other data directories may use the store that would be moved away."""
    for file in {data_dir / EMBEDDED_STORE, store_file}:
        pid = process_that_uses(file)
        if pid is not None:
            raise StillRunning(
                f"{file} is in use{f' by process {pid}' if pid else ''}: stop all daemons of this store first, also"
                " those of other data directories"
            )


def _require_no_links(data_dir: Path, manifest: Manifest) -> None:
    """A plain folder in the place of a link would put the journal on another disk, and nobody would know."""
    names = {path.name for path in journals_in(data_dir)} | {journal.name for journal in manifest.journals}
    for link in (data_dir / name for name in sorted(names)):
        if link.is_symlink():
            raise NotEmpty(
                f"{link} is a symbolic link to {link.readlink()}, and a restore would put a plain folder in its place:"
                " remove the link (the folder behind it stays), restore, then move the journal to that disk and make"
                " the link again"
            )


def _give_up(stage: Path, *, was_interrupted: bool) -> None:
    shutil.rmtree(stage, ignore_errors=True)
    if was_interrupted:  # the files beside it are of the earlier attempt, and incomplete
        make_folder(stage)


def _prepare(stage: Path, store_file: Path | None, *, replace: bool) -> bool:
    """Make an empty `.restoring`. Returns whether an interrupted restore had left one; its files are
    copies from a backup."""
    data_dir = stage.parent
    was_interrupted = stage.exists()
    if store_file is None and (stage / STORE).exists():
        raise NotEmpty(
            f"{data_dir} holds a restore that was interrupted while it put a store into place: restore that backup"
            " again with --replace, and then this one"
        )
    if not replace:
        if was_interrupted:
            raise NotEmpty(f"{data_dir} holds a restore that was interrupted: restore again with --replace")
        found = sorted(path.name for path in data_dir.iterdir() if path.name != _OF_THE_VOLUME)
        if found:
            raise NotEmpty(
                f"{data_dir} is not empty (it has {', '.join(found[:3])}): name another --data-dir, or use --replace,"
                " which moves what is there aside"
            )
        if store_file is not None and store_file.exists():
            raise NotEmpty(f"{store_file} already exists: choose another --store, or use --replace")
    shutil.rmtree(stage, ignore_errors=True)
    make_folder(stage)
    sync_folder(data_dir)
    return was_interrupted


def _copy_all(folder: Path, stage: Path, manifest: Manifest) -> None:
    for file in manifest.files:
        make_folder((stage / file.path).parent)
        copy_durably(folder / file.path, stage / file.path)
        if describe_file(stage, file.path) != file:
            raise InvalidBackup(f"{file.path} arrived in {stage} with other content: check both disks")


def _check_journals(stage: Path, manifest: Manifest) -> None:
    for journal in manifest.journals:
        found = list(reports(OsDisk(stage / JOURNALS / journal.name)))
        lines = sum(report.lines for report in found)
        if lines != journal.lines:
            raise InvalidBackup(f"journal {journal.name} has {lines} lines and should have {journal.lines}")


async def _check_store(store: Store, expected: StoreEntry) -> None:
    """Compare its content with the manifest, then separate it from the original."""
    records = await store.verify(quick=True)
    if records != expected.records:
        raise InvalidBackup(f"the store holds {records} and should hold {expected.records}")
    async with store:
        await part_from_past(store)


async def part_from_past(store: Store) -> int:
    """Let a copy start a life of its own. Returns how many daemons of the original it forgot."""
    return await store.forget_daemons(skip=1 + secrets.randbelow(MAX_SYSIDS_SKIPPED))


def _put_in_place(stage: Path, store_file: Path | None, time: str) -> None:
    """Move everything into place. Each step is a rename; until the last is done, `.restoring` keeps daemons away.

    After an OSError everything is where it was. Raises TransferFailed if that did not work either.
    """
    moves = Moves()
    try:
        _move_all(moves, stage, store_file, time)
    except OSError as error:
        try:
            moves.undo()
        except OSError as second:
            raise TransferFailed(
                f"{error}. Not everything could be put back ({second}): no daemon starts on {stage.parent} before"
                " `functory restore` with --replace has succeeded"
            ) from error
        if store_file is not None:
            _near(store_file).unlink(missing_ok=True)
        with suppress(OSError):
            (stage.parent / f"{_REPLACED}{time}").rmdir()
        raise
    shutil.rmtree(stage)
    sync_folder(stage.parent)


def _move_all(moves: Moves, stage: Path, store_file: Path | None, time: str) -> None:
    data_dir = stage.parent
    new = [*stage.glob(f"{JOURNALS}/*"), *stage.glob(f"{DATA}/*")]
    old = _own_files(data_dir, {path.name for path in new}, with_store=store_file is not None)
    if old:
        aside = make_folder(data_dir / f"{_REPLACED}{time}")
        for path in old:
            moves.move(path, aside / path.name)
        hand_over(aside, data_dir)
        sync_folder(aside)
    if store_file is not None:
        _place_store(moves, stage / STORE, store_file, time)
    for path in new:
        moves.move(path, data_dir / path.name)
        if (data_dir / path.name).is_dir():
            sync_tree(data_dir / path.name)
    sync_folder(data_dir)


def _own_files(data_dir: Path, names: set[str], *, with_store: bool) -> list[Path]:
    """What a daemon has made in the directory, and whatever has one of these names. Anything else stays: `lost+found`
    of a volume, other data directories below this one, the key for secrets, which no backup has; and the store, unless
    another takes its place."""
    # A restore that was interrupted may have moved a journal, and not yet what lies beside it.
    beside = {
        name + suffix for name in (*names, *(path.name for path in journals_in(data_dir))) for suffix in JOURNAL_FILES
    }
    names = {*beside, *DATA_FILES, *CACHES}
    return [
        path
        for path in data_dir.iterdir()
        if path.name in names or (with_store and path.name.startswith(EMBEDDED_STORE))
    ]


def _near(store_file: Path) -> Path:
    return store_file.with_name(f"{store_file.name}{RESTORING}")


def _place_store(moves: Moves, staged: Path, store_file: Path, time: str) -> None:
    """Put the store into place, which may be outside the data directory and on another file system."""
    data_dir = staged.parent.parent
    missing = [folder for folder in store_file.parents if not folder.exists()]
    make_folder(store_file.parent)
    for folder in missing:
        hand_over(folder, data_dir)
    for suffix in _SIDE_FILES:
        old = store_file.with_name(store_file.name + suffix)
        if old.exists():
            moves.move(old, old.with_name(f"{store_file.name}.{_REPLACED}{time}{suffix}"))
    near = _near(store_file)
    near.unlink(missing_ok=True)
    copy_durably(staged, near)
    hand_over(near, data_dir)
    moves.move(near, store_file)
    sync_folder(store_file.parent)
