"""Files of folders in the store: pieces by digest, each once per tenant, and the list of them that names a folder.

Ensures: the pieces of a folder are in the store before its list, and the list before any version that refers to it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from handlers.errors import InvalidHandlerError
from handlers.folders.limits import PIECE_BYTES
from handlers.folders.manifest import LIST_BEGINS, FileEntry, Manifest, digest_of
from handlers.folders.names import FIELD
from store.base import Content, Store
from store.errors import StoreCorrupt
from store.names import MAX_CONTENTS_AT_ONCE

_BATCH_BYTES: Final = 2 * PIECE_BYTES
_BATCH_PIECES: Final = 500


async def find_manifest(store: Store, tenant: str, tree: str) -> Manifest | None:
    """Raises StoreCorrupt if what is there is no list of files."""
    found = await store.get_contents(tenant, [tree])
    if not found:
        return None
    try:
        return await asyncio.to_thread(_decode, found[0].data, tree)
    except ValueError as error:
        raise StoreCorrupt(f"the folder {tree} of {tenant} cannot be read: {error}") from error


def _decode(data: bytes, tree: str) -> Manifest:
    if digest_of(data) != tree:
        raise ValueError("its list of files is not what its digest says")
    return Manifest.decode(data)


async def get_manifest(store: Store, tenant: str, tree: str) -> Manifest:
    """Raises InvalidHandlerError when the tenant has no such folder."""
    try:
        manifest = await find_manifest(store, tenant, tree)
    except StoreCorrupt:  # the digest of a file, as a rule: the tenant has said which it is
        manifest = None
    if manifest is None:
        raise InvalidHandlerError("tree", "is not a folder of this tenant, or not any more: send the folder again")
    return manifest


async def touch(store: Store, tenant: str, manifest: Manifest, now_ms: int) -> set[str]:
    """Have nobody collect what is there of a folder, and say which of its pieces are missing."""
    wanted = [*manifest.pieces(), manifest.digest]
    found: set[str] = set()
    for start in range(0, len(wanted), MAX_CONTENTS_AT_ONCE):
        part = wanted[start : start + MAX_CONTENTS_AT_ONCE]
        found.update(await store.touch_contents(tenant, part, now_ms=now_ms))
    return set(wanted) - found


async def put_pieces(
    store: Store, tenant: str, pieces: Iterator[tuple[str, bytes]], missing: set[str], now_ms: int
) -> None:
    """Keep those pieces that are missing. They are made in a thread, some at a time. Raises InvalidHandlerError for one
    that could be taken for a list: it would say of other pieces what nobody has checked."""
    while batch := await asyncio.to_thread(_next_batch, pieces, missing):
        await store.put_contents(tenant, [Content(tenant, digest, now_ms, data) for digest, data in batch.items()])


def _next_batch(pieces: Iterator[tuple[str, bytes]], missing: set[str]) -> dict[str, bytes]:
    batch: dict[str, bytes] = {}
    size_bytes = 0
    for digest, data in pieces:
        if digest in missing:
            if data.startswith(LIST_BEGINS):
                raise InvalidHandlerError(
                    FIELD, "have one that reads as the list of a folder's files: begin it otherwise"
                )
            missing.discard(digest)
            batch[digest] = data
            size_bytes += len(data)
            if size_bytes >= PIECE_BYTES or len(batch) >= _BATCH_PIECES:
                break
    return batch


async def put_manifest(store: Store, tenant: str, manifest: Manifest, now_ms: int) -> None:
    await store.put_contents(tenant, [Content(tenant, manifest.digest, now_ms, manifest.encoded)])


async def read_pieces(
    store: Store, tenant: str, files: Iterable[FileEntry]
) -> AsyncIterator[list[tuple[FileEntry, bytes]]]:
    """The bytes of files, in order, some pieces at a time; each piece with its file. Raises StoreCorrupt."""
    for batch in _in_batches(files):
        contents = await store.get_contents(tenant, sorted({digest for _, digest, _ in batch}))
        found = {content.digest: content.data for content in contents}
        yield await asyncio.to_thread(_checked, batch, found)


class _Piece(NamedTuple):
    entry: FileEntry
    digest: str
    size_bytes: int


def _in_batches(files: Iterable[FileEntry]) -> Iterator[list[_Piece]]:
    batch: list[_Piece] = []
    size_bytes = 0
    for entry in files:
        for digest, piece_bytes in entry.sizes():
            if batch and (size_bytes + piece_bytes > _BATCH_BYTES or len(batch) >= _BATCH_PIECES):
                yield batch
                batch, size_bytes = [], 0
            batch.append(_Piece(entry, digest, piece_bytes))
            size_bytes += piece_bytes
    if batch:
        yield batch


def _checked(batch: Sequence[_Piece], found: Mapping[str, bytes]) -> list[tuple[FileEntry, bytes]]:
    for digest, size_bytes in {(piece.digest, piece.size_bytes) for piece in batch}:
        data = found.get(digest)
        if data is None or len(data) != size_bytes or digest_of(data) != digest:
            what = "is missing" if data is None else "is not what its digest and the list of files say"
            raise StoreCorrupt(f"the piece {digest} of a handler's files {what}")
    return [(piece.entry, found[piece.digest]) for piece in batch]


async def read_file(store: Store, tenant: str, entry: FileEntry) -> bytes:
    """A whole file: the caller bounds its size."""
    return b"".join([data async for batch in read_pieces(store, tenant, [entry]) for _, data in batch])
