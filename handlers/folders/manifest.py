"""The list of a folder's files. Its digest names the folder: the same files make the same digest, in any archive."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from handlers.errors import InvalidHandlerError
from handlers.folders.limits import PIECE_BYTES, FolderLimits
from handlers.folders.names import FIELD, check_names, refuse

_FORMAT: Final = 1
LIST_BEGINS: Final = b'{"format":%d,"files":' % _FORMAT
"""No piece of a file may begin so: it would be taken for a list, which is kept in the same place."""
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class FileEntry(NamedTuple):
    """One file: its pieces by digest, each of PIECE_BYTES but for the last. An empty file has none."""

    name: str
    size_bytes: int
    is_executable: bool
    pieces: tuple[str, ...]

    def sizes(self) -> Iterable[tuple[str, int]]:
        """Each piece with its size."""
        for number, digest in enumerate(self.pieces):
            yield digest, min(PIECE_BYTES, self.size_bytes - number * PIECE_BYTES)


@dataclass(frozen=True)
class Manifest:
    files: tuple[FileEntry, ...]  # in order of name

    @classmethod
    def of(cls, files: Iterable[FileEntry]) -> "Manifest":
        return cls(tuple(sorted(files)))

    @cached_property
    def encoded(self) -> bytes:
        rows = [[name, size, is_executable, list(pieces)] for name, size, is_executable, pieces in self.files]
        return LIST_BEGINS + json.dumps(rows, separators=(",", ":")).encode() + b"}"

    @cached_property
    def digest(self) -> str:
        return digest_of(self.encoded)

    @cached_property
    def by_name(self) -> Mapping[str, FileEntry]:
        return {entry.name: entry for entry in self.files}

    @property
    def size_bytes(self) -> int:
        return sum(entry.size_bytes for entry in self.files)

    def pieces(self) -> dict[str, int]:
        """All pieces of all files, each once, with its size."""
        return {digest: size for entry in self.files for digest, size in entry.sizes()}

    def with_files(self, changed: Iterable[FileEntry], removed: Iterable[str]) -> "Manifest":
        """The folder with some files written anew or added, and others removed."""
        files = {name: entry for name, entry in self.by_name.items() if name not in set(removed)}
        return Manifest.of((files | {entry.name: entry for entry in changed}).values())

    def check(self, limits: FolderLimits) -> None:
        """Whether it is a folder that would be taken. Raises InvalidHandlerError."""
        if len(self.files) > limits.files:
            raise InvalidHandlerError(FIELD, f"are {len(self.files)}, at most {limits.files} are taken")
        if self.size_bytes > limits.unpacked_bytes:
            raise InvalidHandlerError(
                FIELD, f"have {self.size_bytes} bytes together, at most {limits.unpacked_bytes} are taken"
            )
        check_names(entry.name for entry in self.files)

    @classmethod
    def decode(cls, data: bytes) -> "Manifest":
        """Raises ValueError for what is no list of a folder that could have been sent: whoever sends files may write a
        list and send it as one of them, so nothing in it is believed."""
        try:
            document = json.loads(data)
            if document["format"] != _FORMAT:
                raise ValueError(
                    f"the list of files has format {document['format']!r:.20}, this version knows {_FORMAT}"
                )
            manifest = cls.of([_decoded(*row) for row in document["files"]])
            check_names(entry.name for entry in manifest.files)
        except (KeyError, TypeError, RecursionError, InvalidHandlerError) as error:
            raise ValueError("it is no list of files") from error
        return manifest


def _decoded(name: object, size_bytes: object, is_executable: object, pieces: object) -> FileEntry:
    if type(name) is not str or type(size_bytes) is not int or type(is_executable) is not bool:
        raise TypeError
    if not isinstance(pieces, list) or not all(isinstance(piece, str) and _DIGEST.fullmatch(piece) for piece in pieces):
        raise TypeError
    if size_bytes < 0 or len(pieces) != -(-size_bytes // PIECE_BYTES):
        raise ValueError("a file has not as many pieces as its size says")
    return FileEntry(name, size_bytes, is_executable, tuple(pieces))


def entry_of(name: str, data: bytes, *, is_executable: bool = False) -> FileEntry:
    """A file of these bytes."""
    pieces = tuple(digest_of(piece) for piece in in_pieces(data))
    return FileEntry(name, len(data), is_executable, pieces)


def in_pieces(data: bytes) -> list[bytes]:
    return [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)]


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def find_file(manifest: Manifest, name: str) -> FileEntry:
    """Raises InvalidHandlerError."""
    found = manifest.by_name.get(name)
    if found is None:
        raise refuse(name, "is not in the folder")
    return found
