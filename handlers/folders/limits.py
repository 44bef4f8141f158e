"""How much of a folder is taken."""

from dataclasses import dataclass
from typing import Final

from vocabulary.sizes import MIB

PIECE_BYTES: Final = 4 * MIB
"""A file is kept in pieces of this size."""
RATIO: Final = 200
"""How many times as large as its archive a folder of more than a megabyte may be: text packs ten times, a bomb a
thousand."""


@dataclass(frozen=True, slots=True)
class FolderLimits:
    packed_bytes: int = 10 * MIB
    unpacked_bytes: int = 50 * MIB
    files: int = 2000


DEFAULT_LIMITS: Final = FolderLimits()
