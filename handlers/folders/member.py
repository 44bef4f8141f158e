"""What an archive has, one after the other."""

from collections.abc import Iterator
from typing import NamedTuple


class Member(NamedTuple):
    """A file, or a folder (without data). `name` is as the archive has it.

    `pieces` gives the bytes once, in order; what is not read is passed over when the next member is asked for.
    """

    name: str
    is_folder: bool
    size_bytes: int
    is_executable: bool
    pieces: Iterator[bytes]
