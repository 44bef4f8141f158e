"""Handlers that are folders: take an archive, keep its files, look at them, change some of them.

A folder lies in the store before a version refers to it. The text of its entry file is the handler's body: they are
the same in every version, whoever changes one of them.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from functory.errors import InvalidInput, Missing
from functory.execution.handler_document import decode_handler
from functory.folders.contents import find_manifest, get_manifest, put_manifest, put_pieces, read_file, touch
from functory.folders.packing import tar_pieces, tar_size
from functory.operations.principal import Principal
from functory.operations.service import Service
from handlers.errors import InvalidHandlerError
from handlers.folders.archive import ArchiveKind, archive_pieces, list_archive, read_member
from handlers.folders.manifest import FileEntry, Manifest, digest_of, entry_of, find_file, in_pieces
from handlers.folders.names import refuse
from handlers.folders.project import MAX_PROJECT_BYTES, PROJECT_FILE, complete_project, read_project
from handlers.languages import LANGUAGES
from handlers.model import Handler
from store.base import Handler as StoredHandler

MAX_TEXT_BYTES: Final = 1 << 20
"""Of a file that is shown or edited as text."""


class Archive(NamedTuple):
    packed: bytes
    kind: ArchiveKind


class Download(NamedTuple):
    """A folder as a tar."""

    pieces: AsyncIterator[bytes]
    size_bytes: int


async def take_archive(service: Service, who: Principal, archive: Archive, lang: str | None) -> dict[str, Any]:
    """Check an archive and keep its files. Returns the handler's fields. Raises InvalidHandlerError, QuotaExceeded."""
    async with service.folder_turns.of(who.tenant):
        manifest, fields = await asyncio.to_thread(_read, service, archive, lang)
        now_ms = service.now_ms()
        missing = await touch(service.store, who.tenant, manifest, now_ms)
        await _take_room(service, who, manifest, missing)
        pieces = archive_pieces(archive.packed, archive.kind, service.settings.folders)
        await put_pieces(service.store, who.tenant, pieces, missing - {manifest.digest}, now_ms)
        await put_manifest(service.store, who.tenant, manifest, now_ms)
    return fields


def _read(service: Service, archive: Archive, lang: str | None) -> tuple[Manifest, dict[str, Any]]:
    limits = service.settings.folders
    manifest = list_archive(archive.packed, archive.kind, limits)
    fields: dict[str, Any] = {}
    if PROJECT_FILE in manifest.by_name:
        fields = read_project(read_member(archive.packed, archive.kind, limits, PROJECT_FILE, MAX_PROJECT_BYTES))
    if lang is not None and fields.setdefault("lang", lang) != lang:
        raise InvalidInput(f"the query and {PROJECT_FILE} name different languages", detail={"field": "lang"})
    fields = complete_project(fields, manifest.by_name)
    language = LANGUAGES.get(str(fields["lang"]))
    most_bytes = MAX_TEXT_BYTES if language is None else language.body_max_bytes
    body = read_member(archive.packed, archive.kind, limits, fields["entry"], most_bytes)
    return manifest, {**fields, "body": _text(fields["entry"], body), "tree": manifest.digest}


async def settle_folder(service: Service, who: Principal, handler: Handler) -> Handler:
    """The handler with a folder that is whole, and whose entry file has the handler's body. Others as they are.

    Raises InvalidHandlerError, QuotaExceeded.
    """
    if not handler.tree:
        return handler
    store, tenant, now_ms = service.store, who.tenant, service.now_ms()
    manifest = await get_manifest(store, tenant, handler.tree)
    await asyncio.to_thread(manifest.check, service.settings.folders)
    entry = find_file(manifest, handler.entry)
    if await touch(store, tenant, manifest, now_ms):
        raise InvalidHandlerError("tree", "is not whole any more: send the folder again")
    body = handler.body.encode()
    if entry.pieces == entry_of(entry.name, body).pieces:
        return handler
    changed = await write_files(service, who, manifest, {handler.entry: body})
    return replace(handler, tree=changed.digest)


