"""Programs that do what must survive a power cut, and mark what they would tell somebody. Run under a tracer.

Usage: python -m tests.support.durable_programs NAME FOLDER
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from functory.config import Settings, load_config
from functory.intake.intake import Intake
from functory.loops.shared import make_shared
from functory.transfer.backup import make_backup
from functory.transfer.restore import restore_backup
from journal import Journal, JournalOptions
from store.base import NewJob, Tenant
from store.errors import InvalidValue
from store.url import open_store
from tests.support.jobs import JOBTYPE, OWNER, T0, TENANT, archive, claim, new_jobs
from tests.support.syscalls import mark
from vocabulary.clock import SystemClock

SMALL = JournalOptions(segment_bytes=8192, recent_bytes=0)
LINE = "x" * 1500
REFUSED = b"refused"


async def journal(folder: Path) -> None:
    """Writes over several segments; then everything is read and the position kept here."""
    async with Journal(folder / "journal", "a1", SMALL) as opened:
        mark("opened")
        for _ in range(20):
            await opened.write(JOBTYPE, [LINE])
            mark("acknowledged")
        while reservation := await opened.read_reserve(3, 60):
            await opened.read(reservation)
            await opened.rsync(reservation)
            mark("read")
    mark("closed")


async def recovery(folder: Path) -> None:
    async with Journal(folder / "journal", "a1", SMALL):
        mark("opened")


async def intake(folder: Path) -> None:
    """Lines go from the journal to the store, which keeps the position and refuses some."""
    options = JournalOptions(segment_bytes=8192, recent_bytes=0, sync_cursor=False)
    async with (
        open_store(f"sqlite://{folder}/store.db") as store,
        Journal(folder / "journal", "a1", options) as opened,
    ):
        shared = make_shared(store, opened, SystemClock(), "a1", None)
        intake = Intake(shared, reader="reader", earlier=tuple, rejects=folder / "rejected.jsonl")
        loops = asyncio.create_task(intake.run())
        add_jobs = store.add_jobs

        async def refuse_some(jobs: Sequence[NewJob], **more: Any) -> Any:
            if any(job.data == REFUSED for job in jobs):
                raise InvalidValue("this one will never do")
            return await add_jobs(jobs, **more)

        vars(store)["add_jobs"] = refuse_some
        for number in range(20):
            await intake.write(JOBTYPE, [REFUSED if number % 10 == 5 else LINE.encode()])
            mark("acknowledged")
            await intake.flush()
            mark("flushed")
        loops.cancel()
        await asyncio.gather(loops, return_exceptions=True)
    mark("closed")


async def store(folder: Path) -> None:
    async with open_store(f"sqlite://{folder}/store.db") as opened:
        mark("opened")
        await opened.create_tenant(Tenant(TENANT, T0))
        mark("acknowledged")
        await opened.add_jobs(new_jobs(50), now_ms=T0)
        mark("acknowledged")
        jobs = await claim(opened)
        mark("acknowledged")
        await opened.release_jobs(OWNER, [archive(job) for job in jobs], now_ms=T0)
        mark("acknowledged")
    mark("closed")


async def migrate(folder: Path) -> None:
    async with open_store(f"sqlite://{folder}/store.db"):
        mark("opened")


async def backup(folder: Path) -> None:
    await make_backup(settings_of(folder), folder / "backup", now_ms=T0)
    mark("backed up")


async def restore(folder: Path) -> None:
    await restore_backup(folder / "backup", settings_of(folder), now_ms=T0, replace=True)
    mark("restored")


def settings_of(folder: Path) -> Settings:
    given = {"data_dir": str(folder / "place" / "data"), "store": f"sqlite://{folder}/store.db"}
    return load_config(given, environ={}).settings


PROGRAMS: dict[str, Callable[[Path], Awaitable[None]]] = {
    program.__name__: program for program in (journal, recovery, intake, store, migrate, backup, restore)
}


async def main() -> None:
    await PROGRAMS[sys.argv[1]](Path(sys.argv[2]))


if __name__ == "__main__":
    asyncio.run(main())
