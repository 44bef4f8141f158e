"""A job in four bytes, for sets of jobs that only say where to look: two jobs with one mark cost a look. The same for
workers by their names."""

import zlib


def mark_of(name: str) -> int:
    return zlib.crc32(name.encode())
