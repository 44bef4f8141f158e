"""The files of a handler that is a folder, as pages show them: a list, one in the editor, what a version changed."""

from typing import Final, NamedTuple

from functory.operations import folders
from functory.operations.service import Service
from handlers.folders.manifest import FileEntry
from store.base import Handler as StoredHandler

MAX_CHANGED: Final = 20
"""Files of a version whose changes are shown."""
_MAX_TEXT_BYTES: Final = 128 * 1024
"""Of one such file."""


class FileRow(NamedTuple):
    name: str
    size_bytes: int
    is_open: bool


async def file_rows(service: Service, stored: StoredHandler | None, opened: str) -> list[FileRow]:
    """The files of a version; none if it is no folder."""
    files = await folders.list_files(service, stored) if stored is not None else ()
    return [FileRow(entry.name, entry.size_bytes, entry.name == opened) for entry in files]


async def changed_texts(
    service: Service, before: StoredHandler | None, after: StoredHandler, entry: str
) -> tuple[str, str]:
    """What both versions have in the files that differ, but for the entry, which is compared as the body."""
    old = {it.name: it for it in (await folders.list_files(service, before) if before is not None else ())}
    new = {it.name: it for it in await folders.list_files(service, after)}
    differing = sorted(name for name in old.keys() | new.keys() if name != entry and old.get(name) != new.get(name))
    sides = ["", ""]
    for name in differing[:MAX_CHANGED]:
        for side, (stored, files) in enumerate(((before, old), (after, new))):
            if stored is not None and name in files:
                sides[side] += f"\n\n{name}:\n" + await _shown(service, stored, files[name])
    if len(differing) > MAX_CHANGED:
        sides[1] += f"\n\n{len(differing) - MAX_CHANGED} more files differ: {', '.join(differing[MAX_CHANGED:])[:2000]}"
    return sides[0], sides[1]


async def _shown(service: Service, stored: StoredHandler, entry: FileEntry) -> str:
    text = None
    if entry.size_bytes <= _MAX_TEXT_BYTES:
        text = await folders.read_text(service, stored, entry.name)
    mode = "an executable file" if entry.is_executable else "a file"
    if text is None:
        first = entry.pieces[0][:12] if entry.pieces else ""
        return f"({mode} of {entry.size_bytes:,} bytes that is not shown, {first})"
    return f"({mode})\n{text}" if entry.is_executable else text
