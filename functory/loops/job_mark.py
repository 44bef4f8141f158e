"""A job in four bytes, for sets of jobs that only say where to look: two jobs with one mark cost a look."""

import zlib


def mark_of(job_id: str) -> int:
    return zlib.crc32(job_id.encode())
