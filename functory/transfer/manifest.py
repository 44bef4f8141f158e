"""The manifest: what a backup holds, with sizes and checksums, and where it was taken.

Ensures: a manifest that was read is intact (it has a checksum of its own) and names only files inside the backup. It is
written last, so a folder without one is not a backup.
"""

import hashlib
import re
from pathlib import Path
from typing import Final

import msgspec

from functory.errors import InvalidBackup

NAME: Final = "manifest.json"
FORMAT: Final = 1

_PATH: Final = re.compile(r"(?!\.)[\w.-]+(/(?!\.)[\w.-]+){0,2}", re.ASCII)
_CHUNK_BYTES: Final = 1 << 20


class FileEntry(msgspec.Struct, frozen=True):
    path: str
    size_bytes: int
    sha256: str


class JournalEntry(msgspec.Struct, frozen=True):
    """sysid is of the daemon that wrote the newest segment. damages counts the damaged places in the original."""

    name: str
    sysid: str
    segments: int
    lines: int
    damages: int


class StoreEntry(msgspec.Struct, frozen=True):
    """records are counted by kind, as the back end names them."""

    schema: int
    records: dict[str, int]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """store is None for a backup of journals alone."""

    format: int = FORMAT
    functory: str
    began_ms: int
    host: str
    data_dir: str
    journals: list[JournalEntry]
    store: StoreEntry | None
    files: list[FileEntry]


class _Format(msgspec.Struct):
    format: int


class _Sealed(msgspec.Struct):
    sha256: str
    manifest: msgspec.Raw


def encode_manifest(manifest: Manifest) -> bytes:
    """Raises InvalidBackup if it names a file that no restore would accept."""
    _check_paths(manifest, NAME)
    body = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    return b'{"sha256": "%b",\n"manifest": %b}' % (hashlib.sha256(body).hexdigest().encode(), body)


def read_manifest(folder: Path) -> Manifest:
    """Raises InvalidBackup, naming the file and what is wrong with it."""
    path = folder / NAME
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise InvalidBackup(f"{path} is missing: {folder} is no backup, or one that was not finished") from None
    try:
        sealed = msgspec.json.decode(text, type=_Sealed)
        body = bytes(sealed.manifest)
        if hashlib.sha256(body).hexdigest() != sealed.sha256:
            raise InvalidBackup(f"{path} is damaged: its checksum does not fit")
        found = msgspec.json.decode(body, type=_Format).format
        if found != FORMAT:
            raise InvalidBackup(f"{path} has format {found}, and this version of Functory reads {FORMAT}")
        manifest = msgspec.json.decode(body, type=Manifest)
    except msgspec.MsgspecError as error:
        raise InvalidBackup(f"{path} is damaged: {error}") from None
    _check_paths(manifest, str(path))
    return manifest


def _check_paths(manifest: Manifest, where: str) -> None:
    for file in manifest.files:
        if _PATH.fullmatch(file.path) is None:
            raise InvalidBackup(f"{where} names {file.path!r:.80}, which is no file of a backup")


def describe_file(folder: Path, path: str) -> FileEntry:
    digest = hashlib.sha256()
    size_bytes = 0
    with (folder / path).open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size_bytes += len(chunk)
    return FileEntry(path, size_bytes, digest.hexdigest())


def check_files(folder: Path, manifest: Manifest) -> None:
    """Compare every file with the manifest. Raises InvalidBackup, naming each that is missing or different."""
    problems = [problem for file in manifest.files if (problem := _problem(folder, file))]
    if problems:
        raise InvalidBackup(f"the backup {folder} is damaged: {'; '.join(problems)}")


def _problem(folder: Path, expected: FileEntry) -> str:
    try:
        found = describe_file(folder, expected.path)
    except FileNotFoundError:
        return f"{expected.path} is missing"
    if found.size_bytes != expected.size_bytes:
        return f"{expected.path} has {found.size_bytes} bytes and should have {expected.size_bytes}"
    return "" if found == expected else f"{expected.path} has other content than when it was written"
