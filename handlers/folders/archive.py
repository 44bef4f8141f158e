"""An archive read whole, twice: once to check and list it, once to hand out its pieces. Nothing is kept meanwhile, so
that a folder costs as much memory as its archive and one piece."""

from collections.abc import Iterator
from typing import Final, Literal

from handlers.errors import InvalidHandlerError
from handlers.folders.limits import FolderLimits
from handlers.folders.manifest import FileEntry, Manifest, digest_of
from handlers.folders.member import Member
from handlers.folders.names import FIELD, NameBook, clean_name, refuse
from handlers.folders.tar import tar_members
from handlers.folders.zip import zip_members

ArchiveKind = Literal["tar", "zip"]

KIND_OF_CONTENT_TYPE: Final[dict[str, ArchiveKind]] = {
    "application/x-tar": "tar",
    "application/gzip": "tar",
    "application/x-gzip": "tar",
    "application/x-gtar": "tar",
    "application/zip": "zip",
    "application/x-zip-compressed": "zip",
}


def list_archive(packed: bytes, kind: ArchiveKind, limits: FolderLimits) -> Manifest:
    """Read all of it, and list its files. Raises InvalidHandlerError, naming the file that is wrong."""
    if len(packed) > limits.packed_bytes:
        raise InvalidHandlerError(FIELD, f"are packed in {len(packed)} bytes, at most {limits.packed_bytes} are taken")
    files: list[FileEntry] = []
    book = NameBook()
    left_bytes = limits.unpacked_bytes
    for count, member in enumerate(_members(packed, kind, limits), 1):
        if count > 2 * limits.files or len(files) >= limits.files + member.is_folder:
            raise InvalidHandlerError(FIELD, f"are more than {limits.files}: leave out what the handler does not need")
        name = clean_name(member.name)
        if member.is_folder:
            if name:
                book.add_folder(name)
            continue
        if not name:
            raise refuse(member.name, "is a file without a name")
        book.add_file(name)
        left_bytes -= member.size_bytes
        if left_bytes < 0:
            raise InvalidHandlerError(
                FIELD, f"have more than {limits.unpacked_bytes} bytes together, as {name!r} shows: send less"
            )
        pieces = tuple(digest_of(piece) for piece in member.pieces)
        files.append(FileEntry(name, member.size_bytes, member.is_executable, pieces))
    if not files:
        raise InvalidHandlerError(FIELD, "are missing: the archive is empty")
    return Manifest.of(files)


def archive_pieces(packed: bytes, kind: ArchiveKind, limits: FolderLimits) -> Iterator[tuple[str, bytes]]:
    """The pieces of all files of an archive that was listed, each with its digest; the same one may come again."""
    for member in _members(packed, kind, limits):
        for piece in member.pieces:
            yield digest_of(piece), piece


def read_member(packed: bytes, kind: ArchiveKind, limits: FolderLimits, name: str, most_bytes: int) -> bytes:
    """A file of an archive that was listed. Raises InvalidHandlerError if it is not there, or larger."""
    for member in _members(packed, kind, limits):
        if not member.is_folder and clean_name(member.name) == name:
            if member.size_bytes > most_bytes:
                raise refuse(name, f"has {member.size_bytes} bytes, at most {most_bytes} are taken")
            return b"".join(member.pieces)
    raise refuse(name, "is not in the folder")


def _members(packed: bytes, kind: ArchiveKind, limits: FolderLimits) -> Iterator[Member]:
    return zip_members(packed, limits) if kind == "zip" else tar_members(packed, limits)
