"""How lines get into a store, without a daemon: a journal, the backlog, a reader, a straight way that starts none."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from functory.intake.backlog import Backlog
from functory.intake.journal_reader import JournalReader
from functory.intake.passed_lines import PassedLines
from functory.loops.shared import make_shared
from journal import Journal
from store.base import NewJob, Store
from store.url import open_store
from vocabulary.clock import SystemClock

FLOOD = [b"x"] * 1000


class Intake:
    """A journal and a store with the backlog between them, and a reader that works when the test says so."""

    def __init__(self, journal: Journal, store: Store, rejects: Path) -> None:
        self.journal = journal
        self.store = store
        self.added: list[str] = []
        self.steps = 0
        self.passed = asyncio.Event()
        shared = make_shared(store, journal, SystemClock(), "a7")
        self.backlog = Backlog(shared)
        self.backlog.when_added(lambda _: self.passed.set())
        lines = PassedLines(journal, "test", "a7", tuple)
        self.reader = JournalReader(shared, self.backlog, lines, rejects=rejects)
        self.carrier = asyncio.create_task(self.backlog.run())
        real = store.add_jobs

        async def add_jobs(jobs: Any, **more: Any) -> Any:
            report = await real(jobs, **more)
            self.added += [job.id for job in jobs]
            self.steps += 1
            return report

        store.add_jobs = add_jobs  # type: ignore[method-assign]  # a spy on what is added, in which order

    async def read_all(self) -> None:
        """The reader comes by, as far as there is something, and stands still again."""
        reader = asyncio.create_task(self.reader.run())
        await self.reader.flush()
        await stop(reader)


class Straight:
    """A straight way that takes what one tenant brings and starts nothing."""

    def __init__(self, *, follows: bool = False) -> None:
        """follows: it takes what the reader comes to, too."""
        self.follows = follows
        self.jobs: list[NewJob] = []

    def admits(self, jobtype: str, _lines: Sequence[bytes]) -> bool:
        return jobtype.startswith("quiet-")

    def give_way(self, _jobtype: str, *, is_urgent: bool) -> None:
        """Nobody follows here."""

    def give_way_to_all(self) -> None:
        """Nobody waits here."""

    def take(self, jobs: Sequence[NewJob]) -> None:
        self.jobs += jobs

    def may_follow(self, jobtype: str, _lines: Sequence[bytes]) -> bool:
        return self.follows and not jobtype.startswith("idle-")

    def follow(self, jobs: Sequence[NewJob]) -> None:
        self.jobs += jobs

    async def room(self, _next_type: Callable[[], str | None]) -> None:
        """There is always room."""

    def look_for_room(self) -> None:
        """Nobody waits for it."""

    def may_run(self, jobtype: str) -> bool:
        return not jobtype.startswith("idle-")

    async def flush(self, _tenant: str) -> None:
        """Nothing starts here."""


@asynccontextmanager
async def an_intake(folder: Path) -> AsyncIterator[Intake]:
    async with open_store(f"sqlite://{folder}/store.db") as store, Journal(folder / "journal", "a7") as journal:
        intake = Intake(journal, store, folder / "rejected.jsonl")
        try:
            yield intake
        finally:
            await stop(intake.carrier)


async def stop(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
