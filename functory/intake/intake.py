"""The front of the intake: lines in, ids out, and the two loops that carry the lines to the store.

Lines are durable in the journal when `write` returns. The reader moves them to the store in the order of the journal.
While it has a backlog, lines of tenants that have nothing in it go past (backlog.py).
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from functory.intake.backlog import Backlog
from functory.intake.job_options import PLAIN, JobOptions
from functory.intake.journal_reader import JournalReader
from functory.intake.passed_lines import PassedLines
from functory.intake.straight_intake import StraightIntake
from functory.intake.weights import Weight
from functory.loops.shared import Shared
from journal import Settled
from store.base import JournalPosition, NewJob


class Intake:
    """Implements `operations.protocols.Intake`. `reader` is the name under which the store keeps the position, for
    `earlier` see passed_lines.py."""

    def __init__(self, shared: Shared, *, reader: str, earlier: Callable[[], tuple[str, ...]], rejects: Path) -> None:
        self.reader = reader
        self._backlog = Backlog(shared)
        lines = PassedLines(shared.journal, reader, shared.owner, earlier)
        self._reader = JournalReader(shared, self._backlog, lines, rejects=rejects)
        self.is_held = self._backlog.is_held
        """Whether the line of a job is on the straight way, and the job not in the store yet."""
        self.in_line = self._backlog.in_line
        """Lines of a tenant on the long way that the store does not have."""

    def when_added(self, listener: Callable[[Iterable[str]], None]) -> None:
        """The listener is told the types of jobs that were added to the store."""
        self._backlog.when_added(listener)
        self._reader.when_added(listener)

    def when_deferred(self, listener: Callable[[], None]) -> None:
        """The listener is told when jobs were added to the store that may be due later."""
        self._reader.when_deferred(listener)

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._reader.run(), name="journal reader")
            loops.create_task(self._backlog.run(), name="backlog")

    async def write(
        self, jobtype: str, lines: list[bytes], options: JobOptions = PLAIN, notes: Sequence[str] = ()
    ) -> list[str]:
        """notes: about the jobs that they follow, one for each line or none (vocabulary/origin.py)."""
        return await self._backlog.write(jobtype, lines, options, notes)

    def begin(self, jobtype: str, lines: list[bytes], told: Settled) -> list[str]:
        ids = self._backlog.begin(jobtype, lines, told)
        return ids if isinstance(ids, list) else list(ids)

    async def flush(self, tenant: str = "") -> None:
        await self._reader.flush(tenant)

    def unstored(self, tenant: str) -> Weight:
        """Lines of the tenant that were accepted since the start, or are being written, and that the store lacks."""
        return self._backlog.unstored(tenant)

    # Lines on the straight way

    def use(self, straight: StraightIntake) -> None:
        """Lines that it admits go to it when they are durable, and not to the store."""
        self._backlog.use(straight)

    def may_follow(self) -> dict[str, int]:
        """Lines that wait, by type, whose jobs may have run before the store has them."""
        return self._backlog.may_follow()

    async def arrived(self, ids: Sequence[str], position: JournalPosition | None = None) -> None:
        """The store has these, and that position."""
        self._reader.kept(position)
        await self._reader.arrived(ids)

    def return_to_line(self, jobs: Sequence[NewJob]) -> None:
        """Jobs that were taken and not started go to the store with the other lines."""
        self._reader.return_to_line(jobs)

    def position(self) -> JournalPosition | None:
        """The journal's position, if the store should learn it. To be committed with anything that is written."""
        return self._reader.position()

    async def keep_position(self) -> None:
        """What was read and is done with is not read again after a crash. Raises StoreUnavailable."""
        await self._reader.keep_position()

    def lag_ms(self, now_ms: int) -> int:
        """Age of the oldest line that is not in the store."""
        return self._reader.lag_ms(now_ms)

    def hold_off(self, reason: str) -> None:
        """The store is not there yet, so nobody reads the journal: `flush` refuses. Empty: it is there."""
        self._reader.trouble = reason

    @property
    def trouble(self) -> str:
        """Why the store does not take lines now; empty when it does."""
        return self._reader.trouble
