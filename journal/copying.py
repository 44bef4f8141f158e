"""A copy of a journal that is in use: taken by any process, without the lock, while lines are written and read.

What the copy is worth: every line that was acknowledged before the copying began is in it, unless its segment was
removed in the meantime, which happens only after the line is durable in the store. So whoever copies the journal first
and the store after it has every line in one of the two copies; the other way round a segment could vanish in between.

The segments are listed once, before any is copied. One that has a successor in the list grows no more, so the copy has
all the bytes that the successor's header vouches for. The last may end in a write that was under way: recovery cuts it
off, as after a crash.

Nothing is copied that is not of a journal: its folder may be a volume, with `lost+found`.
"""

from collections.abc import Collection
from typing import Final

from journal.cursor import CURSOR_NAME
from journal.disk import Disk, File, opened, write_all
from journal.segment import is_of_segment, segment_number

_CHUNK_BYTES: Final = 1 << 20


def copy_journal(source: Disk, target: Disk, *, also: Collection[str] = ()) -> list[str]:
    """Copy all files of the journal but the lock, and those named in `also`, into the empty directory `target`; returns
    their names. Durable on return.

    Raises OSError as the disks do; then the target is worth nothing.
    """
    segments = [name for name in source.names() if segment_number(name) is not None]
    copied = [name for name in segments if _copy(source, target, name)]
    # Looked for again: a damaged segment that was read up meanwhile goes on under another name.
    wanted = {CURSOR_NAME, *also}
    others = [
        name for name in source.names() if name in wanted or (is_of_segment(name) and segment_number(name) is None)
    ]
    copied += [name for name in others if _copy(source, target, name)]
    target.sync_directory()
    return sorted(copied)


def _copy(source: Disk, target: Disk, name: str) -> bool:
    """False if the file is not there any more: read up and removed, or renamed."""
    try:
        with opened(source, name) as file:
            _copy_bytes(file, target, name)
    except FileNotFoundError:
        return False
    return True


def _copy_bytes(file: File, target: Disk, name: str) -> None:
    """As much as the file has now: what is appended later was acknowledged later."""
    size = file.size()
    copy = target.create(name)
    try:
        for offset in range(0, size, _CHUNK_BYTES):
            write_all(copy, file.read(offset, min(_CHUNK_BYTES, size - offset)), offset)
        copy.sync()
    finally:
        copy.close()
