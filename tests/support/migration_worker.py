"""A process that moves a store until it is killed, and tells on its standard output how far it has come.

python -m tests.support.migration_worker FROM_URL TO_URL
"""

import asyncio
import sys

from functory.transfer.migrate import migrate
from store.url import open_store
from store.values.transfer import Part
from tests.support.jobs import T0

PAGE_RECORDS = 20
LATER = T0 + 10**6


def tell(done: str, part: Part, count: int) -> None:
    sys.stdout.write(f"{done} {part} {count}\n")
    sys.stdout.flush()


async def main(source_url: str, target_url: str) -> None:
    async with open_store(source_url) as source, open_store(target_url) as target:
        await migrate(
            source,
            target,
            label="the source",
            now_ms=lambda: LATER,
            page_records=PAGE_RECORDS,
            on_progress=tell,
        )


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