async def write_files(
    service: Service, who: Principal, manifest: Manifest, files: Mapping[str, bytes | None]
) -> Manifest:
    """A folder with some files written anew; None removes one. Raises InvalidHandlerError, QuotaExceeded."""
    old = manifest.by_name
    written = [
        entry_of(name, data, is_executable=name in old and old[name].is_executable)
        for name, data in files.items()
        if data is not None
    ]
    changed = manifest.with_files(written, [name for name, data in files.items() if data is None])
    changed.check(service.settings.folders)
    now_ms = service.now_ms()
    missing = await touch(service.store, who.tenant, changed, now_ms)
    await _take_room(service, who, changed, missing)
    given = ((digest_of(piece), piece) for data in files.values() if data is not None for piece in in_pieces(data))
    await put_pieces(service.store, who.tenant, given, missing - {changed.digest}, now_ms)
    await put_manifest(service.store, who.tenant, changed, now_ms)
    return changed


async def edit_file(service: Service, who: Principal, handler: Handler, name: str, text: str) -> dict[str, str]:
    """The fields `body` and `tree` of a folder in which one file has another text. Raises InvalidHandlerError."""
    if name == PROJECT_FILE:
        raise InvalidInput(
            f"{PROJECT_FILE} is read when the folder is deployed: change the settings instead, or deploy it"
        )
    manifest = await get_manifest(service.store, who.tenant, handler.tree)
    find_file(manifest, name)
    changed = await write_files(service, who, manifest, {name: text.encode("utf-8", "surrogatepass")})
    entry = await read_file(service.store, who.tenant, find_file(changed, handler.entry))
    return {"body": _text(handler.entry, entry), "tree": changed.digest}


async def list_files(service: Service, stored: StoredHandler) -> tuple[FileEntry, ...]:
    """The files of a version; none if it is no folder."""
    manifest = await _manifest_of(service, stored)
    return () if manifest is None else manifest.files


async def read_text(service: Service, stored: StoredHandler, name: str) -> str | None:
    """A file of a version as text; None if it is none, or too large to be shown. Raises InvalidHandlerError."""
    manifest = await _manifest_of(service, stored)
    entry = find_file(manifest or Manifest(()), name)
    if entry.size_bytes > MAX_TEXT_BYTES:
        return None
    try:
        text = (await read_file(service.store, _tenant(stored), entry)).decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


async def has_changed(service: Service, stored: StoredHandler, tree: str, name: str) -> bool:
    """Whether a file of a version is another one than in the folder `tree`. Raises InvalidHandlerError."""
    before = await get_manifest(service.store, _tenant(stored), tree)
    now = await _manifest_of(service, stored)
    return before.by_name.get(name) != (now or Manifest(())).by_name.get(name)


async def download_folder(service: Service, stored: StoredHandler) -> Download:
    """Raises Missing for a handler that is no folder."""
    manifest = await _manifest_of(service, stored)
    if manifest is None:
        raise Missing("this version of the handler is one text and no folder: ask for it without format=tar")
    return Download(tar_pieces(service.store, _tenant(stored), manifest), tar_size(manifest))


async def _manifest_of(service: Service, stored: StoredHandler) -> Manifest | None:
    tree = decode_handler(stored.data).tree
    return await find_manifest(service.store, _tenant(stored), tree) if tree else None


async def _take_room(service: Service, who: Principal, manifest: Manifest, missing: set[str]) -> None:
    sizes = {**manifest.pieces(), manifest.digest: len(manifest.encoded)}
    new_bytes = sum(sizes[digest] for digest in missing)
    if new_bytes:
        await service.admission.take_bytes(who.tenant, who.limits, new_bytes)


def _tenant(stored: StoredHandler) -> str:
    return stored.jobtype.partition("-")[0]


def _text(name: str, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise refuse(name, f"is not text in UTF-8: {error.reason} at byte {error.start}") from None
