"""A program that writes lines under load and prints each id once it is acknowledged, until it is killed.

Usage: python -m tests.support.journal_writer DIRECTORY SYSID
"""

import asyncio
import os
import sys
from pathlib import Path

from journal import Journal, JournalOptions


async def write_for_ever(journal: Journal, writer: int) -> None:
    for turn in range(1_000_000):
        ids = await journal.write("acme-load", [f"{writer}:{turn}:{line}" for line in range(1 + turn % 7)])
        os.write(1, "".join(f"{id_} {writer}:{turn}:{line}\n" for line, id_ in enumerate(ids)).encode())


async def main() -> None:
    directory, sysid = Path(sys.argv[1]), sys.argv[2]
    async with Journal(directory, sysid, JournalOptions(segment_bytes=100_000)) as journal:
        await asyncio.gather(*[write_for_ever(journal, writer) for writer in range(8)])


if __name__ == "__main__":
    asyncio.run(main())
